package azfake_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

const account = "acct"

var key = base64.StdEncoding.EncodeToString([]byte("a key that opens nothing"))

// clock is a clock that moves when a test says so.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func start(t testing.TB, opts *azfake.Options) (*azfake.Server, *container.Client) {
	t.Helper()
	srv := azfake.New(opts)
	cc, err := srv.ContainerClient("box", nil)
	require.NoError(t, err)
	return srv, cc
}

func body(s string) io.ReadSeekCloser { return streaming.NopCloser(strings.NewReader(s)) }

func put(t testing.TB, cc *container.Client, name, data string, opts *blockblob.UploadOptions) azcore.ETag {
	t.Helper()
	res, err := cc.NewBlockBlobClient(name).Upload(context.Background(), body(data), opts)
	require.NoError(t, err)
	return *res.ETag
}

func get(t testing.TB, cc *container.Client, name string) string {
	t.Helper()
	res, err := cc.NewBlobClient(name).DownloadStream(context.Background(), nil)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(data)
}

func requireCode(t testing.TB, err error, status int, code bloberror.Code) {
	t.Helper()
	var re *azcore.ResponseError
	require.ErrorAs(t, err, &re)
	require.Equal(t, code, bloberror.Code(re.ErrorCode))
	require.Equal(t, status, re.StatusCode)
}

func ifMatch(e azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &e}}
}

func ifNoneMatch(e azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &e}}
}

func ifTags(q string) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfTags: &q}}
}

func withLease(id string) *blob.AccessConditions {
	return &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id}}
}

func blockID(n byte) string { return base64.StdEncoding.EncodeToString([]byte{n, 0, 0, 0}) }

func stage(t testing.TB, cc *container.Client, name string, ids ...byte) {
	t.Helper()
	for _, id := range ids {
		data := bytes.Repeat([]byte{'a' + id}, 3)
		_, err := cc.NewBlockBlobClient(name).StageBlock(context.Background(), blockID(id), streaming.NopCloser(bytes.NewReader(data)), nil)
		require.NoError(t, err)
	}
}

func ptr[T any](v T) *T { return &v }
