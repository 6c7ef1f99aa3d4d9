package blobtx_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

type commitFunc = func(store.RowTx) ([]blobtx.Object, error)

func TestCommitWithConfirmsWhatTheFunctionSays(t *testing.T) {
	inBubble(t, "nil after a commit: the objects, by one read", func(t *testing.T) {
		w, p := tapped(t, nil)
		ups := w.three()
		p.steps()
		objects, err := w.CommitWith(t.Context(), w.transaction, ups...)
		require.NoError(t, err)
		require.Len(t, objects, 3)
		require.Equal(t, "c", objects[0].Key)
		require.Equal(t, 1, p.steps()["get intents"])
		for _, o := range objects {
			require.Equal(t, store.Done, w.row(o.IntentID).State)
		}
		w.atRest()
	})
	for promise, tt := range map[string]struct {
		fn   func(w *world) func(context.Context, commitFunc) error
		want error
	}{
		"nil although commit was never called": {func(*world) func(context.Context, commitFunc) error {
			return func(context.Context, commitFunc) error { return nil }
		}, blobtx.ErrInvalid},
		"nil after a swallowed rollback": {func(w *world) func(context.Context, commitFunc) error {
			return func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				_, err := commit(tx)
				require.NoError(w.t, err)
				return tx.Rollback()
			}
		}, blobtx.ErrNotCommitted},
		"nil after the transaction broke and was swallowed": {func(w *world) func(context.Context, commitFunc) error {
			return func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				ended, cancel := context.WithCancel(ctx)
				cancel()
				_, err := tx.DeleteObject(ended, store.DeleteParams{Key: "x", If: blobtx.Always()})
				require.ErrorIs(w.t, err, blobtx.ErrTxUnusable)
				_, _ = commit(tx)
				_ = tx.Commit()
				return nil
			}
		}, blobtx.ErrTxUnusable},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			objects, err := w.CommitWith(t.Context(), tt.fn(w), up)
			require.ErrorIs(t, err, tt.want)
			require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
			require.Nil(t, objects)
			require.Empty(t, w.rows.Objects())
			objects, err = w.CommitWith(t.Context(), w.transaction, up)
			require.NoError(t, err, "the same upload may be committed again")
			require.Equal(t, objects, w.rows.Objects())
			w.atRest()
		})
	}
	inBubble(t, "nil after a forgotten Commit: ErrNotCommitted, and the forgotten one never lands", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		var open interface{ Rollback() error }
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			tx := w.begin()
			open = tx
			_, err := commit(tx)
			// A pool takes the forgotten transaction back some time later.
			time.AfterFunc(time.Second, func() { _ = tx.Rollback() })
			return err
		}, up)
		require.ErrorIs(t, err, blobtx.ErrNotCommitted)
		require.Error(t, open.Rollback())
		require.Empty(t, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "nil while the transaction stays open: unknown, and what it becomes is true", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		var commitLater func() error
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			tx := w.begin()
			commitLater = tx.Commit
			_, err := commit(tx)
			return err
		}, up)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, blobtx.ErrNotCommitted)
		require.NoError(t, commitLater())
		outcome, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		require.True(t, outcome.Committed)
		w.atRest()
	})
	swallowed := map[string]struct {
		spoil func(w *world, up *blobtx.Upload)
		want  error
	}{
		"a conflict": {func(w *world, _ *blobtx.Upload) { w.put("k", "theirs", nil) }, blobtx.ErrExists},
		"a lost intent": {func(w *world, up *blobtx.Upload) {
			in := up.Intent()
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, blobtx.ErrIntentLost},
		"an earlier commit": {func(w *world, up *blobtx.Upload) {
			_, err := w.Commit(w.t.Context(), nil, up)
			require.NoError(w.t, err)
		}, blobtx.ErrAlreadyCommitted},
	}
	for what, tt := range swallowed {
		inBubble(t, "commit failed with "+what+" and the function swallowed it: commit's error", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			tt.spoil(w, up)
			runs := 0
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				runs++
				tx := w.begin()
				_, err := commit(tx)
				require.ErrorIs(t, err, tt.want)
				return tx.Commit() // with the caller's own rows
			}, up)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, 1, runs)
			w.atRest()
		})
	}
}

