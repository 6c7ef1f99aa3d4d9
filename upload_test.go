package blobtx_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// A status code is never an answer: after every unclear one the blob itself
// says whose it is.
func TestACreateWhoseReplyWasLostSucceedsOnce(t *testing.T) {
	for promise, lose := range map[string]func(p *tap){
		"the reply is lost":             func(p *tap) { p.loseReply("create blob", 1) },
		"every reply is lost":           func(p *tap) { p.loseReply("create blob", -1) },
		"the request is lost":           func(p *tap) { p.lose("create blob", 1) },
		"two requests are lost":         func(p *tap) { p.lose("create blob", 2) },
		"the SDK met its own first try": func(p *tap) { p.answer("create blob", store.ErrExists) },
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			lose(p)
			o, err := w.Put(t.Context(), "k", text("hello"), &blobtx.PutOptions{Size: 5, SHA256: hexSum("hello"), ContentType: "a/b"})
			require.NoError(t, err)
			require.Equal(t, "a/b", o.Blob.ContentType)
			require.Equal(t, int64(5), o.Blob.Size)
			info, ok := w.blobs.Get(o.Blob.Name)
			require.True(t, ok)
			require.Equal(t, info.Blob, o.Blob)
			require.Len(t, w.blobs.Snapshot(), 1)
			w.atRest()
		})
	}
	inBubble(t, "a body that cannot seek, the reply is lost", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.loseReply("create blob", 1)
		_, err := w.Put(t.Context(), "k", pipe("hello"), nil)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "a look that fails is looked at again", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("first", "x", nil)
		p.loseReply("create blob", 1)
		p.lose("stat", 2)
		_, err := w.Put(t.Context(), "k", text("hello"), nil)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "requests are lost for good: the error, and nothing is left", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.lose("create blob", -1)
		_, err := w.Put(t.Context(), "k", text("hello"), nil)
		require.ErrorIs(t, err, errWire)
		require.Equal(t, store.Abandoned, w.rows.Intents()[0].State)
		require.LessOrEqual(t, p.steps()["create blob"], 5)
		w.atRest()
		require.Empty(t, w.blobs.Snapshot())
	})
}

// answer makes a step end in this error although it was taken.
func (p *tap) answer(step string, err error) {
	p.onAfter(func(_ context.Context, s string, _ error) error {
		if s == step {
			return err
		}
		return nil
	})
}

func TestABodyIsReadAgainOnlyIfItCanSeek(t *testing.T) {
	inBubble(t, "one that cannot, partly read and nothing there: a clear error, the intent aborted", func(t *testing.T) {
		w := plain(t, nil)
		w.readThenLose()
		_, err := w.Put(t.Context(), "k", pipe("hello"), nil)
		require.ErrorIs(t, err, errWire, "the cause")
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "seek")
		require.Equal(t, store.Abandoned, w.rows.Intents()[0].State)
		w.atRest()
		require.Empty(t, w.blobs.Snapshot())
	})
	inBubble(t, "one that can starts where it stood, not at zero", func(t *testing.T) {
		w := plain(t, nil)
		w.readThenLose()
		body := strings.NewReader("header:hello")
		_, err := body.Seek(7, io.SeekStart)
		require.NoError(t, err)
		var progress []int64
		o, err := w.Put(t.Context(), "k", body, &blobtx.PutOptions{OnProgress: func(n int64) { progress = append(progress, n) }})
		require.NoError(t, err)
		require.Equal(t, "hello", w.read("k"))
		require.Equal(t, int64(5), o.Blob.Size)
		require.Equal(t, []int64{5, 5}, progress, "a retry starts from zero")
		w.atRest()
	})
	inBubble(t, "one that was not read at all needs no seeking", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.lose("create blob", 1)
		_, err := w.Put(t.Context(), "k", pipe("hello"), nil)
		require.NoError(t, err)
		require.Equal(t, "hello", w.read("k"))
	})
}

// readThenLose makes the process lose its first upload when the body was read.
func (w *world) readThenLose() {
	c, err := blobtx.New(w.rows, &blobsReading{BlobStore: w.blobs}, nil)
	require.NoError(w.t, err)
	w.Coordinator = c
}

// blobsReading loses its first Create after having read the body.
type blobsReading struct {
	store.BlobStore
	lost bool
}

func (b *blobsReading) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	if b.lost {
		return b.BlobStore.Create(ctx, p)
	}
	b.lost = true
	_, err := io.ReadAll(p.Body)
	return store.Blob{}, errors.Join(err, errWire)
}

func TestAForeignBlobIsNeverTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		foreign := w.blobs.PutForeign(in.BlobName, []byte("theirs"))
		_, err = w.Upload(t.Context(), in, text("theirs"), nil)
		require.ErrorIs(t, err, blobtx.ErrForeignBlob, "equal bytes do not make it ours")
		require.ErrorContains(t, err, in.BlobName)
		require.NotErrorIs(t, err, blobtx.ErrExists, "the object does not exist")
		_ = w.Abort(t.Context(), in)
		for range 3 {
			time.Sleep(25 * time.Hour)
			w.sweep()
		}
		info, ok := w.blobs.Get(in.BlobName)
		require.True(t, ok, "a foreign blob was deleted")
		require.Equal(t, foreign, info)
		require.Empty(t, w.rows.Objects())
	})
}

// failing gives its text and then its error.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	if n, err := f.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, f.err
}

