package blobtx_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

func named(key string) *blobtx.PutOptions { return &blobtx.PutOptions{IdempotencyKey: key} }

func TestAReplayReturnsTheStoredObjectAndReadsNothing(t *testing.T) {
	for promise, state := range map[string]struct {
		opts *blobtx.Options
		want store.State
	}{
		"done":    {nil, store.Done},
		"sealing": {&blobtx.Options{SealLater: true}, store.Sealing},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, state.opts)
			opts := &blobtx.PutOptions{IdempotencyKey: "i", Metadata: map[string]string{"a": "1"}, ContentType: "a/b"}
			first := w.put("k", "x", opts)
			require.Equal(t, state.want, w.rows.Intents()[0].State)
			rows, blobs := w.rows.Intents(), w.blobs.Snapshot()
			for _, c := range []*blobtx.Coordinator{w.Coordinator, w.calm} {
				body := &counted{Reader: text("x")}
				again, err := c.Put(t.Context(), "k", body, opts)
				require.NoError(t, err)
				require.Equal(t, first, again)
				require.Zero(t, body.reads, "a replay read the body")

				up, err := c.Stage(t.Context(), "k", body, opts)
				require.NoError(t, err)
				stored, ok := up.Replay()
				require.True(t, ok)
				require.Equal(t, first, stored)
				objects, err := c.Commit(t.Context(), nil, up)
				require.NoError(t, err)
				require.Equal(t, []blobtx.Object{first}, objects)
				outcome, err := c.Settle(t.Context(), up)
				require.NoError(t, err)
				require.Equal(t, blobtx.Outcome{Committed: true, Objects: []blobtx.Object{first}}, outcome)
				in := up.Intent()
				require.NoError(t, c.Abort(t.Context(), &in))
				up.Release()
			}
			require.Equal(t, rows, w.rows.Intents(), "a replay changed something")
			require.Equal(t, blobs, w.blobs.Snapshot())
			w.atRest()
		})
	}
}

func TestTheFirstAttemptsKeyAndMetadataWin(t *testing.T) {
	inBubble(t, "over a finished one", func(t *testing.T) {
		w := plain(t, nil)
		first := w.put("minted-1", "x", &blobtx.PutOptions{IdempotencyKey: "i", Metadata: map[string]string{"n": "1"}})
		again := w.put("minted-2", "x", &blobtx.PutOptions{IdempotencyKey: "i", Metadata: map[string]string{"n": "2"}})
		require.Equal(t, first, again)
		require.Len(t, w.rows.Objects(), 1)
	})
	inBubble(t, "over an unfinished one", func(t *testing.T) {
		w := plain(t, nil)
		first := w.stage("minted-1", "x", &blobtx.PutOptions{IdempotencyKey: "i", Metadata: map[string]string{"n": "1"}, ContentType: "a/1"})
		up := w.stage("minted-2", "x", &blobtx.PutOptions{IdempotencyKey: "i", Metadata: map[string]string{"n": "2"}, ContentType: "a/2"})
		require.Equal(t, "minted-1", up.Intent().Key)
		require.Equal(t, first.Intent().ID, up.Intent().ID)
		objects, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.Equal(t, "minted-1", objects[0].Key)
		require.Equal(t, map[string]string{"n": "1"}, objects[0].Metadata)
		info, ok := w.blobs.Get(objects[0].Blob.Name)
		require.True(t, ok)
		require.Equal(t, info.ContentType, objects[0].Blob.ContentType, "the row's facts are the blob's")
		w.atRest()
	})
}

