package blobtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

func (w *world) open(key string) *blobtx.Reader {
	w.t.Helper()
	r, err := w.Open(w.t.Context(), key, nil)
	require.NoError(w.t, err)
	return r
}

func TestOpenIsLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := tapped(t, nil)
		o := w.put("k", "0123456789", nil)
		p.steps()
		r := w.open("k")
		require.Equal(t, o, r.Object())
		for _, seek := range []struct {
			offset int64
			whence int
			want   int64
		}{{0, io.SeekEnd, 10}, {-3, io.SeekCurrent, 7}, {2, io.SeekStart, 2}, {100, io.SeekStart, 100}, {-1, io.SeekEnd, 9}} {
			at, err := r.Seek(seek.offset, seek.whence)
			require.NoError(t, err)
			require.Equal(t, seek.want, at)
		}
		require.Equal(t, map[string]int{"get object": 1}, p.steps(), "asked for a blob before the first byte")
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "9", string(got))
		require.Equal(t, map[string]int{"open blob": 1}, p.steps())
		_, err = r.Seek(8, io.SeekStart)
		require.NoError(t, err)
		_, err = r.Read(nil)
		require.NoError(t, err)
		require.Empty(t, p.steps(), "asked again before a byte was wanted")
		require.NoError(t, r.Close())
	})
}

func TestAReaderIsAReadSeekCloser(t *testing.T) {
	bodies := map[string]string{"empty": "", "one byte": "x", "text": "the quick brown fox", "large": strings.Repeat("0123456789", 20_000)}
	for what, body := range bodies {
		inBubble(t, what, func(t *testing.T) {
			w := plain(t, nil)
			w.put("k", body, nil)
			r := w.open("k")
			require.NoError(t, iotest.TestReader(r, []byte(body)))
			require.NoError(t, r.Close())
			r = w.open("k")
			got, err := io.ReadAll(iotest.OneByteReader(r))
			require.NoError(t, err)
			require.Equal(t, body, string(got))
			for range 3 {
				n, err := r.Read(make([]byte, 1))
				require.Zero(t, n)
				require.Equal(t, io.EOF, err)
			}
		})
	}
	inBubble(t, "past the end reads io.EOF", func(t *testing.T) {
		for _, body := range []string{"", "x", "text"} {
			w := plain(t, nil)
			w.put("k", body, nil)
			r := w.open("k")
			_, err := r.Seek(5, io.SeekStart)
			require.NoError(t, err)
			n, err := r.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Equal(t, io.EOF, err, "of %d bytes", len(body))
		}
	})
	inBubble(t, "bad seeks are refused and change nothing", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "0123", nil)
		r := w.open("k")
		_, err := r.Seek(-1, io.SeekStart)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		_, err = r.Seek(-5, io.SeekEnd)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		_, err = r.Seek(0, 3)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "0123", string(got))
	})
	inBubble(t, "after Close it reads and seeks no more", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "0123", nil)
		r := w.open("k")
		_, err := r.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		_, err = r.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
		_, err = r.Seek(0, io.SeekStart)
		require.Error(t, err)
	})
	inBubble(t, "ends with the context given to Open", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", strings.Repeat("x", 1<<16), nil)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := w.Open(ctx, "k", nil)
		require.NoError(t, err)
		cancel()
		_, err = io.ReadAll(r)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// torn breaks its connection once, after so many bytes.
type torn struct {
	io.ReadCloser
	left int
	err  error
}

func (b *torn) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func TestABrokenConnectionIsResumed(t *testing.T) {
	content := strings.Repeat("0123456789", 1000)
	for what, cut := range map[string]error{"reset": errWire, "closed early": io.EOF, "unexpected EOF": io.ErrUnexpectedEOF} {
		inBubble(t, what+", in the middle, again and again", func(t *testing.T) {
			w, p := tapped(t, nil)
			w.put("k", content, nil)
			p.bodies = func(b io.ReadCloser) io.ReadCloser { return &torn{b, 700, cut} }
			p.steps()
			got, err := io.ReadAll(w.open("k"))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
			require.Equal(t, 15, p.steps()["open blob"])
		})
	}
	inBubble(t, "before the first byte, a few times", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", content, nil)
		n := 3
		p.bodies = func(b io.ReadCloser) io.ReadCloser {
			if n--; n >= 0 {
				return &torn{b, 0, errWire}
			}
			return b
		}
		got, err := io.ReadAll(w.open("k"))
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	})
	inBubble(t, "for good: the error, bounded", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", content, nil)
		p.bodies = func(b io.ReadCloser) io.ReadCloser { return &torn{b, 0, errWire} }
		p.steps()
		_, err := io.ReadAll(w.open("k"))
		require.ErrorIs(t, err, errWire)
		require.NotErrorIs(t, err, blobtx.ErrCorrupt, "a network's failure is no corruption")
		require.LessOrEqual(t, p.steps()["open blob"], 10)
		p.bodies = nil
		p.lose("open blob", -1)
		_, err = io.ReadAll(w.open("k"))
		require.ErrorIs(t, err, errWire)
		require.NotErrorIs(t, err, blobtx.ErrCorrupt)
		p.lose("open blob", 2)
		_, err = io.ReadAll(w.open("k"))
		require.NoError(t, err)
	})
	inBubble(t, "and the connection that broke is closed", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", content, nil)
		open := 0
		p.bodies = func(b io.ReadCloser) io.ReadCloser {
			open++
			return &closing{Reader: &torn{b, 700, errWire}, close: func() { open-- }}
		}
		r := w.open("k")
		_, err := io.CopyN(io.Discard, r, 5000)
		require.NoError(t, err)
		_, err = r.Seek(0, io.SeekStart)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, r, 10)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Zero(t, open)
	})
}

