package azfake_test

import (
	"io"
	"log"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

// overSocket serves srv in the address style of an emulator.
func overSocket(t testing.TB, srv *azfake.Server, retries int32) *container.Client {
	t.Helper()
	web := httptest.NewUnstartedServer(srv)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.Start()
	t.Cleanup(web.Close)
	srv.MakeContainer("box")
	cred, err := container.NewSharedKeyCredential(account, key)
	require.NoError(t, err)
	o := &container.ClientOptions{}
	o.Transport = web.Client()
	o.Retry = policy.RetryOptions{MaxRetries: retries, RetryDelay: time.Millisecond}
	cc, err := container.NewClientWithSharedKeyCredential(web.URL+"/"+account+"/box", cred, o)
	require.NoError(t, err)
	return cc
}

func TestTheSDKOverASocket(t *testing.T) {
	srv := azfake.New(&azfake.Options{Account: account, Key: key})
	cc := overSocket(t, srv, -1)
	e := put(t, cc, "dir/a b", "0123456789", &blockblob.UploadOptions{
		Metadata: map[string]*string{"blobtx_intent": ptr("7")}, Tags: map[string]string{"state": "pending"},
	})
	p, err := cc.NewBlobClient("dir/a b").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, e, *p.ETag)
	require.Equal(t, int64(10), *p.ContentLength)
	require.Equal(t, "0123456789", get(t, cc, "dir/a b"))
	stage(t, cc, "s", 0, 1)
	_, err = cc.NewBlockBlobClient("s").CommitBlockList(ctx, []string{blockID(1), blockID(0)}, nil)
	require.NoError(t, err)
	require.Equal(t, "bbbaaa", get(t, cc, "s"))
	require.Equal(t, []string{"dir/a b", "s"}, names(t, cc, nil))
	_, err = cc.NewBlobClient("no").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("s").GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: ifNoneMatch("*")})
	requireCode(t, err, 304, bloberror.ConditionNotMet)

	bb, err := cc.NewBatchBuilder()
	require.NoError(t, err)
	require.NoError(t, bb.Delete("dir/a b", &container.BatchDeleteOptions{DeleteOptions: blob.DeleteOptions{AccessConditions: ifTags(`"state" = 'pending'`)}}))
	res, err := cc.SubmitBatch(ctx, bb, nil)
	require.NoError(t, err)
	require.NoError(t, res.Responses[0].Error)
	require.Equal(t, []string{"s"}, srv.Names("box"))
}

func TestFaultsCloseTheConnection(t *testing.T) {
	srv := azfake.New(&azfake.Options{Account: account, Key: key})
	cc := overSocket(t, srv, -1)
	srv.SetHook(once(azfake.OpPutBlob, azfake.LoseReply()))
	require.Error(t, createOnly(cc))
	require.Equal(t, []string{"a"}, srv.Names("box"))
	srv.SetHook(once(azfake.OpDeleteBlob, azfake.LoseRequest()))
	_, err := cc.NewBlobClient("a").Delete(ctx, nil)
	require.Error(t, err)
	require.Equal(t, []string{"a"}, srv.Names("box"))
	put(t, cc, "long", string(make8K()), nil)
	srv.SetHook(once(azfake.OpGetBlob, azfake.CutBody(5000)))
	res, err := cc.NewBlobClient("long").DownloadStream(ctx, nil)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, data, 5000)
}

func TestOfManyCreatorsOneWins(t *testing.T) {
	srv, cc := start(t, nil)
	var wg sync.WaitGroup
	results := make([]error, 32)
	for i := range results {
		wg.Go(func() { results[i] = createOnly(cc) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		requireCode(t, err, 409, bloberror.BlobAlreadyExists)
	}
	require.Equal(t, 1, won)
	require.Equal(t, 32, srv.Count(azfake.OpPutBlob))
}
