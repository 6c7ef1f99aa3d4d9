package blobtx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// A server that hangs up makes net/http return an error in which io.EOF is
// wrapped. Copying from it must not store what had come by then.
func TestADownloadThatBrokeOffIsNotStored(t *testing.T) {
	w := plain(t, nil)
	hangsUp := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer hangsUp.Close()
	lazily := reader(func(p []byte) (int, error) {
		resp, err := hangsUp.Client().Get(hangsUp.URL)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.Body.Read(p)
	})
	for name, body := range map[string]io.Reader{
		"at once":  lazily,
		"half-way": io.MultiReader(text("first half"), lazily),
	} {
		_, err := w.Put(t.Context(), name, body, nil)
		var failed *blobtx.BodyError
		require.ErrorAs(t, err, &failed, name)
		require.ErrorIs(t, err, io.EOF, "the fake server no longer does what real ones do")
		_, err = w.Get(t.Context(), name)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
	}
	require.Empty(t, w.blobs.Snapshot())
}

// stuck says that it went back and stays where it is.
type stuck struct{ io.Reader }

func (stuck) Seek(int64, int) (int64, error) { return 0, nil }

// A request is lost and the body is asked for again.
func TestAReaderThatDoesNotGoBackStoresNothing(t *testing.T) {
	inBubble(t, "and is told apart from one that does", func(t *testing.T) {
		w := newAzureWorld(t, false)
		w.put("warm", "x", nil)
		for key, body := range map[string]io.Reader{"honest": text("important bytes"), "stuck": stuck{text("important bytes")}} {
			lost := 0
			w.server.SetHook(func(c azfake.Call) azfake.Fault {
				if c.Op == azfake.OpPutBlob && lost == 0 {
					lost++
					return azfake.LoseRequest()
				}
				return azfake.Fault{}
			})
			o, err := w.Put(t.Context(), key, body, nil)
			require.Equal(t, 1, lost)
			if key == "honest" {
				require.NoError(t, err)
				require.EqualValues(t, 15, o.Blob.Size)
				continue
			}
			var failed *blobtx.BodyError
			require.ErrorAs(t, err, &failed)
			require.ErrorContains(t, err, "after a rewind")
		}
		w.atRest()
	})
}

// A copy reads from another object, whose errors are blobtx's own. They say
// nothing about this upload: it is given up like any whose body failed.
func TestABodyThatFailsWithAnErrorOfOursIsGivenUp(t *testing.T) {
	for name, own := range map[string]error{
		"outcome unknown": blobtx.ErrOutcomeUnknown, "taken over": blobtx.ErrTakenOver, "intent lost": blobtx.ErrIntentLost,
		"conflict": &blobtx.ConflictError{Key: "k"}, "held": blobtx.ErrHeld, "invalid": blobtx.ErrInvalid,
	} {
		inBubble(t, name, func(t *testing.T) {
			w := plain(t, nil)
			_, err := w.Put(t.Context(), "k", io.MultiReader(text("some"), iotest.ErrReader(own)), nil)
			var failed *blobtx.BodyError
			require.ErrorAs(t, err, &failed)
			for _, in := range w.rows.Intents() {
				require.Equal(t, store.Abandoned, in.State, "it waits for a deadline that need not pass")
			}
			w.atRest()
			require.Empty(t, w.blobs.Snapshot())
		})
	}
}

func TestErrorsOfTheChangeEndAnUpdate(t *testing.T) {
	for name, change := range map[string]func(calls int) (io.Reader, error){
		"a conflict of its own":  func(int) (io.Reader, error) { return nil, &blobtx.ConflictError{Key: "k"} },
		"a body with a conflict": func(int) (io.Reader, error) { return iotest.ErrReader(&blobtx.ConflictError{Key: "k"}), nil },
		"wrapped":                func(int) (io.Reader, error) { return nil, fmt.Errorf("mine: %w", &blobtx.ConflictError{Key: "k"}) },
		"something else":         func(int) (io.Reader, error) { return nil, errWire },
	} {
		inBubble(t, name, func(t *testing.T) {
			w := plain(t, nil)
			w.put("k", "one", nil)
			calls := 0
			_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
				calls++
				return change(calls)
			}, nil)
			require.Error(t, err)
			require.Equal(t, 1, calls)
			require.Equal(t, errors.Is(err, errWire), name == "something else")
			require.Equal(t, "one", w.read("k"))
			w.atRest()
		})
	}
}

