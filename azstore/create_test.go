package azstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

type counts = map[azfake.Op]int

// What a body costs is part of the promise: one request if it fits into a
// block, else one for each block and one more.
func TestCreateSendsWhatItMust(t *testing.T) {
	for _, c := range []struct {
		size int
		want counts
	}{
		{0, counts{azfake.OpPutBlob: 1}},
		{1, counts{azfake.OpPutBlob: 1}},
		{4 * kib, counts{azfake.OpPutBlob: 1}},
		{64*kib - 1, counts{azfake.OpPutBlob: 1}},
		{64 * kib, counts{azfake.OpPutBlob: 1}},
		{64*kib + 1, counts{azfake.OpPutBlock: 2, azfake.OpPutBlockList: 1}},
		{128 * kib, counts{azfake.OpPutBlock: 2, azfake.OpPutBlockList: 1}},
		{640*kib + 7, counts{azfake.OpPutBlock: 11, azfake.OpPutBlockList: 1}},
	} {
		data := noise(c.size)
		for kind, body := range map[string]*store.Body{
			"declared":        store.NewBody(bytes.NewReader(data), int64(len(data)), sum(data)),
			"unknown":         store.NewBody(bytes.NewReader(data), -1, ""),
			"one byte a time": store.NewBody(iotest.OneByteReader(bytes.NewReader(data)), -1, ""),
			"end with data":   store.NewBody(iotest.DataErrReader(bytes.NewReader(data)), -1, ""),
			"half reads":      store.NewBody(iotest.HalfReader(bytes.NewReader(data)), int64(len(data)), ""),
		} {
			t.Run(fmt.Sprintf("%d bytes, %s", c.size, kind), func(t *testing.T) {
				s, server := newFake(t, nil, small)
				p := params("a/b", nil)
				p.Body = body
				var got store.Blob
				noGoroutineLeft(t, func() {
					var err error
					got, err = s.Create(t.Context(), p)
					require.NoError(t, err)
				})
				require.Equal(t, c.want, server.Counts())
				there := server.Inspect(containerName)["a/b"]
				require.Equal(t, store.Blob{Name: "a/b", ETag: there.ETag, Size: int64(c.size), SHA256: sum(data), ContentType: "text/plain"}, got)
				require.True(t, bytes.Equal(data, there.Data))
				require.Equal(t, "text/plain", there.ContentType)
				require.Equal(t, map[string]string{"state": "pending", "intent": intentID}, there.Tags)
				require.Equal(t, map[string]string{
					"blobtx_intent": intentID, "blobtx_key": "invoice/7", "blobtx_sha256": sum(data), "blobtx_base": "absent",
				}, there.Metadata)
				require.Zero(t, server.Staged(containerName, "a/b"))
			})
		}
	}
}

func TestCreateNeverReplaces(t *testing.T) {
	for _, fake := range servers {
		s, server := newFake(t, &fake, small)
		first := noise(10)
		create(t, s, "a", first)
		for _, size := range []int{0, 4 * kib, 300 * kib} {
			server.ResetCounts()
			_, err := s.Create(t.Context(), params("a", noise(size)))
			require.ErrorIs(t, err, store.ErrExists)
			require.NotErrorIs(t, err, store.ErrSetup)
			if size < 64*kib {
				require.Equal(t, counts{azfake.OpPutBlob: 1, azfake.OpHeadBlob: 1}, server.Counts())
			}
		}
		require.Equal(t, first, server.Inspect(containerName)["a"].Data)
	}
}

// A SAS that may only create gets 403 where something is there.
func TestOverwriteForbiddenMeansThatItExists(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "a", nil)
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpPutBlob {
			return azfake.Fault{Kind: azfake.Refused, Status: http.StatusForbidden, Code: "UnauthorizedBlobOverwrite"}
		}
		return azfake.Fault{}
	})
	_, err := s.Create(t.Context(), params("a", nil))
	require.ErrorIs(t, err, store.ErrExists)
}

// Where only staged blocks are, nothing is readable. The service gives 201 to a
// create-only Put Blob then ("Put Blob" discards staged blocks); Azurite gives
// 409 although HEAD gives 404. The same bytes must go up under both.
func TestStagedBlocksAreNotInTheWay(t *testing.T) {
	for _, azurite := range []bool{false, true} {
		for _, size := range []int{0, 1, 4 * kib, 64 * kib} {
			s, server := newFake(t, &azfake.Options{AzuriteStaged: azurite}, small)
			stageAndFail(t, s, "a")
			require.Empty(t, server.Names(containerName))
			server.ResetCounts()
			data := noise(size)
			b := create(t, s, "a", data)
			switch {
			case !azurite:
				require.Equal(t, counts{azfake.OpPutBlob: 1}, server.Counts())
			case size == 0:
				require.Equal(t, counts{azfake.OpPutBlob: 1, azfake.OpHeadBlob: 1, azfake.OpPutBlockList: 1}, server.Counts())
			default:
				require.Equal(t, counts{azfake.OpPutBlob: 1, azfake.OpHeadBlob: 1, azfake.OpPutBlock: 1, azfake.OpPutBlockList: 1}, server.Counts())
			}
			require.Equal(t, int64(size), b.Size)
			require.True(t, bytes.Equal(data, server.Inspect(containerName)["a"].Data))
			require.Equal(t, "pending", server.Inspect(containerName)["a"].Tags["state"])
			require.Zero(t, server.Staged(containerName, "a"))
		}
	}
}

