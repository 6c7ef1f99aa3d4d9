package blobtx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// always is for whoever comes meanwhile.
var always = &blobtx.PutOptions{If: blobtx.Always()}

// adding is a change that appends to what is there.
func adding(s string) blobtx.ChangeFunc {
	return func(_ context.Context, _ *blobtx.Object, old io.Reader) (io.Reader, error) {
		return io.MultiReader(old, text(s)), nil // read while it is sent
	}
}

func TestUpdateReplacesWhatIsThere(t *testing.T) {
	inBubble(t, "and keeps the rest", func(t *testing.T) {
		w := plain(t, nil)
		before := w.put("k", "a", &blobtx.PutOptions{ContentType: "text/csv", Metadata: map[string]string{"m": "1"}})
		o, err := w.Update(t.Context(), "k", func(ctx context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
			require.Equal(t, before, *current)
			current.Metadata["m"] = "mine to change"
			current.Key = "another"
			return adding("b")(ctx, current, old)
		}, nil)
		require.NoError(t, err)
		require.Greater(t, o.Version, before.Version)
		require.Equal(t, "text/csv", o.Blob.ContentType)
		require.Equal(t, map[string]string{"m": "1"}, o.Metadata)
		require.Equal(t, "ab", w.read("k"))
		w.atRest()
	})
	inBubble(t, "and what the options say", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", &blobtx.PutOptions{ContentType: "text/csv", Metadata: map[string]string{"m": "1"}})
		var sent int64
		o, err := w.Update(t.Context(), "k", adding("b"), &blobtx.UpdateOptions{
			ContentType: "text/plain", Metadata: map[string]string{}, OnProgress: func(n int64) { sent = n },
		})
		require.NoError(t, err)
		require.Equal(t, "text/plain", o.Blob.ContentType)
		require.Empty(t, o.Metadata)
		require.EqualValues(t, 2, sent)
	})
	inBubble(t, "or creates, where that is wanted", func(t *testing.T) {
		w := plain(t, nil)
		o, err := w.Update(t.Context(), "k", func(ctx context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
			require.Nil(t, current)
			return adding("first")(ctx, current, old)
		}, &blobtx.UpdateOptions{Create: true})
		require.NoError(t, err)
		require.Equal(t, "first", w.read("k"))
		require.Equal(t, o, w.rows.Objects()[0])
	})
	inBubble(t, "not what is absent", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Update(t.Context(), "k", neverCalled(t), nil)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.ErrorContains(t, err, `"k"`)
	})
}

func neverCalled(t *testing.T) blobtx.ChangeFunc {
	return func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
		t.Error("called")
		return nil, errors.New("called")
	}
}

func TestUpdateOfBadInput(t *testing.T) {
	w := plain(t, nil)
	for what, update := range map[string]func() (blobtx.Object, error){
		"no function": func() (blobtx.Object, error) { return w.Update(t.Context(), "k", nil, nil) },
		"key":         func() (blobtx.Object, error) { return w.Update(t.Context(), "", neverCalled(t), nil) },
		"metadata": func() (blobtx.Object, error) {
			return w.Update(t.Context(), "k", neverCalled(t), &blobtx.UpdateOptions{Create: true, Metadata: map[string]string{"": "x"}})
		},
		"content type": func() (blobtx.Object, error) {
			return w.Update(t.Context(), "k", neverCalled(t), &blobtx.UpdateOptions{Create: true, ContentType: "a\n"})
		},
		"no body": func() (blobtx.Object, error) {
			return w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) { return nil, nil }, &blobtx.UpdateOptions{Create: true})
		},
	} {
		_, err := update()
		require.ErrorIs(t, err, blobtx.ErrInvalid, what)
		require.Empty(t, w.rows.Intents(), what)
	}
}