func TestCommitWithSettlesWhenTheFunctionFails(t *testing.T) {
	business := errors.New("business rule")
	inBubble(t, "an error after a successful COMMIT: the objects and nil", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		runs := 0
		objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			runs++
			require.NoError(t, w.transaction(ctx, commit))
			return errors.Join(business, blobtx.ErrBusy)
		}, up)
		require.NoError(t, err)
		require.Equal(t, objects, w.rows.Objects())
		require.Equal(t, 1, runs, "committed, and yet run again")
		require.Equal(t, store.Done, w.row(up.Intent().ID).State)
		w.atRest()
	})
	inBubble(t, "the reply to COMMIT is lost: the objects and nil", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			require.NoError(t, w.transaction(ctx, commit))
			return errWire
		}, ups...)
		require.NoError(t, err)
		require.Len(t, objects, 3)
		require.Equal(t, "c", objects[0].Key)
		w.atRest()
	})
	inBubble(t, "the request to COMMIT is lost: the function's error, and never visible", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		runs := 0
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			runs++
			tx := w.begin()
			_, err := commit(tx)
			require.NoError(t, err)
			time.AfterFunc(time.Second, func() { _ = tx.Rollback() }) // the database notices that the connection is gone
			return errWire
		}, up)
		require.ErrorIs(t, err, errWire)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Equal(t, 1, runs)
		require.Empty(t, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "a rolled back transaction: the function's error as it is", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		for _, called := range []bool{true, false} {
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				defer func() { _ = tx.Rollback() }()
				if called {
					_, err := commit(tx)
					require.NoError(t, err)
				}
				return business
			}, up)
			require.ErrorIs(t, err, business)
			require.ErrorContains(t, err, up.Intent().ID)
		}
		_, err := w.CommitWith(t.Context(), w.transaction, up)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "a conflict that the function returns is told once", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		o := w.put("k", "theirs", nil)
		_, err := w.CommitWith(t.Context(), w.transaction, up)
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, &o, conflict.Current)
		w.atRest()
	})
	inBubble(t, "the database is out of reach: ErrOutcomeUnknown joined with the function's error, nothing touched", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		p.lose("take over", -1)
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			require.NoError(t, w.transaction(ctx, commit))
			return business
		}, up)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.ErrorIs(t, err, business)
		p.onBefore(nil)
		outcome, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		require.True(t, outcome.Committed)
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	inBubble(t, "the database is out of reach after nil: ErrOutcomeUnknown", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "take over" || step == "get intents" {
				return errWire
			}
			return nil
		})
		_, err := w.CommitWith(t.Context(), w.transaction, up)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	inBubble(t, "only the confirming read fails: settled all the same", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		p.lose("get intents", -1)
		_, err := w.CommitWith(t.Context(), w.transaction, up)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestCommitWithRunsARetryableFailureAgain(t *testing.T) {
	deadlock := fmt.Errorf("deadlock: %w", store.ErrBusy) // what memstore calls retryable
	for promise, tt := range map[string]struct {
		failures int
		runs     int
		told     error
	}{
		"once":                 {1, 2, nil},
		"three times":          {3, 4, nil},
		"at most four in all":  {99, 4, store.ErrBusy},
		"not at all otherwise": {0, 1, nil},
	} {
		for _, at := range []string{"before commit", "after commit"} {
			inBubble(t, promise+", failing "+at, func(t *testing.T) {
				w := plain(t, nil)
				up := w.stage("k", "x", nil)
				runs := 0
				_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
					runs++
					tx := w.begin()
					defer func() { _ = tx.Rollback() }()
					fails := runs <= tt.failures
					if fails && at == "before commit" {
						return deadlock
					}
					if _, err := commit(tx); err != nil {
						return err
					}
					if fails {
						return deadlock
					}
					return tx.Commit()
				}, up)
				if tt.told == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.told)
				}
				require.Equal(t, tt.runs, runs)
				require.Equal(t, tt.told == nil, len(w.rows.Objects()) == 1)
				w.atRest()
			})
		}
	}
	inBubble(t, "but not when the outcome is unknown", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		p.lose("take over", -1)
		runs := 0
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			runs++
			require.NoError(t, w.transaction(ctx, commit))
			return deadlock
		}, up)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Equal(t, 1, runs, "run again although it may have been committed")
		w.atRest()
	})
	inBubble(t, "and not after the caller left", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		_, err := w.CommitWith(ctx, func(context.Context, commitFunc) error { runs++; cancel(); return deadlock }, up)
		require.Error(t, err)
		require.Equal(t, 1, runs)
		require.Empty(t, w.rows.Objects())
		w.atRest()
	})
}