type closing struct {
	io.Reader
	close func()
}

func (c *closing) Close() error { c.close(); return nil }

func TestAReplaceBetweenTheRowAndTheBlob(t *testing.T) {
	gone := func(w *world) { // the read grace is over, and a sweeper came by
		time.Sleep(5 * time.Minute)
		w.sweep()
	}
	arrange := func(t *testing.T) *world {
		w := plain(t, nil)
		w.put("k", "first version", nil)
		return w
	}
	replace := func(w *world) blobtx.Object {
		return w.put("k", "second version, longer", &blobtx.PutOptions{If: blobtx.Always()})
	}
	inBubble(t, "within the grace the version that was opened is read", func(t *testing.T) {
		w := arrange(t)
		r := w.open("k")
		replace(w)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "first version", string(got))
	})
	inBubble(t, "after it, while nothing was shown, the reader follows the row", func(t *testing.T) {
		w := arrange(t)
		r := w.open("k")
		second := replace(w)
		gone(w)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "second version, longer", string(got))
		require.Equal(t, second, r.Object())
	})
	shown := map[string]func(t *testing.T, r *blobtx.Reader){
		"Object": func(_ *testing.T, r *blobtx.Reader) { r.Object() },
		"Seek": func(t *testing.T, r *blobtx.Reader) {
			_, err := r.Seek(0, io.SeekEnd)
			require.NoError(t, err)
			_, err = r.Seek(0, io.SeekStart)
			require.NoError(t, err)
		},
		"a byte": func(t *testing.T, r *blobtx.Reader) {
			_, err := r.Read(make([]byte, 1))
			require.NoError(t, err)
			_, err = r.Seek(3, io.SeekStart)
			require.NoError(t, err)
		},
	}
	for what, show := range shown {
		inBubble(t, "after it, when "+what+" was shown: a ConflictError, never a mixture", func(t *testing.T) {
			w := arrange(t)
			r := w.open("k")
			show(t, r)
			second := replace(w)
			gone(w)
			got, err := io.ReadAll(r)
			require.Empty(t, got)
			var conflict *blobtx.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, &second, conflict.Current)
			require.NotErrorIs(t, err, blobtx.ErrCorrupt)
			_, again := r.Read(make([]byte, 1))
			require.Equal(t, err, again)
			require.Equal(t, "second version, longer", w.read("k"), "Open again gives the new version")
		})
	}
	inBubble(t, "after it, when the connection breaks in the middle: never a mixture", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "first version", nil)
		p.bodies = func(b io.ReadCloser) io.ReadCloser { return &torn{b, 5, errWire} }
		r := w.open("k")
		got := make([]byte, 5)
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		second := replace(w)
		gone(w)
		rest, err := io.ReadAll(r)
		require.Empty(t, rest)
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, &second, conflict.Current)
	})
	inBubble(t, "deleted: a ConflictError that is ErrNotFound", func(t *testing.T) {
		w := arrange(t)
		r, pinned := w.open("k"), w.open("k")
		pinned.Object()
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		gone(w)
		for _, r := range []*blobtx.Reader{r, pinned} {
			_, err := io.ReadAll(r)
			require.ErrorIs(t, err, blobtx.ErrNotFound)
			require.ErrorIs(t, err, blobtx.ErrConflict)
			require.NotErrorIs(t, err, blobtx.ErrCorrupt)
		}
	})
	inBubble(t, "a change of metadata takes nothing away", func(t *testing.T) {
		w := arrange(t)
		r := w.open("k")
		r.Object()
		_, err := w.SetMetadata(t.Context(), "k", map[string]string{"a": "b"}, nil)
		require.NoError(t, err)
		gone(w)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "first version", string(got))
	})
	inBubble(t, "replaced each time it looks: bounded", func(t *testing.T) {
		w, p := tapped(t, &blobtx.Options{ReadGrace: -1})
		w.put("k", "x", nil)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "open blob" {
				_, err := w.calm.Put(t.Context(), "k", text("y"), &blobtx.PutOptions{If: blobtx.Always()})
				require.NoError(t, err)
				w.sweep()
			}
			return nil
		})
		p.steps()
		_, err := io.ReadAll(w.open("k"))
		require.ErrorIs(t, err, blobtx.ErrBusy)
		require.LessOrEqual(t, p.steps()["open blob"], 20)
	})
}