// stageAndFail leaves staged blocks under the name, as a crash would.
func stageAndFail(t *testing.T, s *azstore.Store, name string) {
	t.Helper()
	p := params(name, nil)
	broken := io.MultiReader(bytes.NewReader(noise(200*kib)), iotest.ErrReader(io.ErrUnexpectedEOF))
	p.Body = store.NewBody(broken, -1, "")
	_, err := s.Create(t.Context(), p)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestBodyThatIsNotAsDeclaredIsNeverReadable(t *testing.T) {
	errBroken := errors.New("reader broke")
	for _, size := range []int{10, 64 * kib, 300 * kib} {
		data := noise(size)
		declared := int64(size)
		for name, c := range map[string]struct {
			body *store.Body
			want error
		}{
			"shorter":       {store.NewBody(bytes.NewReader(data[1:]), declared, ""), store.ErrBodyMismatch},
			"longer":        {store.NewBody(io.MultiReader(bytes.NewReader(data), strings.NewReader("x")), declared, ""), store.ErrBodyMismatch},
			"other hash":    {store.NewBody(bytes.NewReader(data), declared, sum(nil)), store.ErrBodyMismatch},
			"hash, no size": {store.NewBody(bytes.NewReader(data), -1, sum(nil)), store.ErrBodyMismatch},
			"reader error":  {store.NewBody(io.MultiReader(bytes.NewReader(data[1:]), iotest.ErrReader(errBroken)), declared, ""), errBroken},
			"no progress":   {store.NewBody(readerFunc(func([]byte) (int, error) { return 0, nil }), declared, ""), io.ErrNoProgress},
			"count beyond the buffer": {store.NewBody(readerFunc(func(p []byte) (int, error) {
				return len(p) + 1, nil
			}), declared, ""), nil},
		} {
			s, server := newFake(t, nil, small)
			p := params("a", nil)
			p.Body = c.body
			var err error
			noGoroutineLeft(t, func() { _, err = s.Create(t.Context(), p) })
			require.Error(t, err, name)
			if c.want != nil {
				require.ErrorIs(t, err, c.want, name)
			}
			_, readErr := p.Body.Read(make([]byte, 1))
			require.Same(t, readErr, err, "%s: the body's error comes back as it is", name)
			require.Empty(t, server.Inspect(containerName), name)
			require.Zero(t, server.Count(azfake.OpPutBlob)+server.Count(azfake.OpPutBlockList), name)
		}
	}
}

// Only the context can stop a reader that never ends. It is asked before every
// read, and nothing goes on after Create.
func TestCancelStopsAnEndlessReader(t *testing.T) {
	cause := errors.New("the intent was lost")
	for _, after := range []int{0, 10, 1000, 64 * kib, 400 * kib, 3 * mib} {
		s, server := newFake(t, nil, small)
		ctx, cancel := context.WithCancelCause(t.Context())
		read, late := 0, 0
		p := params("a", nil)
		p.Body = store.NewBody(readerFunc(func(b []byte) (int, error) {
			if ctx.Err() != nil {
				late++
			}
			read += len(b)
			if read >= after {
				cancel(cause)
			}
			return len(b), nil
		}), -1, "")
		noGoroutineLeft(t, func() {
			_, err := s.Create(ctx, p)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
		})
		require.Zero(t, late, "no read once the context is done")
		require.Empty(t, server.Inspect(containerName))
		require.Zero(t, server.Count(azfake.OpPutBlockList))
	}
}

// Cancelled while a block is on its way: the request is given up, the blocks
// stay uncommitted.
func TestCancelDuringABlock(t *testing.T) {
	for _, op := range []azfake.Op{azfake.OpPutBlob, azfake.OpPutBlock} {
		s, server := newFake(t, nil, small)
		ctx, cancel := context.WithCancel(t.Context())
		server.SetHook(func(c azfake.Call) azfake.Fault {
			if c.Op == op {
				cancel()
				return azfake.Fault{Delay: hour} // ends with the context
			}
			return azfake.Fault{}
		})
		size := 300 * kib
		if op == azfake.OpPutBlob {
			size = 10
		}
		noGoroutineLeft(t, func() {
			_, err := s.Create(ctx, params("a", noise(size)))
			require.ErrorIs(t, err, context.Canceled)
		})
		require.Empty(t, server.Inspect(containerName))
	}
}

// The end of the body and the end of the context can meet.
func TestNothingIsSentOnceTheContextIsDone(t *testing.T) {
	for _, size := range []int{10, 300 * kib} {
		s, server := newFake(t, nil, small)
		ctx, cancel := context.WithCancel(t.Context())
		left := noise(size)
		p := params("a", nil)
		p.Body = store.NewBody(readerFunc(func(b []byte) (int, error) {
			n := copy(b, left)
			if left = left[n:]; len(left) == 0 {
				cancel()
				return n, io.EOF
			}
			return n, nil
		}), int64(size), "")
		_, err := s.Create(ctx, p)
		require.ErrorIs(t, err, context.Canceled)
		_, _, complete := p.Body.Sum()
		require.True(t, complete)
		require.Empty(t, server.Inspect(containerName))
		require.Zero(t, server.Count(azfake.OpPutBlob)+server.Count(azfake.OpPutBlockList))
	}
}

// A block that fails for good ends the upload at once.
func TestFailedBlockStopsReading(t *testing.T) {
	s, server := newFake(t, nil, small)
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpPutBlock && c.Seq == 2 {
			return azfake.Deny()
		}
		return azfake.Fault{}
	})
	read := 0
	p := params("a", nil)
	p.Body = store.NewBody(readerFunc(func(b []byte) (int, error) { read += len(b); return len(b), nil }), -1, "")
	noGoroutineLeft(t, func() {
		_, err := s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrSetup)
		require.ErrorContains(t, err, "SAS permission w")
	})
	require.Empty(t, server.Inspect(containerName))
	require.Zero(t, server.Count(azfake.OpPutBlockList))
}