func TestCommitWithOfReplaysDoesNotCallTheFunction(t *testing.T) {
	inBubble(t, "all of them", func(t *testing.T) {
		w := plain(t, nil)
		a, b := w.put("a", "x", named("i")), w.put("b", "y", named("j"))
		objects, err := w.CommitWith(t.Context(), func(context.Context, commitFunc) error {
			t.Error("the function was called")
			return nil
		}, w.stage("b", "y", named("j")), w.stage("a", "x", named("i")))
		require.NoError(t, err)
		require.Equal(t, []blobtx.Object{b, a}, objects)
	})
}

func TestCommitWithAndPanics(t *testing.T) {
	for _, at := range []string{"before commit", "after commit", "after COMMIT"} {
		inBubble(t, at+" it passes through, and the sweeper settles", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			require.PanicsWithValue(t, "boom", func() {
				_, _ = w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
					tx := w.begin()
					defer func() { _ = tx.Rollback() }()
					if at == "before commit" {
						panic("boom")
					}
					_, err := commit(tx)
					require.NoError(t, err)
					if at == "after COMMIT" {
						require.NoError(t, tx.Commit())
					}
					panic("boom")
				}, up)
			})
			up.Release()
			require.Equal(t, at == "after COMMIT", len(w.rows.Objects()) == 1)
			w.atRest()
		})
	}
}

type valueKey struct{}

func TestCommitWithGivesTheFunctionAContextOfItsOwn(t *testing.T) {
	inBubble(t, "detached from the caller's cancellation, bounded, with its values", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "v"), 10*time.Second)
		defer cancel()
		_, err := w.CommitWith(ctx, func(own context.Context, commit commitFunc) error {
			cancel()
			require.NoError(t, own.Err())
			require.Equal(t, "v", own.Value(valueKey{}))
			deadline, bounded := own.Deadline()
			require.True(t, bounded)
			require.Greater(t, time.Until(deadline), 10*time.Second)
			require.LessOrEqual(t, time.Until(deadline), 5*time.Minute)
			time.Sleep(15 * time.Second)
			require.NoError(t, own.Err())
			return w.transaction(own, commit)
		}, up)
		require.NoError(t, err)
		require.Len(t, w.rows.Objects(), 1)
		w.atRest()
	})
	inBubble(t, "whose bound is no reason not to settle", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		_, err := w.CommitWith(t.Context(), func(own context.Context, commit commitFunc) error {
			require.NoError(t, w.transaction(own, commit))
			<-own.Done()
			return own.Err()
		}, up)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestCommitWithHandsOutCommitForOneCall(t *testing.T) {
	inBubble(t, "a second call in one transaction is told so, and the first stands", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		var second error
		objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			tx := w.begin()
			_, err := commit(tx)
			require.NoError(t, err)
			_, second = commit(tx)
			return tx.Commit()
		}, up)
		require.ErrorIs(t, second, blobtx.ErrAlreadyCommitted)
		require.NoError(t, err, "the first call was committed")
		require.Equal(t, objects, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "a call after the function returned is refused", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		var kept commitFunc
		for _, returned := range []error{nil, errors.New("business rule")} {
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				kept = commit
				return returned
			}, up)
			require.Error(t, err)
			tx := w.begin()
			_, err = kept(tx)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			require.NotErrorIs(t, err, blobtx.ErrTxUnusable, "the transaction was not touched")
			require.NoError(t, tx.Commit())
			require.Empty(t, w.rows.Objects(), "told not committed, and then it was")
		}
		w.atRest()
	})
	inBubble(t, "a goroutine that calls it late changes nothing that was told", func(t *testing.T) {
		for range 50 {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			var wg sync.WaitGroup
			var late error
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				wg.Go(func() {
					if _, late = commit(tx); late == nil {
						late = tx.Commit()
					} else {
						_ = tx.Rollback()
					}
				})
				return errors.New("business rule")
			}, up)
			wg.Wait()
			switch visible := len(w.rows.Objects()) == 1; {
			case err == nil:
				require.True(t, visible, "told yes, but it is not there")
			case !errors.Is(err, blobtx.ErrOutcomeUnknown):
				require.False(t, visible, "told %v, but it is there", err)
			}
			up.Release()
		}
	})
}