func TestAnObjectWithoutItsBytesIsCorrupt(t *testing.T) {
	const good = "the right bytes"
	for what, spoil := range map[string]func(w *world, o blobtx.Object){
		"missing":                       func(w *world, o blobtx.Object) { w.blobs.Remove(o.Blob.Name) },
		"another's under the same name": func(w *world, o blobtx.Object) { w.blobs.PutForeign(o.Blob.Name, []byte(good)) },
		"different, the ETag lies":      func(w *world, o blobtx.Object) { w.lie(o, "the wrong bytes") },
		"cut short, the ETag lies":      func(w *world, o blobtx.Object) { w.lie(o, "the right") },
		"longer and different":          func(w *world, o blobtx.Object) { w.lie(o, "the wrong bytes and more") },
		"nothing, the ETag lies":        func(w *world, o blobtx.Object) { w.lie(o, "") },
	} {
		reads := map[string]func(r io.Reader) error{
			"io.ReadAll":                func(r io.Reader) error { _, err := io.ReadAll(r); return err },
			"io.Copy":                   func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
			"a byte at a time":          func(r io.Reader) error { _, err := io.ReadAll(iotest.OneByteReader(r)); return err },
			"io.ReadFull of its size":   func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, len(good))); return err },
			"io.CopyN of its size":      func(r io.Reader) error { _, err := io.CopyN(io.Discard, r, int64(len(good))); return err },
			"after it was read in part": func(r io.Reader) error { return readTwice(r.(*blobtx.Reader)) },
		}
		for how, read := range reads {
			inBubble(t, what+", read with "+how, func(t *testing.T) {
				w := plain(t, nil)
				o := w.put("k", good, nil)
				spoil(w, o)
				err := read(w.open("k"))
				require.ErrorIs(t, err, blobtx.ErrCorrupt)
				require.NotErrorIs(t, err, blobtx.ErrConflict)
				require.ErrorContains(t, err, o.Blob.Name)
				require.ErrorContains(t, err, `"k"`)
				require.NotContains(t, err.Error(), "wrong bytes")
			})
		}
	}
	inBubble(t, "longer, read to the end: told, or the right bytes", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", good, nil)
		w.lie(o, good+" and more")
		for _, r := range []io.Reader{w.open("k"), iotest.OneByteReader(w.open("k"))} {
			if got, err := io.ReadAll(r); err == nil {
				require.Equal(t, good, string(got))
			} else {
				require.ErrorIs(t, err, blobtx.ErrCorrupt)
			}
		}
	})
	inBubble(t, "an empty object whose blob is not", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "", nil)
		w.lie(o, "bytes")
		_, err := io.ReadAll(w.open("k"))
		require.ErrorIs(t, err, blobtx.ErrCorrupt)
	})
	inBubble(t, "the last bytes of a whole are not handed out unverified", func(t *testing.T) {
		w := plain(t, nil)
		body := strings.Repeat("x", 100_000)
		o := w.put("k", body, nil)
		w.lie(o, body[:99_999]+"y")
		got, err := io.ReadAll(w.open("k"))
		require.ErrorIs(t, err, blobtx.ErrCorrupt)
		require.Less(t, len(got), len(body), "a wrong body arrived complete")
	})
}