// Two attempts with different bytes under one name never mix, because equal
// block ids mean equal bytes.
func TestInterleavedAttemptsDoNotMix(t *testing.T) {
	s, server := newFake(t, nil, small)
	first, second := noise(200*kib), noise(200*kib+1)
	ran := false
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpPutBlockList && !ran { // every block of the first is staged
			ran = true
			stageAll(t, s, second)
		}
		return azfake.Fault{}
	})
	b, err := s.Create(t.Context(), params("a", first))
	require.NoError(t, err)
	require.Equal(t, sum(first), b.SHA256)
	require.True(t, bytes.Equal(first, server.Inspect(containerName)["a"].Data))
}

// stageAll stages every block of data under "a" and then breaks.
func stageAll(t *testing.T, s *azstore.Store, data []byte) {
	p := params("a", nil)
	p.Body = store.NewBody(bytes.NewReader(data), int64(len(data)), sum(nil)) // refused at the very end
	_, err := s.Create(t.Context(), p)
	require.ErrorIs(t, err, store.ErrBodyMismatch)
}

func TestKeysTravelWhole(t *testing.T) {
	s, _ := newFake(t, nil, nil)
	for i, key := range []string{"a", " leading", "Ärger/日本", "100%", "a\tb", strings.Repeat("ü", 350)} {
		p := params(fmt.Sprintf("n%d", i), nil)
		p.Key, p.Base = key, "1,2,3"
		_, err := s.Create(t.Context(), p)
		require.NoError(t, err)
		info, err := s.Stat(t.Context(), store.StatParams{Name: p.Name})
		require.NoError(t, err)
		require.Equal(t, key, info.Key)
		require.Equal(t, "1,2,3", info.Base)
	}
}

func TestContentTypeDefaults(t *testing.T) {
	s, _ := newFake(t, nil, small)
	for i, size := range []int{1, 300 * kib} {
		p := params(fmt.Sprintf("n%d", i), noise(size))
		p.ContentType = ""
		b, err := s.Create(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, "application/octet-stream", b.ContentType)
		info, err := s.Stat(t.Context(), store.StatParams{Name: p.Name})
		require.NoError(t, err)
		require.Equal(t, b, info.Blob)
	}
}

func TestPrefixSeparatesStores(t *testing.T) {
	one, server := newFake(t, nil, &azstore.Options{Prefix: "one/"})
	two := storeOver(t, server, nil, &azstore.Options{Prefix: "two/"})
	create(t, one, "a", []byte("1"))
	create(t, two, "a", []byte("2"))
	require.Equal(t, []string{"one/a", "two/a"}, server.Names(containerName))
	require.NoError(t, deleteOne(t.Context(), one, store.DeleteBlob{Name: "a", IntentID: intentID}))
	require.Equal(t, []string{"two/a"}, server.Names(containerName))
}
