package blobtx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

func TestAbort(t *testing.T) {
	inBubble(t, "leaves nothing behind but the name to watch", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Equal(t, store.Abandoned, w.row(in.ID).State)
		require.Empty(t, w.blobs.Snapshot())
		require.NoError(t, w.Abort(t.Context(), &in), "again")
		_, err := w.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		w.atRest()
		require.Empty(t, w.rows.Intents())
		require.NoError(t, w.Abort(t.Context(), &in), "when it is long gone")
	})
	inBubble(t, "of an intent without an upload", func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		require.NoError(t, w.Abort(t.Context(), in))
		_, err = w.Upload(t.Context(), in, text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		w.atRest()
	})
	inBubble(t, "deferred, does nothing after a commit", func(t *testing.T) {
		for _, opts := range []*blobtx.Options{nil, {SealLater: true}} {
			w := plain(t, opts)
			up := w.stage("k", "x", nil)
			in := up.Intent()
			_, err := w.Commit(t.Context(), nil, up)
			require.NoError(t, err)
			rows, blobs := w.rows.Intents(), w.blobs.Snapshot()
			require.NoError(t, w.Abort(t.Context(), &in))
			require.Equal(t, rows, w.rows.Intents())
			require.Equal(t, blobs, w.blobs.Snapshot())
			require.NoError(t, w.calm.Abort(t.Context(), &in))
			require.Equal(t, "x", w.read("k"))
			w.atRest()
		}
	})
	inBubble(t, "cleans up although the client has left", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.Abort(ctx, &in))
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "waits a bounded time for a transaction that has the upload: ErrBusy, nothing touched", func(t *testing.T) {
		w := plain(t, nil)
		up, tx := w.stage("k", "x", nil), w.begin()
		in := up.Intent()
		_, err := w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		asked := time.Now()
		require.ErrorIs(t, w.Abort(t.Context(), &in), blobtx.ErrBusy)
		require.LessOrEqual(t, time.Since(asked), 20*time.Second)
		require.Len(t, w.blobs.Snapshot(), 1)
		require.NoError(t, tx.Commit())
		require.Equal(t, "x", w.read("k"))
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	for promise, tt := range map[string]struct {
		end   func(tx *memstore.Tx) error
		blobs int
	}{
		"that commits meanwhile, and does nothing": {(*memstore.Tx).Commit, 1},
		"that rolls back, and cleans up":           {(*memstore.Tx).Rollback, 0},
	} {
		inBubble(t, "waits for a transaction "+promise, func(t *testing.T) {
			w := plain(t, nil)
			up, tx := w.stage("k", "x", nil), w.begin()
			in := up.Intent()
			_, err := w.CommitTx(t.Context(), tx, up)
			require.NoError(t, err)
			time.AfterFunc(2*time.Second, func() { _ = tt.end(tx) })
			require.NoError(t, w.Abort(t.Context(), &in))
			require.Len(t, w.blobs.Snapshot(), tt.blobs)
			w.intact()
			w.atRest()
		})
	}
	// An earlier holder may still be writing: what another promised is fenced
	// here, and cleaned by the sweeper.
	for promise, arrange := range map[string]func(w *world) (*blobtx.Coordinator, store.Intent){
		"after a takeover": func(w *world) (*blobtx.Coordinator, store.Intent) {
			w.stage("k", "x", named("i")).Release()
			up := w.stage("k", "x", named("i"))
			return w.Coordinator, up.Intent()
		},
		"of another process's intent": func(w *world) (*blobtx.Coordinator, store.Intent) {
			up := w.stage("k", "x", nil)
			in := up.Intent()
			return w.calm, *travelled(w.t, &in)
		},
	} {
		inBubble(t, promise+" only fences", func(t *testing.T) {
			w, p := tapped(t, nil)
			w.calm = p.process(w, nil)
			c, in := arrange(w)
			p.steps()
			require.NoError(t, c.Abort(t.Context(), &in))
			require.Equal(t, store.Abandoned, w.row(in.ID).State)
			require.Equal(t, map[string]int{"abandon": 1}, p.steps())
			require.Len(t, w.blobs.Snapshot(), 1)
			w.atRest()
			require.Empty(t, w.blobs.Snapshot())
		})
	}
	inBubble(t, "fences before it deletes, and does not delete what it could not fence", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		p.lose("abandon", -1)
		p.steps()
		require.ErrorIs(t, w.Abort(t.Context(), &in), errWire)
		require.Zero(t, p.steps()["delete blobs"])
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	inBubble(t, "whose reply was lost knows its own success", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		p.loseReply("abandon", 2)
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "whose delete failed says so, and the sweeper finishes", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		p.lose("delete blobs", -1)
		require.ErrorIs(t, w.Abort(t.Context(), &in), errWire)
		w.sweep()
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "after a Settle of its own still fences", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		before := up.Intent()
		_, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		require.NoError(t, w.Abort(t.Context(), &before), "the copy from before the Settle")
		require.Equal(t, store.Abandoned, w.row(before.ID).State)
		w.atRest()
	})
}