func TestUpdateThatLosesTheRaceBeginsAgain(t *testing.T) {
	for what, meanwhile := range map[string]struct {
		do   func(w *world)
		want string
	}{
		"replaced":              {func(w *world) { w.put("k", "b", always) }, "b+"},
		"deleted and made anew": {func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), "k", nil)); w.put("k", "c", nil) }, "c+"},
		"deleted":               {func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), "k", nil)) }, "+"},
	} {
		for when, early := range map[string]bool{"before the bytes are sent": true, "while they are sent": false} {
			inBubble(t, what+" "+when, func(t *testing.T) {
				w := plain(t, nil)
				w.put("k", "a", nil)
				calls := 0
				change := func(ctx context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
					if calls++; calls > 1 {
						return adding("+")(ctx, current, old)
					}
					if early {
						meanwhile.do(w)
						return text("lost"), nil
					}
					return io.MultiReader(text("lost"), reader(func([]byte) (int, error) { meanwhile.do(w); return 0, io.EOF })), nil
				}
				_, err := w.Update(t.Context(), "k", change, &blobtx.UpdateOptions{Create: true})
				require.NoError(t, err)
				require.Equal(t, 2, calls)
				require.Equal(t, meanwhile.want, w.read("k"))
				w.atRest()
			})
		}
	}
	inBubble(t, "created meanwhile", func(t *testing.T) {
		w := plain(t, nil)
		calls := 0
		_, err := w.Update(t.Context(), "k", func(ctx context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
			if calls++; calls == 1 {
				w.put("k", "theirs", nil)
			}
			return adding("+")(ctx, current, old)
		}, &blobtx.UpdateOptions{Create: true})
		require.NoError(t, err)
		require.Equal(t, "theirs+", w.read("k"))
		w.atRest()
	})
	inBubble(t, "deleted meanwhile, and it does not create", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		calls := 0
		_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			calls++
			return text("x"), w.Delete(t.Context(), "k", nil)
		}, nil)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.Equal(t, 1, calls)
		w.atRest()
	})
	for when, wrap := range map[string]func(read func() error) (io.Reader, error){
		"before the bytes are sent": func(read func() error) (io.Reader, error) { return nil, read() },
		"while they are sent": func(read func() error) (io.Reader, error) {
			return reader(func([]byte) (int, error) { return 0, read() }), nil
		},
	} {
		inBubble(t, "what it reads is taken away "+when+", whatever the function makes of that", func(t *testing.T) {
			w := plain(t, &blobtx.Options{ReadGrace: -1})
			w.put("k", "a", nil)
			calls := 0
			_, err := w.Update(t.Context(), "k", func(ctx context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
				if calls++; calls > 1 {
					return adding("+")(ctx, current, old)
				}
				return wrap(func() error {
					w.put("k", "b", always)
					time.Sleep(time.Second)
					w.sweep()
					_, err := io.ReadAll(old)
					return fmt.Errorf("cannot parse: %s", err)
				})
			}, nil)
			require.NoError(t, err)
			require.Equal(t, "b+", w.read("k"))
			w.atRest()
		})
	}
	inBubble(t, "each time: bounded, and the error counts the attempts", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		calls, began := 0, time.Now()
		_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			calls++
			w.put("k", strconv.Itoa(calls), always)
			return text("lost"), nil
		}, nil)
		require.ErrorIs(t, err, blobtx.ErrConflict)
		require.ErrorContains(t, err, "10 attempts")
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, w.rows.Objects()[0].Version, conflict.Current.Version)
		require.Equal(t, 10, calls)
		require.Less(t, time.Since(began), 15*time.Second)
		require.Equal(t, "10", w.read("k"))
		w.atRest()
	})
	inBubble(t, "until its context ends", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Update(ctx, "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			w.put("k", "theirs", always)
			return text("lost"), nil
		}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, blobtx.ErrConflict)
		w.atRest()
	})
	inBubble(t, "and all of many take effect", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "0", nil)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				_, err := w.Update(t.Context(), "k", func(_ context.Context, _ *blobtx.Object, old io.Reader) (io.Reader, error) {
					b, err := io.ReadAll(old)
					if err != nil {
						return nil, err
					}
					n, err := strconv.Atoi(string(b))
					return text(strconv.Itoa(n + 1)), err
				}, nil)
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, "6", w.read("k"))
		w.atRest()
	})
}

