package blobtx_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// sweeping runs sweepers in other processes until the bubble ends.
func (w *world) sweeping() {
	for range 2 {
		go func() { _ = w.calm.RunSweeper(w.t.Context(), nil) }()
	}
}

// ends runs f beside the test and returns its error and when it ended.
func ends(f func() error) func() (time.Time, error) {
	type end struct {
		at  time.Time
		err error
	}
	done := make(chan end, 1)
	go func() {
		err := f()
		done <- end{time.Now(), err}
	}()
	return func() (time.Time, error) {
		e := <-done
		return e.at, e.err
	}
}

func TestSlowUploadsLive(t *testing.T) {
	inBubble(t, "forty hours, among sweepers", func(t *testing.T) {
		w := plain(t, nil)
		w.sweeping()
		began := time.Now()
		o, err := w.Put(t.Context(), "k", slowly(40*time.Hour, 10*time.Minute), nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 40*time.Hour)
		require.Equal(t, int64(240), o.Blob.Size)
		w.intact()
	})
	for skew := -3 * time.Hour; skew <= 3*time.Hour; skew += 6 * time.Hour {
		inBubble(t, fmt.Sprintf("the database's clock is %s off", skew), func(t *testing.T) {
			w := plain(t, nil)
			w.rows = memstore.NewRows(&memstore.RowsOptions{Now: func() time.Time { return time.Now().Add(skew) }})
			c, err := blobtx.New(w.rows, w.blobs, nil)
			require.NoError(t, err)
			w.calm = c
			w.sweeping()
			_, err = c.Put(t.Context(), "k", slowly(5*time.Hour, time.Minute), nil)
			require.NoError(t, err)
		})
	}
	inBubble(t, "heartbeats fail for a while", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.sweeping()
		began := time.Now()
		p.onBefore(func(_ context.Context, step string) error {
			if since := time.Since(began); step == "heartbeat" && since > 4*time.Minute && since < 13*time.Minute {
				return errWire
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", slowly(time.Hour, time.Second), nil)
		require.NoError(t, err)
	})
	inBubble(t, "a TTL of its own, longer than IntentTTL", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.sweeping()
		p.lose("heartbeat", -1)
		_, err := w.Put(t.Context(), "k", slowly(9*time.Hour, time.Minute), &blobtx.PutOptions{TTL: 10 * time.Hour})
		require.NoError(t, err, "cancelled before its lease was over")
	})
	inBubble(t, "a short Put spends no heartbeat, not even later", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "x", nil)
		_, err := w.Put(t.Context(), "k", text("y"), nil)
		require.Error(t, err)
		time.Sleep(24 * time.Hour)
		require.Zero(t, p.steps()["heartbeat"])
	})
	inBubble(t, "the beats are a third of the TTL apart, and change nothing else", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		defer up.Release()
		before := w.row(up.Intent().ID)
		time.Sleep(time.Hour + time.Minute)
		require.InDelta(t, 12, p.steps()["heartbeat"], 1)
		after := w.row(up.Intent().ID)
		require.Positive(t, after.Beats)
		require.True(t, after.DueAt.After(before.DueAt))
		after.Beats, after.DueAt = before.Beats, before.DueAt
		require.Equal(t, before, after)
	})
}