func TestATakeoverFencesTheFirstHolder(t *testing.T) {
	arrange := func(t *testing.T) (w *world, first, second *blobtx.Upload) {
		w = plain(t, nil)
		first = w.stage("k", "x", named("i"))
		second, err := w.calm.Stage(t.Context(), "k", text("x"), named("i"))
		require.NoError(t, err)
		return w, first, second
	}
	finish := func(w *world, second *blobtx.Upload) {
		_, err := w.calm.Commit(w.t.Context(), nil, second)
		require.NoError(w.t, err, "the latest attempt wins")
		require.Equal(w.t, "x", w.read("k"))
		require.Len(w.t, w.rows.Intents(), 1)
		w.atRest()
	}
	inBubble(t, "its commit", func(t *testing.T) {
		w, first, second := arrange(t)
		_, err := w.Commit(t.Context(), nil, first)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		_, err = w.CommitWith(t.Context(), w.transaction, first)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		require.Empty(t, w.rows.Objects())
		finish(w, second)
	})
	inBubble(t, "its commit in a transaction, without a trace", func(t *testing.T) {
		w, first, second := arrange(t)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, first)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		require.NoError(t, tx.Commit())
		require.Empty(t, w.rows.Objects())
		finish(w, second)
	})
	inBubble(t, "its heartbeats", func(t *testing.T) {
		w, first, second := arrange(t)
		second.Release()
		time.Sleep(14 * time.Minute)
		require.Equal(t, int64(0), w.row(first.Intent().ID).Beats)
		finish(w, second)
	})
	inBubble(t, "its abort, deferred or not", func(t *testing.T) {
		w, first, second := arrange(t)
		in := first.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Len(t, w.blobs.Snapshot(), 1, "an impatient first attempt destroyed the second")
		finish(w, second)
	})
	inBubble(t, "its settling", func(t *testing.T) {
		w, first, second := arrange(t)
		_, err := w.Settle(t.Context(), first)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		finish(w, second)
		w.put("other", "y", nil)
	})
	inBubble(t, "its upload, which ends with that reason", func(t *testing.T) {
		w := plain(t, nil)
		var first error
		var wg sync.WaitGroup
		wg.Go(func() { _, first = w.Put(t.Context(), "k", slowly(time.Hour, time.Second), named("i")) })
		time.Sleep(time.Minute)
		second, err := w.calm.Put(t.Context(), "k", text("x"), named("i"))
		wg.Wait()
		require.NoError(t, err)
		require.ErrorIs(t, first, blobtx.ErrTakenOver, "the second was committed by then")
		require.NotErrorIs(t, first, context.Canceled, "the caller cancelled nothing")
		require.Equal(t, "x", w.read("k"))
		got, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, second, got)
		w.atRest()
	})
}

func TestAnIdempotencyKeyNamesOneRequest(t *testing.T) {
	inBubble(t, "another condition, over a finished one", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "x", named("i"))
		for _, want := range []blobtx.Condition{blobtx.Always(), blobtx.IfExists(), blobtx.IfVersion(5)} {
			_, err := w.Put(t.Context(), "k", text("x"), &blobtx.PutOptions{IdempotencyKey: "i", If: want})
			require.ErrorIs(t, err, blobtx.ErrIdempotencyReuse)
			require.ErrorContains(t, err, `"i"`)
		}
		w.atRest()
	})
	inBubble(t, "another condition, over an unfinished one", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", named("i"))
		_, err := w.Put(t.Context(), "k", text("x"), &blobtx.PutOptions{IdempotencyKey: "i", If: blobtx.Always()})
		require.ErrorIs(t, err, blobtx.ErrIdempotencyReuse)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err, "a misuse of the key destroyed the first attempt")
		w.atRest()
	})
	for what, opts := range map[string]blobtx.PutOptions{
		"a declared size":    {Size: 2},
		"a declared SHA-256": {SHA256: hexSum("y")},
		"both":               {Size: 1, SHA256: hexSum("y")},
	} {
		inBubble(t, what+" that differs from the stored result", func(t *testing.T) {
			w := plain(t, nil)
			first := w.put("k", "x", named("i"))
			opts.IdempotencyKey = "i"
			body := &counted{Reader: text("yy")}
			_, err := w.Put(t.Context(), "k", body, &opts)
			require.ErrorIs(t, err, blobtx.ErrIdempotencyReuse)
			require.Zero(t, body.reads)
			got, err := w.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, first, got)
			require.Equal(t, first, w.put("k", "x", named("i")), "the stored result is gone")
			w.atRest()
		})
	}
	inBubble(t, "the same size and SHA-256 declared are a replay", func(t *testing.T) {
		w := plain(t, nil)
		first := w.put("k", "x", named("i"))
		require.Equal(t, first, w.put("k", "x", &blobtx.PutOptions{IdempotencyKey: "i", Size: 1, SHA256: hexSum("x")}))
	})
	for what, other := range map[string]string{"of the same length": "y", "longer": "xx", "none": ""} {
		inBubble(t, "other bytes under the name before there is a result: "+what, func(t *testing.T) {
			w := plain(t, nil)
			first := w.stage("k", "x", named("i"))
			defer first.Release()
			in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{IdempotencyKey: "i"})
			require.NoError(t, err)
			_, err = w.Upload(t.Context(), in, text(other), nil)
			require.ErrorIs(t, err, blobtx.ErrIdempotencyReuse)
			require.Equal(t, []byte("x"), w.blobs.Snapshot()[in.BlobName], "written over")
			up, err := w.Upload(t.Context(), in, text("x"), nil)
			require.NoError(t, err)
			_, err = w.Commit(t.Context(), nil, up)
			require.NoError(t, err)
			w.atRest()
		})
	}
	inBubble(t, "the idempotency key comes first, the condition second", func(t *testing.T) {
		w := plain(t, nil)
		first := w.put("k", "x", named("i"))
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		w.put("k", "theirs", nil)
		require.Equal(t, first, w.put("k", "x", named("i")), "the object as it was then")
		require.Equal(t, "theirs", w.read("k"))
		w.atRest()
	})
}

