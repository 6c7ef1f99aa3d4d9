package azfake_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

// once applies a fault to the first request of one kind.
func once(op azfake.Op, f azfake.Fault) azfake.Hook {
	return func(c azfake.Call) azfake.Fault {
		if c.Op == op && c.Seq == 1 {
			return f
		}
		return azfake.Fault{}
	}
}

// unretried is a client that tries once.
func unretried(t testing.TB, srv *azfake.Server) *container.Client {
	t.Helper()
	o := &container.ClientOptions{}
	o.Retry = policy.RetryOptions{MaxRetries: -1}
	cc, err := srv.ContainerClient("box", o)
	require.NoError(t, err)
	return cc
}

func createOnly(cc *container.Client) error {
	_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{AccessConditions: ifNoneMatch("*")})
	return err
}

func TestALostRequestIsNotApplied(t *testing.T) {
	srv, cc := start(t, nil)
	srv.SetHook(once(azfake.OpPutBlob, azfake.LoseRequest()))
	require.ErrorIs(t, createOnly(unretried(t, srv)), azfake.ErrLost)
	require.Empty(t, srv.Names("box"))
	srv.ResetCounts()
	require.NoError(t, createOnly(cc), "the SDK's retry gets through")
	require.Equal(t, 2, srv.Count(azfake.OpPutBlob))
}

func TestALostReplyIsApplied(t *testing.T) {
	srv, cc := start(t, nil)
	srv.SetHook(once(azfake.OpPutBlob, azfake.LoseReply()))
	requireCode(t, createOnly(cc), 409, bloberror.BlobAlreadyExists)
	require.Equal(t, []string{"a"}, srv.Names("box"))
	require.Equal(t, 2, srv.Requests())
}

func TestALateRequestIsAppliedWhenTheTestSaysSo(t *testing.T) {
	srv, _ := start(t, nil)
	cc := unretried(t, srv)
	var late []func() int
	srv.SetHook(once(azfake.OpPutBlob, azfake.ApplyLate(func(apply func() int) { late = append(late, apply) })))
	short, cancel := context.WithCancel(ctx)
	_, err := cc.NewBlockBlobClient("a").Upload(short, body("late"), &blockblob.UploadOptions{AccessConditions: ifNoneMatch("*")})
	require.ErrorIs(t, err, azfake.ErrLost)
	cancel()
	require.Empty(t, srv.Names("box"))
	require.Len(t, late, 1)
	require.Equal(t, 201, late[0]())
	require.Equal(t, "late", string(srv.Inspect("box")["a"].Data))
	require.Equal(t, 409, late[0](), "sent twice, as a network may")
}

func TestRefusals(t *testing.T) {
	srv, cc := start(t, nil)
	srv.SetHook(once(azfake.OpPutBlob, azfake.Throttle(503, time.Millisecond)))
	require.NoError(t, createOnly(cc), "the SDK waits and tries again")
	require.Equal(t, 2, srv.Count(azfake.OpPutBlob))

	srv.ResetCounts()
	srv.SetHook(once(azfake.OpPutBlob, azfake.Throttle(429, 7*time.Second)))
	err := createOnly(unretried(t, srv))
	requireCode(t, err, 429, bloberror.ServerBusy)

	srv.SetHook(func(azfake.Call) azfake.Fault { return azfake.Deny() })
	_, err = cc.NewBlobClient("a").Delete(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationPermissionMismatch)
	_, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationPermissionMismatch)
	srv.SetHook(nil)
	require.Equal(t, "x", get(t, cc, "a"))
}

func TestABodyBreaksMidway(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "a", "0123456789", nil)
	srv.SetHook(once(azfake.OpGetBlob, azfake.CutBody(4)))
	res, err := cc.NewBlobClient("a").DownloadStream(ctx, nil)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "0123", string(data))

	srv.ResetCounts()
	res, err = cc.NewBlobClient("a").DownloadStream(ctx, nil)
	require.NoError(t, err)
	data, err = io.ReadAll(res.NewRetryReader(ctx, nil))
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(data))
	require.Equal(t, 2, srv.Count(azfake.OpGetBlob))
}

func TestHooksSeeWhatIsAsked(t *testing.T) {
	srv, cc := start(t, nil)
	var calls []azfake.Call
	srv.SetHook(func(c azfake.Call) azfake.Fault {
		calls = append(calls, c)
		return azfake.Fault{}
	})
	put(t, cc, "dir/a", "x", &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}})
	stage(t, cc, "s", 0, 1)
	require.Len(t, calls, 3)
	require.Equal(t, azfake.OpPutBlob, calls[0].Op)
	require.Equal(t, "box", calls[0].Container)
	require.Equal(t, "dir/a", calls[0].Blob)
	require.Equal(t, "k=v", calls[0].Request.Header.Get("x-ms-tags"))
	require.Equal(t, 2, calls[2].Seq)
	require.Equal(t, map[azfake.Op]int{azfake.OpPutBlob: 1, azfake.OpPutBlock: 2}, srv.Counts())
}

func TestDelaysPassInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, cc := start(t, nil)
		srv.SetHook(once(azfake.OpPutBlob, azfake.Delay(time.Hour)))
		began := time.Now()
		require.NoError(t, createOnly(cc))
		require.Equal(t, time.Hour, time.Since(began))

		srv.SetHook(func(c azfake.Call) azfake.Fault { return azfake.Fault{DelayReply: time.Hour} })
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		began = time.Now()
		_, err := cc.NewBlobClient("a").Delete(short, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		require.Empty(t, srv.Names("box"), "applied before the caller left")

		srv.SetHook(func(c azfake.Call) azfake.Fault { return azfake.Throttle(503, 30*time.Second) })
		began = time.Now()
		_, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
		requireCode(t, err, 503, bloberror.ServerBusy)
		require.Equal(t, 90*time.Second, time.Since(began), "three retries, each after Retry-After")
	})
}

func TestACancelledCallerGetsNothing(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "a", "0123456789", nil)
	gone, cancel := context.WithCancel(ctx)
	res, err := cc.NewBlobClient("a").DownloadStream(gone, nil)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, context.Canceled)
	_, err = cc.NewBlobClient("a").Delete(gone, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"a"}, srv.Names("box"))
}

func TestABodyThatFailsIsNotApplied(t *testing.T) {
	srv, _ := start(t, nil)
	broken := errors.New("broken pipe")
	send := func(r io.Reader, size int64) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL()+"box/a", r)
		require.NoError(t, err)
		req.ContentLength = size
		req.Header.Set("x-ms-blob-type", "BlockBlob")
		_, err = srv.Transport().Do(req)
		return err
	}
	require.ErrorIs(t, send(io.MultiReader(body("half"), errReader{broken}), 8), broken)
	require.ErrorIs(t, send(io.NopCloser(body("half")), 8), io.ErrUnexpectedEOF)
	require.Empty(t, srv.Names("box"))
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestHeadersTravelAsOverHTTP(t *testing.T) {
	srv, _ := start(t, nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL()+"box/a", nil)
	require.NoError(t, err)
	req.Header["x-ms-blob-type"] = []string{" BlockBlob\t"}
	req.Header["x-ms-meta-MixedCase"] = []string{"  v  "}
	res, err := srv.Transport().Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, map[string]string{"mixedcase": "v"}, srv.Inspect("box")["a"].Metadata)

	req.Header["x-ms-meta-bad"] = []string{"a\r\nInjected: b"}
	_, err = srv.Transport().Do(req)
	require.ErrorContains(t, err, "invalid header field value")
}