func TestAnUploadEndsWhenItsIntentIsLost(t *testing.T) {
	for promise, beat := range map[string]func(ctx context.Context) error{
		"the database does not answer": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"the database refuses":         func(context.Context) error { return errWire },
		"the driver ignores contexts":  func(context.Context) error { time.Sleep(100 * time.Hour); return errWire },
	} {
		inBubble(t, promise+" for longer than IntentTTL", func(t *testing.T) {
			w, p := tapped(t, nil)
			began := time.Now()
			p.onBefore(func(ctx context.Context, step string) error {
				if step == "heartbeat" && time.Since(began) > 12*time.Minute {
					return beat(ctx)
				}
				return nil
			})
			at, err := ends(func() error {
				_, err := w.Put(t.Context(), "k", slowly(2*time.Hour, time.Second), nil)
				return err
			})()
			time.Sleep(101 * time.Hour) // for the driver
			require.ErrorIs(t, err, blobtx.ErrIntentLost)
			require.NotErrorIs(t, err, context.Canceled)
			require.WithinDuration(t, began.Add(25*time.Minute), at, 2*time.Second, "the last beat was confirmed at 10 minutes")
			require.Equal(t, 1, p.steps()["create blob"], "it was tried again after its lease was over")
			require.Empty(t, w.blobs.Snapshot(), "the final create was sent")
			w.atRest()
		})
	}
	inBubble(t, "the blob store says no more than that the context ended", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.onBefore(func(ctx context.Context, step string) error {
			switch step {
			case "create blob":
				<-ctx.Done()
				return ctx.Err()
			case "heartbeat":
				return errWire
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		require.NotErrorIs(t, err, context.Canceled, "the caller cancelled nothing")
		w.atRest()
	})
	inBubble(t, "a sweeper has it", func(t *testing.T) {
		w, p := tapped(t, nil)
		began := time.Now()
		p.onBefore(func(_ context.Context, step string) error {
			if since := time.Since(began); step == "heartbeat" && since < 14*time.Minute {
				return errWire
			}
			return nil
		})
		wait := ends(func() error {
			_, err := w.Put(t.Context(), "k", slowly(2*time.Hour, time.Second), nil)
			return err
		})
		in := w.soon()
		in.DueAt = time.Now()
		w.rows.SetIntent(in)
		w.sweep()
		require.Equal(t, store.Abandoned, w.row(in.ID).State)
		at, err := wait()
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		require.Less(t, at.Sub(began), 16*time.Minute)
		w.atRest()
	})
	inBubble(t, "a retry took it over", func(t *testing.T) {
		w := plain(t, nil)
		began := time.Now()
		wait := ends(func() error {
			_, err := w.Put(t.Context(), "k", slowly(2*time.Hour, time.Second), named("i"))
			return err
		})
		time.Sleep(time.Minute)
		second := w.stage("k", "x", named("i"))
		at, err := wait()
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		require.Less(t, at.Sub(began), 6*time.Minute)
		require.Equal(t, store.Uploading, w.row(second.Intent().ID).State)
		require.Len(t, w.blobs.Snapshot(), 1, "the first attempt cleaned up what is the second's now")
		_, err = w.Commit(t.Context(), nil, second)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "Outcome, in another process, fenced it", func(t *testing.T) {
		w := plain(t, nil)
		wait := ends(func() error {
			_, err := w.Put(t.Context(), "k", slowly(2*time.Hour, time.Second), nil)
			return err
		})
		outcome, err := w.calm.Outcome(t.Context(), w.soon().ID)
		require.NoError(t, err)
		require.False(t, outcome.Committed)
		_, err = wait()
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		w.atRest()
	})
	put := func(w *world) error {
		_, err := w.Put(w.t.Context(), "k", slowly(10*time.Hour, time.Second), nil)
		return err
	}
	for promise, tt := range map[string]struct {
		upload func(w *world) error
		beyond time.Duration
	}{
		"Put": {put, 0},
		// Where the database's clock was never told, one lease from the last sign.
		"Upload of an intent that has waited": {func(w *world) error {
			in, err := w.Intent(w.t.Context(), "k", &blobtx.IntentOptions{TTL: 2 * time.Hour})
			require.NoError(w.t, err)
			time.Sleep(2*time.Hour - time.Minute)
			_, err = w.Upload(w.t.Context(), in, slowly(10*time.Hour, time.Second), nil)
			return err
		}, 15 * time.Minute},
	} {
		inBubble(t, "MaxPending is over, nobody sweeps: "+promise, func(t *testing.T) {
			w := plain(t, &blobtx.Options{MaxPending: 2*time.Hour + 2*time.Minute})
			began := time.Now()
			at, err := ends(func() error { return tt.upload(w) })()
			require.ErrorIs(t, err, blobtx.ErrIntentLost)
			require.Empty(t, w.blobs.Snapshot())
			require.LessOrEqual(t, at.Sub(began), 2*time.Hour+2*time.Minute+tt.beyond+2*time.Second, "nothing lives beyond expires_at")
			w.atRest()
		})
	}
}

// soon returns the one intent, when it is there.
func (w *world) soon() store.Intent {
	time.Sleep(time.Second)
	require.Len(w.t, w.rows.Intents(), 1)
	return w.rows.Intents()[0]
}

func TestTheKeepAliveGoesOnUntil(t *testing.T) {
	beats := func(p *tap) int { return p.steps()["heartbeat"] }
	inBubble(t, "Commit, many hours after the upload", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.sweeping()
		var ups []*blobtx.Upload
		for i := range 20 {
			ups = append(ups, w.stage(fmt.Sprint("k", i), "x", nil))
			time.Sleep(time.Hour + time.Second) // no beat comes just when the commit does
		}
		require.Positive(t, beats(p))
		_, err := w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		p.steps()
		time.Sleep(10 * time.Hour)
		require.Zero(t, beats(p), "a heartbeat after the commit")
		require.Len(t, w.rows.Objects(), 20)
	})
	inBubble(t, "CommitWith", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		_, err := w.CommitWith(t.Context(), w.transaction, up)
		require.NoError(t, err)
		p.steps()
		time.Sleep(10 * time.Hour)
		require.Zero(t, beats(p))
	})
	inBubble(t, "the caller's own commit after CommitTx", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		require.NoError(t, w.transaction(t.Context(), func(tx store.RowTx) ([]blobtx.Object, error) { return w.CommitTx(t.Context(), tx, up) }))
		time.Sleep(10 * time.Hour)
		require.LessOrEqual(t, beats(p), 1)
	})
	inBubble(t, "Abort", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		time.Sleep(10 * time.Hour)
		require.LessOrEqual(t, beats(p), 1)
	})
	for promise, end := range map[string]func(up *blobtx.Upload, leave func()){
		"Release":             func(up *blobtx.Upload, _ func()) { up.Release(); up.Release() },
		"the context's end":   func(_ *blobtx.Upload, leave func()) { leave() },
		"both, in that order": func(up *blobtx.Upload, leave func()) { up.Release(); leave() },
	} {
		inBubble(t, promise+", after which it lives IntentTTL", func(t *testing.T) {
			w, p := tapped(t, nil)
			ctx, leave := context.WithCancel(t.Context())
			up, err := w.Stage(ctx, "k", text("x"), nil)
			require.NoError(t, err)
			other, err := w.Stage(ctx, "other", text("x"), nil)
			require.NoError(t, err)
			time.Sleep(time.Hour + time.Minute)
			end(up, leave)
			end(other, leave)
			p.steps()
			time.Sleep(9 * time.Minute)
			w.sweep()
			_, err = w.Commit(t.Context(), nil, up)
			require.NoError(t, err, "a released upload may still be committed")
			time.Sleep(7 * time.Minute)
			w.sweep()
			_, err = w.Commit(t.Context(), nil, other)
			require.ErrorIs(t, err, blobtx.ErrIntentLost)
			require.Zero(t, beats(p))
			leave()
			w.atRest()
		})
	}
}