// Several blobs are sealed at once, in goroutines in which a panic would end the
// process.
func TestAPanicOfOnEventReachesWhoCommittedSeveral(t *testing.T) {
	inBubble(t, "and not the process", func(t *testing.T) {
		w := plain(t, &blobtx.Options{OnEvent: func(_ context.Context, e blobtx.Event) {
			if e.Kind == blobtx.EventSealed {
				panic("metrics")
			}
		}})
		a, b := w.stage("a", "1", nil), w.stage("b", "2", nil)
		require.PanicsWithValue(t, "metrics", func() { _, _ = w.Commit(t.Context(), nil, a, b) })
		require.Equal(t, "12", w.read("a")+w.read("b"), "they were committed by then")
	})
}

func TestAMalformedIfMatchHoldsForNothing(t *testing.T) {
	inBubble(t, "even if its error is ignored", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "x", nil)
		for _, header := range []string{"", "garbage", `"1`, `*, "1"`} {
			ignored, err := blobtx.ParseIfMatch(header)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			require.ErrorIs(t, w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: ignored}), blobtx.ErrConflict)
			_, err = w.Put(t.Context(), "new", text("x"), &blobtx.PutOptions{If: ignored})
			require.ErrorIs(t, err, blobtx.ErrConflict)
		}
		require.Equal(t, "x", w.read("k"))
	})
}

// The jitter of a long time must not wrap to a negative one, with which a timer
// fires at once.
func TestALongTimeBetweenSweepsIsLong(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, 100 * 365 * 24 * time.Hour, math.MaxInt64} {
		inBubble(t, every.String(), func(t *testing.T) {
			w, p := tapped(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			sweeps := 0
			p.onBefore(func(_ context.Context, step string) error {
				if step == "claim" {
					if sweeps++; sweeps == 1000 {
						cancel()
					}
				}
				return nil
			})
			require.NoError(t, w.RunSweeper(ctx, &blobtx.SweeperOptions{Every: every}))
			if every > time.Hour {
				require.Equal(t, 1, sweeps)
				return
			}
			require.GreaterOrEqual(t, sweeps, 8, "a minute and a quarter at most")
			require.LessOrEqual(t, sweeps, 14, "three quarters of a minute at least")
		})
	}
}

// Tables that are not there are not there at the next try.
func TestADecisionIsNotAskedForAgain(t *testing.T) {
	for step, decision := range map[string]error{"get object": blobtx.ErrSetup, "delete object": blobtx.ErrSetup, "set metadata": blobtx.ErrSetup} {
		inBubble(t, step, func(t *testing.T) {
			w, p := tapped(t, nil)
			w.put("k", "x", nil)
			asked := 0
			p.onBefore(func(_ context.Context, s string) error {
				if s != step {
					return nil
				}
				asked++
				return fmt.Errorf("no such table: %w", decision)
			})
			began := time.Now()
			var err error
			if step == "set metadata" {
				_, err = w.SetMetadata(t.Context(), "k", map[string]string{"a": "b"}, nil)
			} else {
				err = w.Delete(t.Context(), "k", nil)
			}
			require.ErrorIs(t, err, decision)
			require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
			require.Equal(t, 1, asked)
			require.Zero(t, time.Since(began), "it waited for what does not come")
		})
	}
}

// Names that the service refuses are refused before anything is promised.
func TestABlobNameOfOnesOwnIsChecked(t *testing.T) {
	for _, name := range []string{"a\u0081b", "a\ufffeb", "a\uffff", strings.Repeat("\U00020000", 401)} {
		w := plain(t, &blobtx.Options{BlobName: func(string, string) string { return name }})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid, "%.20q", name)
		require.Empty(t, w.rows.Intents())
	}
}