func TestAReaderThatFails(t *testing.T) {
	inBubble(t, "is a BodyError with its own inside, and nothing becomes readable", func(t *testing.T) {
		w := plain(t, nil)
		cause := errors.New("disk on fire")
		for _, body := range []io.Reader{failing{text("part"), cause}, failing{text(""), cause}} {
			_, err := w.Put(t.Context(), "k", body, nil)
			var failed *blobtx.BodyError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, `"k"`)
			require.Empty(t, w.blobs.Snapshot())
		}
		for _, in := range w.rows.Intents() {
			require.Equal(t, store.Abandoned, in.State)
		}
		w.atRest()
	})
	inBubble(t, "for the size of a request is found with errors.As", func(t *testing.T) {
		w := plain(t, nil)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("far too long"))
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 3)
		_, err := w.Put(t.Context(), "k", r.Body, nil)
		var tooLarge *http.MaxBytesError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, int64(3), tooLarge.Limit)
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "with io.ErrUnexpectedEOF commits nothing", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Put(t.Context(), "k", failing{text("half"), io.ErrUnexpectedEOF}, nil)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Empty(t, w.rows.Objects())
		require.Empty(t, w.blobs.Snapshot())
	})
	for what, broken := range map[string]func(p []byte) (int, error){
		"that counts more than it was given room": func(p []byte) (int, error) { return len(p) + 1, nil },
		"that counts backwards":                   func([]byte) (int, error) { return -1, nil },
		"that never gives anything":               func([]byte) (int, error) { return 0, nil },
	} {
		inBubble(t, what+" is refused, not believed", func(t *testing.T) {
			w := plain(t, nil)
			_, err := w.Put(t.Context(), "k", reader(broken), nil)
			var failed *blobtx.BodyError
			require.ErrorAs(t, err, &failed)
			require.Empty(t, w.blobs.Snapshot())
		})
	}
	inBubble(t, "with its own context error is not taken for the caller's leaving", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Put(t.Context(), "k", failing{text("x"), context.DeadlineExceeded}, nil)
		var failed *blobtx.BodyError
		require.ErrorAs(t, err, &failed)
		w.atRest()
	})
}

func TestReadingStopsAtOnce(t *testing.T) {
	// Endless, a byte at a time: going on to the end would hang.
	endless := func(reads *int, at int, then func()) io.Reader {
		return reader(func(p []byte) (int, error) {
			if *reads++; *reads == at {
				then()
			}
			p[0] = 'x'
			return 1, nil
		})
	}
	inBubble(t, "when the context ends", func(t *testing.T) {
		w := plain(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		_, err := w.Put(ctx, "k", endless(&reads, 1000, cancel), nil)
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, reads, 1001)
		require.Empty(t, w.blobs.Snapshot())
		require.Equal(t, store.Abandoned, w.rows.Intents()[0].State, "a client that disconnects leaves nothing behind")
		w.atRest()
	})
	inBubble(t, "when the context's deadline passes", func(t *testing.T) {
		w := plain(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reads := 0
		_, err := w.Put(ctx, "k", endless(&reads, 10, func() { time.Sleep(time.Minute) }), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, reads, 11)
		w.atRest()
	})
	inBubble(t, "when the body is longer than declared", func(t *testing.T) {
		w := plain(t, nil)
		reads := 0
		_, err := w.Put(t.Context(), "k", endless(&reads, -1, nil), &blobtx.PutOptions{Size: 10})
		require.ErrorIs(t, err, blobtx.ErrBodyMismatch)
		require.LessOrEqual(t, reads, 11)
		w.atRest()
	})
	inBubble(t, "when the cause of the cancellation says more", func(t *testing.T) {
		w := plain(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the server shuts down")
		reads := 0
		_, err := w.Put(ctx, "k", endless(&reads, 5, func() { cancel(cause) }), nil)
		require.ErrorIs(t, err, cause)
		w.atRest()
	})
}

func TestProgressCountsTheBytesRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		var progress []int64
		w.put("k", strings.Repeat("x", 100_000), &blobtx.PutOptions{OnProgress: func(n int64) { progress = append(progress, n) }})
		require.IsIncreasing(t, append([]int64{0}, progress...))
		require.Equal(t, int64(100_000), progress[len(progress)-1])
	})
}

// Commit takes the condition, the blob name and the metadata from the row,
// never from a struct that travelled.
func TestAnIntentThatTravelledIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{Metadata: map[string]string{"a": "1"}})
		require.NoError(t, err)
		w.put("k", "theirs", nil)
		victim := w.put("victim", "v", nil)
		forged := *in
		forged.Expect, forged.Metadata, forged.BlobName, forged.Key = blobtx.Always(), map[string]string{"a": "2"}, victim.Blob.Name, "victim"
		up, err := w.calm.Upload(t.Context(), &forged, text("x"), nil)
		require.NoError(t, err)
		_, err = w.calm.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrExists)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		objects, err := w.calm.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.Equal(t, in.BlobName, objects[0].Blob.Name)
		require.Equal(t, "k", objects[0].Key)
		require.Equal(t, map[string]string{"a": "1"}, objects[0].Metadata)
		require.Equal(t, "v", w.read("victim"))
		w.atRest()
	})
}

func TestUploadsOfOneIntentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		first, err := w.Upload(t.Context(), in, text("x"), nil)
		require.NoError(t, err)
		second, err := w.Upload(t.Context(), in, text("x"), nil)
		require.NoError(t, err, "equal bytes under the name")
		a, err := w.Commit(t.Context(), nil, first)
		require.NoError(t, err)
		b, err := w.Commit(t.Context(), nil, second)
		require.NoError(t, err)
		require.Equal(t, a, b)
		third, err := w.Upload(t.Context(), in, text("x"), nil)
		require.NoError(t, err)
		o, ok := third.Replay()
		require.True(t, ok, "an intent that is committed")
		require.Equal(t, a[0], o)
		w.atRest()
	})
}