// readTwice reads a part, goes back to the start, and reads the whole.
func readTwice(r *blobtx.Reader) error {
	if _, err := r.Read(make([]byte, 3)); err != nil {
		return err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.ReadAll(r)
	return err
}

// lie puts other bytes under the object's name and makes the row believe that
// they are its own, all but their size and hash.
func (w *world) lie(o blobtx.Object, content string) {
	w.blobs.Remove(o.Blob.Name)
	o.Blob.ETag = w.blobs.PutForeign(o.Blob.Name, []byte(content)).ETag
	w.rows.SetObject(o)
}

// Readers, writers and sweepers at once, without any grace: a reader gets one
// version whole, or is told.
func TestReadersNeverSeeAMixture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, &blobtx.Options{ReadGrace: -1})
		version := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n%26)}, 10_000+n) }
		put := func(n int) {
			_, err := w.Put(t.Context(), "k", bytes.NewReader(version(n)), &blobtx.PutOptions{If: blobtx.Always()})
			require.NoError(t, err)
		}
		put(0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		whole, told := 0, 0
		var mu sync.Mutex
		for i := range 8 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					r, err := w.Open(t.Context(), "k", nil)
					if err != nil {
						t.Error(err)
						return
					}
					var got []byte
					buf := make([]byte, 977)
					for err == nil {
						var k int
						k, err = r.Read(buf)
						got = append(got, buf[:k]...)
						if (n+i)%3 == 0 && len(got) == 977 {
							time.Sleep(3 * time.Millisecond)
							_, _ = r.Seek(977, io.SeekStart)
						} else if k > 0 && n%2 == 0 {
							time.Sleep(time.Millisecond)
						}
					}
					mu.Lock()
					switch {
					case err == io.EOF && len(got) >= 10_000 && bytes.Equal(got, version(len(got)-10_000)):
						whole++
					case errors.Is(err, blobtx.ErrConflict):
						told++
					default:
						t.Error(fmt.Errorf("%d bytes of %q, then %w", len(got), got[:min(1, len(got))], err))
					}
					mu.Unlock()
					_ = r.Close()
					time.Sleep(time.Millisecond)
				}
			})
		}
		for n := range 300 {
			time.Sleep(2 * time.Millisecond)
			put(n + 1)
			w.sweep()
		}
		cancel()
		wg.Wait()
		require.Positive(t, whole)
		w.atRest()
	})
}