func TestAReplayReturnsTheObjectAsItWasThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		first := w.put("k", "x", named("i"))
		time.Sleep(time.Hour)
		w.put("k", "new", &blobtx.PutOptions{If: blobtx.IfVersion(first.Version), IdempotencyKey: "j"})
		_, err := w.SetMetadata(t.Context(), "k", map[string]string{"a": "b"}, nil)
		require.NoError(t, err)
		w.sweep()
		require.Equal(t, first, w.put("k", "x", named("i")))
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		require.Equal(t, first, w.put("k", "x", named("i")))
		require.Empty(t, w.rows.Objects(), "a replay brought the object back")
		w.atRest()
	})
}

func TestWhenAnIdempotencyKeyIsFreeAgain(t *testing.T) {
	inBubble(t, "after Abort", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", named("i"))
		in := up.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		o := w.put("k", "other bytes", &blobtx.PutOptions{IdempotencyKey: "i", If: blobtx.Always()})
		require.NotEqual(t, in.ID, o.IntentID)
		w.atRest()
	})
	inBubble(t, "after a sweeper abandoned it", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", named("i"))
		up.Release()
		time.Sleep(16 * time.Minute)
		w.sweep()
		o := w.put("k", "y", named("i"))
		require.NotEqual(t, up.Intent().ID, o.IntentID)
		_, err := w.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		require.Equal(t, "y", w.read("k"))
		w.atRest()
	})
	inBubble(t, "after it expired, though nobody swept", func(t *testing.T) {
		w := plain(t, &blobtx.Options{MaxPending: time.Hour})
		up := w.stage("k", "x", named("i"))
		up.Release()
		time.Sleep(time.Hour)
		o := w.put("k", "y", named("i"))
		require.NotEqual(t, up.Intent().ID, o.IntentID)
		require.Equal(t, "y", w.read("k"))
		w.atRest()
	})
	inBubble(t, "after Retention, when a new attempt is fresh", func(t *testing.T) {
		w := plain(t, nil)
		first := w.put("k", "x", named("i"))
		time.Sleep(24*time.Hour - time.Minute)
		w.sweep()
		require.Equal(t, first, w.put("k", "x", named("i")))
		time.Sleep(2 * time.Minute)
		w.sweep()
		_, err := w.Put(t.Context(), "k", text("x"), named("i"))
		require.ErrorIs(t, err, blobtx.ErrExists)
		o := w.put("k2", "other", named("i"))
		require.Equal(t, "k2", o.Key)
		w.atRest()
	})
	inBubble(t, "but not while a person must decide", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", named("i"))
		up.Release()
		in := w.row(up.Intent().ID)
		in.State, in.DueAt = store.Held, time.Time{}
		in.Version++
		w.rows.SetIntent(in)
		_, err := w.Put(t.Context(), "k", text("x"), named("i"))
		require.ErrorIs(t, err, blobtx.ErrHeld)
		_, err = w.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrHeld)
		_, err = w.Settle(t.Context(), up)
		require.ErrorIs(t, err, blobtx.ErrHeld)
		_, err = w.Upload(t.Context(), &in, text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrHeld)
		require.NoError(t, w.Abort(t.Context(), &in))
		for range 3 {
			time.Sleep(100 * time.Hour)
			w.sweep()
		}
		require.Equal(t, in, w.row(in.ID))
		require.Len(t, w.blobs.Snapshot(), 1)
	})
}

// Any number of attempts at once, with the same key and bytes, make one object;
// each is told yes, or that a later attempt has it.
func TestAttemptsAtOnceMakeOneObject(t *testing.T) {
	for _, n := range []int{2, 8} {
		synctest.Test(t, func(t *testing.T) {
			w := plain(t, nil)
			body := bytes.Repeat([]byte("0123456789"), 10_000)
			objects, errs := make([]blobtx.Object, n), make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				c, err := blobtx.New(w.rows, w.blobs, nil)
				require.NoError(t, err)
				wg.Go(func() { objects[i], errs[i] = c.Put(t.Context(), "k", bytes.NewReader(body), named("i")) })
			}
			wg.Wait()
			yes := 0
			stored, err := w.Get(t.Context(), "k")
			require.NoError(t, err)
			for i, err := range errs {
				switch {
				case err == nil:
					yes++
					require.Equal(t, stored, objects[i])
				case !errors.Is(err, blobtx.ErrTakenOver) && !errors.Is(err, blobtx.ErrBusy):
					t.Errorf("attempt %d was told %v", i, err)
				}
			}
			require.Positive(t, yes)
			require.Len(t, w.rows.Intents(), 1)
			require.Len(t, w.blobs.Snapshot(), 1)
			require.Equal(t, string(body), w.read("k"))
			w.atRest()
		})
	}
}

