package azfake_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func TestEachPartOfABatchHasItsOwnConditions(t *testing.T) {
	for name, opts := range map[string]*azfake.Options{"open": nil, "shared key": {Account: account, Key: key}} {
		t.Run(name, func(t *testing.T) {
			srv, cc := start(t, opts)
			bb, err := cc.NewBatchBuilder()
			require.NoError(t, err)
			for i, state := range []string{"pending", "committed", "pending", "leased"} {
				n := fmt.Sprint("dir/a ", i)
				put(t, cc, n, "x", &blockblob.UploadOptions{Tags: map[string]string{"state": state}})
				require.NoError(t, bb.Delete(n, &container.BatchDeleteOptions{DeleteOptions: blob.DeleteOptions{AccessConditions: ifTags(`"state" <> 'committed'`)}}))
			}
			_, err = leaseOf(t, cc, "dir/a 3", mine).AcquireLease(ctx, -1, nil)
			require.NoError(t, err)
			require.NoError(t, bb.Delete("absent", nil))

			res, err := cc.SubmitBatch(ctx, bb, nil)
			require.NoError(t, err)
			require.Len(t, res.Responses, 5)
			require.NoError(t, res.Responses[0].Error)
			requireCode(t, res.Responses[1].Error, 412, bloberror.ConditionNotMet)
			require.NoError(t, res.Responses[2].Error)
			requireCode(t, res.Responses[3].Error, 412, bloberror.LeaseIDMissing)
			requireCode(t, res.Responses[4].Error, 404, bloberror.BlobNotFound)
			for i, r := range res.Responses {
				require.Equal(t, i, *r.ContentID)
			}
			require.Equal(t, []string{"dir/a 1", "dir/a 3"}, srv.Names("box"))
			require.Equal(t, 1, srv.Count(azfake.OpBatch))
			require.Equal(t, 5, srv.Count(azfake.OpBatchDelete))
			require.Zero(t, srv.Count(azfake.OpDeleteBlob))
		})
	}
}

func TestABatchHasAtMost256Parts(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "a", "x", nil)
	bb, err := cc.NewBatchBuilder()
	require.NoError(t, err)
	for range 257 {
		require.NoError(t, bb.Delete("a", nil))
	}
	_, err = cc.SubmitBatch(ctx, bb, nil)
	require.ErrorContains(t, err, "ExceedsMaxBatchRequestCount")
	require.Equal(t, []string{"a"}, srv.Names("box"))
}

func TestABatchSetsTiersAcrossContainers(t *testing.T) {
	srv, cc := start(t, nil)
	other, err := srv.ContainerClient("other", nil)
	require.NoError(t, err)
	put(t, cc, "a", "x", nil)
	e := put(t, other, "b", "x", nil)
	sc, err := srv.ServiceClient(nil)
	require.NoError(t, err)
	bb, err := sc.NewBatchBuilder()
	require.NoError(t, err)
	require.NoError(t, bb.SetTier("box", "a", blob.AccessTierCool, nil))
	require.NoError(t, bb.SetTier("other", "b", blob.AccessTierCool, nil))
	require.NoError(t, bb.SetTier("other", "c", blob.AccessTierCool, nil))
	res, err := sc.SubmitBatch(ctx, bb, nil)
	require.NoError(t, err)
	require.NoError(t, res.Responses[0].Error)
	require.NoError(t, res.Responses[1].Error)
	requireCode(t, res.Responses[2].Error, 404, bloberror.BlobNotFound)
	p, err := other.NewBlobClient("b").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, "Cool", *p.AccessTier)
	require.Equal(t, e, *p.ETag)
}

func TestAContainersBatchStaysInItsContainer(t *testing.T) {
	srv, _ := start(t, nil)
	other, err := srv.ContainerClient("other", nil)
	require.NoError(t, err)
	put(t, other, "a", "x", nil)
	doc := "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /other/a HTTP/1.1\r\n\r\n\r\n--b--\r\n"
	send := func(target string) string {
		res, err := srv.HTTPClient().Post(srv.URL()+target, "multipart/mixed; boundary=b", strings.NewReader(doc))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(answer)
	}
	require.Contains(t, send("box?restype=container&comp=batch"), "HTTP/1.1 400 Bad Request")
	require.Equal(t, []string{"a"}, srv.Names("other"))
	require.Contains(t, send("?comp=batch"), "HTTP/1.1 202 Accepted")
	require.Empty(t, srv.Names("other"))
}

func TestAHookRefusesOnePartOfABatch(t *testing.T) {
	srv, cc := start(t, nil)
	bb, err := cc.NewBatchBuilder()
	require.NoError(t, err)
	for _, n := range []string{"a", "b"} {
		put(t, cc, n, "x", nil)
		require.NoError(t, bb.Delete(n, nil))
	}
	srv.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpBatchDelete && c.Blob == "a" {
			return azfake.Throttle(http.StatusServiceUnavailable, 0)
		}
		return azfake.Fault{}
	})
	res, err := cc.SubmitBatch(ctx, bb, nil)
	require.NoError(t, err)
	requireCode(t, res.Responses[0].Error, 503, bloberror.ServerBusy)
	require.NoError(t, res.Responses[1].Error)
	require.Equal(t, []string{"a"}, srv.Names("box"))
}