// At that moment the tag still says pending: a delete without the fence would
// destroy a committed object.
func TestAnUnknownCommitNeverLeadsToADelete(t *testing.T) {
	lost := map[string]func(p *tap){
		"the reply to the commit, and then the database": func(p *tap) {
			p.onAfter(func(_ context.Context, step string, _ error) error {
				if step == "commit objects" {
					p.onBefore(func(_ context.Context, step string) error {
						if step == "take over" || step == "abandon" || step == "get intents" || step == "commit objects" {
							return errWire
						}
						return nil
					})
					return errWire
				}
				return nil
			})
		},
		"everything from the commit on": func(p *tap) {
			p.onAfter(func(_ context.Context, step string, _ error) error {
				if step == "commit objects" {
					p.onBefore(func(context.Context, string) error { return errWire })
					return errWire
				}
				return nil
			})
		},
	}
	for what, lose := range lost {
		inBubble(t, "Put loses "+what, func(t *testing.T) {
			w, p := tapped(t, nil)
			lose(p)
			_, err := w.Put(t.Context(), "k", text("x"), named("i"))
			require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
			require.Zero(t, p.steps()["delete blobs"])
			require.Equal(t, "x", w.read("k"))
			p.onBefore(nil)
			p.onAfter(nil)
			o := w.put("k", "x", named("i"))
			require.Equal(t, w.rows.Objects(), []blobtx.Object{o}, "the same call with the same key finds out")
			w.atRest()
		})
	}
	inBubble(t, "Put, which touches nothing then, and keeps nothing alive", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "commit objects" || step == "take over" {
				return errWire
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		in := w.rows.Intents()[0]
		require.Equal(t, store.Uploading, in.State)
		require.Equal(t, int64(1), in.Version)
		require.Len(t, w.blobs.Snapshot(), 1)
		p.steps()
		time.Sleep(15 * time.Minute)
		require.Zero(t, p.steps()["heartbeat"])
		require.Equal(t, blobtx.SweepResult{Abandoned: 1}, w.sweep(), "the sweeper settles it")
		w.atRest()
	})
	inBubble(t, "the caller's deferred Abort, after an unknown COMMIT", func(t *testing.T) {
		w, p := tapped(t, nil)
		func() {
			up := w.stage("k", "x", nil)
			in := up.Intent()
			defer func() { require.NoError(t, w.Abort(t.Context(), &in)) }()
			p.lose("take over", -1)
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				require.NoError(t, w.transaction(ctx, commit))
				return errors.New("connection reset after COMMIT")
			}, up)
			require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		}()
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	inBubble(t, "while the transaction is still in flight", func(t *testing.T) {
		w := plain(t, nil)
		up, tx := w.stage("k", "x", nil), w.begin()
		in := up.Intent()
		_, err := w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		require.Error(t, w.Abort(t.Context(), &in))
		w.sweep()
		time.Sleep(time.Hour)
		w.sweep()
		require.NoError(t, tx.Commit())
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
}

func TestAClientThatDisconnectsLeavesNothingBehind(t *testing.T) {
	for _, step := range []string{"insert intent", "create blob", "stat"} {
		for name, run := range map[string]func(ctx context.Context, w *world) error{
			"Put":   func(ctx context.Context, w *world) error { _, err := w.Put(ctx, "k", text("x"), nil); return err },
			"Stage": func(ctx context.Context, w *world) error { _, err := w.Stage(ctx, "k", text("x"), nil); return err },
		} {
			inBubble(t, name+", after "+step, func(t *testing.T) {
				w, p := tapped(t, nil)
				w.put("warm", "up", nil)
				ctx, cancel := context.WithCancel(t.Context())
				lost := step == "stat"
				p.onAfter(func(_ context.Context, s string, _ error) error {
					switch {
					case lost && s == "create blob":
						return errWire
					case s == step:
						cancel()
					}
					return nil
				})
				err := run(ctx, w)
				p.onAfter(nil)
				cancel()
				if err == nil && name == "Stage" {
					time.Sleep(16 * time.Minute) // it had arrived; nobody commits it
					w.sweep()
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				require.Len(t, w.blobs.Snapshot(), 1)
				w.atRest()
			})
		}
	}
}

func TestAbortOfAnUploadThatSettleHasFenced(t *testing.T) {
	inBubble(t, "deletes: it is still this process's own", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		defer up.Release()
		mine := errors.New("mine")
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
			tx := w.begin()
			_, err := commit(tx)
			require.NoError(t, err)
			require.NoError(t, tx.Rollback())
			return mine
		}, up)
		require.ErrorIs(t, err, mine)
		in := up.Intent()
		require.Greater(t, in.Version, int64(1), "settled")
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "does not, when it was taken over from another", func(t *testing.T) {
		w := plain(t, nil)
		w.stage("k", "x", named("i")).Release()
		in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{IdempotencyKey: "i"})
		require.NoError(t, err)
		require.NoError(t, w.Abort(t.Context(), in))
		require.Len(t, w.blobs.Snapshot(), 1)
		w.atRest()
	})
}