func TestUpdateThatTheFunctionEnds(t *testing.T) {
	inBubble(t, "without a change", func(t *testing.T) {
		w, p := tapped(t, nil)
		before := w.put("k", "a", nil)
		p.steps()
		o, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			return nil, fmt.Errorf("nothing to do: %w", blobtx.ErrNoChange)
		}, nil)
		require.NoError(t, err)
		require.Equal(t, before, o)
		require.Equal(t, map[string]int{"get object": 1}, p.steps())
	})
	inBubble(t, "without a change of what is absent", func(t *testing.T) {
		w := plain(t, nil)
		o, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			return nil, blobtx.ErrNoChange
		}, &blobtx.UpdateOptions{Create: true})
		require.NoError(t, err)
		require.Zero(t, o)
	})
	inBubble(t, "with an error", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "a", nil)
		p.steps()
		mine := errors.New("mine")
		_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) { return nil, mine }, nil)
		require.ErrorIs(t, err, mine)
		require.Equal(t, map[string]int{"get object": 1}, p.steps())
	})
	inBubble(t, "with an error of the body", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		mine := errors.New("mine")
		_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			return reader(func([]byte) (int, error) { return 0, mine }), nil
		}, nil)
		require.ErrorIs(t, err, mine)
		var body *blobtx.BodyError
		require.ErrorAs(t, err, &body)
		require.Equal(t, "a", w.read("k"))
		w.atRest()
	})
	inBubble(t, "with a panic", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		require.PanicsWithValue(t, "mine", func() {
			_, _ = w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) { panic("mine") }, nil)
		})
		w.atRest()
	})
}

func TestUpdateDerivesNothingFromWrongBytes(t *testing.T) {
	for what, change := range map[string]blobtx.ChangeFunc{
		"read whole": adding("b"),
		"read in part": func(_ context.Context, _ *blobtx.Object, old io.Reader) (io.Reader, error) {
			return io.LimitReader(old, 2), nil
		},
		"not read": func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) { return text("b"), nil },
		"read, the error eaten": func(_ context.Context, _ *blobtx.Object, old io.Reader) (io.Reader, error) {
			b, _ := io.ReadAll(old)
			return text(string(b)), nil
		},
	} {
		inBubble(t, what, func(t *testing.T) {
			w := plain(t, nil)
			o := w.put("k", "the right bytes", nil)
			w.lie(o, "the wrong bytes")
			_, err := w.Update(t.Context(), "k", change, nil)
			require.ErrorIs(t, err, blobtx.ErrCorrupt)
			require.Equal(t, o.Version, w.rows.Objects()[0].Version)
			for _, in := range w.rows.Intents() {
				require.True(t, in.ID == o.IntentID || in.State == store.Abandoned, "%+v", in)
			}
		})
	}
	inBubble(t, "and nothing can seek past them", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		_, err := w.Update(t.Context(), "k", func(_ context.Context, _ *blobtx.Object, old io.Reader) (io.Reader, error) {
			_, seeks := old.(io.Seeker)
			require.False(t, seeks)
			return nil, blobtx.ErrNoChange
		}, nil)
		require.NoError(t, err)
	})
}

func TestUpdateClosesWhatTheFunctionReturns(t *testing.T) {
	inBubble(t, "once an attempt", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "a", nil)
		calls, closed := 0, 0
		_, err := w.Update(t.Context(), "k", func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) {
			if calls++; calls < 3 {
				w.put("k", "theirs", always)
			}
			return &closing{io.NopCloser(text("x")), func() { closed++ }}, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 3, closed)
	})
}