func TestTheKeepAliveAndTransactions(t *testing.T) {
	inBubble(t, "a transaction open for hours is neither waited for nor swept away", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.sweeping()
		up := w.stage("k", "x", nil)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		var sent atomic.Int64
		var waited atomic.Bool
		p.onBefore(func(context.Context, string) error { sent.Store(time.Now().UnixNano()); return nil })
		p.onAfter(func(context.Context, string, error) error {
			if time.Now().UnixNano() != sent.Load() {
				waited.Store(true)
			}
			return nil
		})
		time.Sleep(3 * time.Hour)
		require.Positive(t, p.steps()["heartbeat"])
		require.False(t, waited.Load(), "a heartbeat waited for a lock")
		require.NoError(t, tx.Commit())
		require.NoError(t, w.Seal(t.Context(), up))
		require.Equal(t, "x", w.read("k"))
		require.Equal(t, store.Done, w.row(up.Intent().ID).State)
	})
	inBubble(t, "after a rollback the heartbeats go on", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		time.Sleep(12 * time.Minute)
		require.NoError(t, tx.Rollback())
		w.sweeping()
		time.Sleep(3 * time.Hour)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
	})
	inBubble(t, "Settle moves the version and does not end them", func(t *testing.T) {
		w := plain(t, nil)
		w.sweeping()
		up := w.stage("k", "x", nil)
		for range 3 {
			outcome, err := w.Settle(t.Context(), up)
			require.NoError(t, err)
			require.False(t, outcome.Committed)
			time.Sleep(5*time.Hour + time.Minute)
		}
		require.Equal(t, int64(4), up.Intent().Version)
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
	})
	inBubble(t, "a beat between Settle's takeover and its reply", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.sweeping()
		up := w.stage("k", "x", nil)
		time.Sleep(5*time.Minute - 10*time.Second) // the beat comes at 5 minutes
		p.onAfter(func(_ context.Context, step string, _ error) error {
			if step == "take over" {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		_, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		p.onAfter(nil)
		time.Sleep(3 * time.Hour)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err, "the upload's own Settle ended its keep-alive")
	})
	inBubble(t, "a takeover of one's own that lands late does not end them", func(t *testing.T) {
		w := plain(t, nil)
		w.sweeping()
		up := w.stage("k", "x", nil)
		in := up.Intent()
		_, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		_, err = w.rows.TakeOver(t.Context(), store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: in.Holder, TTL: 15 * time.Minute})
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
	})
	inBubble(t, "an upload with a copy from before Settle is kept alive from its start", func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		up, err := w.Upload(t.Context(), in, text("x"), nil)
		require.NoError(t, err)
		_, err = w.Settle(t.Context(), up)
		require.NoError(t, err)
		up.Release()
		time.Sleep(14 * time.Minute)
		w.sweeping()
		up, err = w.Upload(t.Context(), in, text("x"), nil)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
	})
}