// Between learning whose key it is and taking it over, anything may happen.
func TestATakeoverThatComesTooLate(t *testing.T) {
	for promise, meanwhile := range map[string]func(w *world, first *blobtx.Upload){
		"committed: a replay": func(w *world, first *blobtx.Upload) {
			_, err := w.calm.Commit(w.t.Context(), nil, first)
			require.NoError(w.t, err)
		},
		"aborted: a fresh attempt": func(w *world, first *blobtx.Upload) {
			in := first.Intent()
			require.NoError(w.t, w.calm.Abort(w.t.Context(), &in))
		},
		"taken over by a third: taken over from it": func(w *world, _ *blobtx.Upload) {
			_, err := w.calm.Stage(w.t.Context(), "k", text("x"), named("i"))
			require.NoError(w.t, err)
		},
		"taken over by a third and committed: a replay": func(w *world, _ *blobtx.Upload) {
			_, err := w.calm.Put(w.t.Context(), "k", text("x"), named("i"))
			require.NoError(w.t, err)
		},
		"committed and forgotten: told that it exists": func(w *world, first *blobtx.Upload) {
			_, err := w.calm.Commit(w.t.Context(), nil, first)
			require.NoError(w.t, err)
			time.Sleep(25 * time.Hour)
			w.sweep()
			require.Empty(w.t, w.rows.Intents())
		},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			first := w.stage("k", "x", named("i"))
			p.onBefore(func(_ context.Context, step string) error {
				if step == "take over" {
					p.onBefore(nil)
					meanwhile(w, first)
				}
				return nil
			})
			o, err := w.Put(t.Context(), "k", text("x"), named("i"))
			if promise == "committed and forgotten: told that it exists" {
				require.ErrorIs(t, err, blobtx.ErrExists)
			} else {
				require.NoError(t, err)
				require.Equal(t, []blobtx.Object{o}, w.rows.Objects())
			}
			require.Equal(t, "x", w.read("k"))
			first.Release()
			w.atRest()
		})
	}
}

func TestATakeoverWhoseReplyWasLostKnowsItself(t *testing.T) {
	for n := 1; n <= 2; n++ {
		synctest.Test(t, func(t *testing.T) {
			w, p := tapped(t, nil)
			first := w.stage("k", "x", named("i"))
			first.Release()
			p.loseReply("take over", n)
			o := w.put("k", "x", named("i"))
			require.Equal(t, first.Intent().ID, o.IntentID)
			w.atRest()
		})
	}
}

func TestAnInsertWhoseReplyWasLostKnowsItself(t *testing.T) {
	for _, opts := range []*blobtx.PutOptions{nil, named("i")} {
		synctest.Test(t, func(t *testing.T) {
			w, p := tapped(t, nil)
			p.loseReply("insert intent", 2)
			w.put("k", "x", opts)
			require.Len(t, w.rows.Intents(), 1)
			w.atRest()
		})
	}
}

// The first attempt's bytes arrive while the second looks: either attempt may
// have created the blob, and both know it for theirs.
func TestASlowFirstAttemptAndItsRetryShareOneBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := tapped(t, nil)
		started := make(chan struct{})
		p.onBefore(func(ctx context.Context, step string) error {
			if step == "create blob" {
				p.onBefore(nil)
				close(started)
				time.Sleep(time.Minute)
			}
			return nil
		})
		var first error
		var wg sync.WaitGroup
		wg.Go(func() { _, first = w.Put(t.Context(), "k", text("x"), named("i")) })
		<-started
		second, err := w.calm.Put(t.Context(), "k", text("x"), named("i"))
		wg.Wait()
		require.NoError(t, err)
		require.NoError(t, first, "the first attempt finds the stored result")
		got, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, second, got)
		require.Len(t, w.blobs.Snapshot(), 1)
		w.atRest()
	})
}

func TestARetryThatCannotAskSaysSo(t *testing.T) {
	for _, step := range []string{"insert intent", "take over"} {
		inBubble(t, step+" gets no reply", func(t *testing.T) {
			w, p := tapped(t, nil)
			w.stage("k", "x", named("i")).Release()
			p.lose(step, -1)
			_, err := w.Put(t.Context(), "k", text("x"), named("i"))
			require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
			require.ErrorIs(t, err, errWire)
			require.ErrorContains(t, err, `"i"`)
			w.atRest()
		})
	}
	inBubble(t, "a request without an idempotency key has no earlier attempt", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.lose("insert intent", -1)
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, errWire)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
	})
}
