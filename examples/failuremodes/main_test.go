package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/testenv"
)

// lines is the whole output but for the headings.
const lines = `E rows=0 blobs=1
E blobtx rows=0 blobs=0
A rows=1 blobs=1 orphaned=1
A blobtx rows=1 blobs=0 orphaned=0
B rows=1 blobs=0
B blobtx rows=1 blobs=0
F rows=1 blobs=0
F blobtx rows=1 blobs=0
C before rows=2 pending=1 blobs=2
C after rows=1 blobs=1 swept=1
C blobtx before rows=1 pending=1 blobs=2
C blobtx after rows=1 blobs=1 swept=1
I Upload small without-options overwrote
I Upload small with-options overwrote
I Upload small create-only HTTP 409
I Upload above-256MiB without-options overwrote
I Upload above-256MiB with-options overwrote
I Upload above-256MiB create-only HTTP 409
I UploadStream small without-options overwrote
I UploadStream small with-options overwrote
I UploadStream small create-only HTTP 409
I UploadStream above-256MiB without-options overwrote
I UploadStream above-256MiB with-options overwrote
I UploadStream above-256MiB create-only HTTP 409
I UploadBuffer small without-options overwrote
I UploadBuffer small with-options overwrote
I UploadBuffer small create-only HTTP 409
I UploadBuffer above-256MiB without-options overwrote
I UploadBuffer above-256MiB with-options overwrote
I UploadBuffer above-256MiB create-only overwrote
I UploadFile small without-options overwrote
I UploadFile small with-options overwrote
I UploadFile small create-only HTTP 409
I UploadFile above-256MiB without-options overwrote
I UploadFile above-256MiB with-options overwrote
I UploadFile above-256MiB create-only overwrote
I blobtx small ErrForeignBlob
I blobtx above-256MiB ErrForeignBlob
G won=1 conflict=4 other=0 blobs=1
G blobtx won=1 conflict=4 other=0 blobs=1
K first size=12582912
K second HTTP 409
K uncommitted=3
K blobtx first size=12582912
K blobtx second ErrExists
K blobtx uncommitted=0
J pending deleted
J committed HTTP 412
J blobtx pending deleted
J blobtx committed ErrGuardRefused
M rows=1 blobs=0 dangling=1
M blobtx rows=1 blobs=1 dangling=0
`

// play returns the lines of one run, without the headings.
func play(t *testing.T, o options) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, o), out.String())
	return withoutLines(out.String(), "# ")
}

func withoutLines(text, with string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, with) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestTheLabInProcess(t *testing.T) {
	require.Equal(t, lines, play(t, options{fake: true, large: "all"}))
}

// The same against Azurite. The 13 uploads above 256 MiB are 3.3 GB, which take
// the emulator one to three minutes: without BLOBTX_TEST_LARGE=1 only the 5 with
// the create-only condition are done, in a third of that.
func TestTheLabOnAzurite(t *testing.T) {
	azure := testenv.Lookup(t, "Azurite", testenv.AzuriteEnv)
	want, large := withoutLines(lines, "above-256MiB with"), "create-only"
	if os.Getenv("BLOBTX_TEST_LARGE") == "1" {
		want, large = lines, "all"
	}
	require.Equal(t, want, play(t, options{azure: azure, large: large}))

	client, err := container.NewClientFromConnectionString(azure, "blobtx-failuremodes", nil)
	require.NoError(t, err)
	left := client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{UncommittedBlobs: true}})
	page, err := left.NextPage(t.Context())
	require.NoError(t, err)
	require.Empty(t, page.Segment.BlobItems)
}

// A container given by its URL is left as it was, blobs of others and all.
func TestNothingIsLeftBehind(t *testing.T) {
	server := azfake.New(&azfake.Options{AzuriteStaged: true}) // a delete leaves staged blocks alone
	server.MakeContainer("yours")
	listening := httptest.NewServer(server)
	defer listening.Close()
	url := listening.URL + "/" + azfake.DefaultAccount + "/yours"
	yours, err := container.NewClientWithNoCredential(url, nil)
	require.NoError(t, err)
	_, err = yours.NewBlockBlobClient("failuremodes").UploadBuffer(t.Context(), []byte("yours"), nil)
	require.NoError(t, err)

	got := play(t, options{azure: url, only: "AIKJ", large: "none"})
	require.Contains(t, got, "K uncommitted=3\n")
	require.NotContains(t, got, "E rows")
	require.Equal(t, []string{"failuremodes"}, server.Names("yours"))
	require.Empty(t, server.StagedNames("yours"))
}

func TestMistakesAreNamed(t *testing.T) {
	err := run(t.Context(), &bytes.Buffer{}, options{large: "all", azure: "AccountName=secretaccount;AccountKey=secretkey"})
	require.ErrorContains(t, err, "-azure is neither a URL nor a connection string")
	require.NotContains(t, err.Error(), "secret")
	require.EqualError(t, run(t.Context(), &bytes.Buffer{}, options{fake: true, only: "EX"}), "-only EX: there is no situation X")
	require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, options{fake: true, large: "some"}), "-large some: neither all")
	for _, azure := range []string{
		"BlobEndpoint=http://127.0.0.1:1/acct;SharedAccessSignature=sv=2020&sig=SECRETSIG",
		"http://127.0.0.1:1/%zz/container?sv=2020&sig=SECRETSIG",
	} {
		err := run(t.Context(), &bytes.Buffer{}, options{azure: azure, large: "all"})
		require.ErrorContains(t, err, "127.0.0.1:1")
		require.NotContains(t, err.Error(), "sig=")
	}

	// A refusal that no situation expects ends the lab with the letter's name.
	server := azfake.New(nil)
	server.MakeContainer("yours")
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if strings.HasSuffix(c.Blob, "/E/blob-1") {
			return azfake.Deny()
		}
		return azfake.Fault{}
	})
	listening := httptest.NewServer(server)
	defer listening.Close()
	err = run(t.Context(), &bytes.Buffer{}, options{azure: listening.URL + "/" + azfake.DefaultAccount + "/yours", large: "all"})
	require.EqualError(t, err, "E: 403 AuthorizationPermissionMismatch")
	require.Empty(t, server.Names("yours"))
}
