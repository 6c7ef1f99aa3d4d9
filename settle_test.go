package blobtx_test

import (
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

// settlers are the two ways to ask: by the upload, and from another process by
// the intent's id.
var settlers = map[string]func(ctx context.Context, w *world, up *blobtx.Upload) (blobtx.Outcome, error){
	"Settle": func(ctx context.Context, w *world, up *blobtx.Upload) (blobtx.Outcome, error) {
		return w.Settle(ctx, up)
	},
	"Outcome": func(ctx context.Context, w *world, up *blobtx.Upload) (blobtx.Outcome, error) {
		return w.Outcome(ctx, up.Intent().ID)
	},
}

func TestTheOutcomeIsTheTruth(t *testing.T) {
	for name, settle := range settlers {
		for promise, tt := range map[string]struct {
			commit    bool
			committed bool
		}{"a transaction in flight that commits": {true, true}, "a transaction in flight that rolls back": {false, false}} {
			inBubble(t, name+" waits for "+promise, func(t *testing.T) {
				w := plain(t, nil)
				up, tx := w.stage("k", "x", nil), w.begin()
				objects, err := w.CommitTx(t.Context(), tx, up)
				require.NoError(t, err)
				time.AfterFunc(3*time.Second, func() {
					if tt.commit {
						_ = tx.Commit()
					} else {
						_ = tx.Rollback()
					}
				})
				asked := time.Now()
				outcome, err := settle(t.Context(), w, up)
				require.NoError(t, err)
				require.Equal(t, tt.committed, outcome.Committed)
				require.Equal(t, 3*time.Second, time.Since(asked))
				if tt.committed {
					require.Equal(t, objects, outcome.Objects)
				} else {
					require.Nil(t, outcome.Objects)
				}
				w.atRest()
			})
		}
		inBubble(t, name+" of a transaction that stays open is unknown after a bounded wait, nothing touched", func(t *testing.T) {
			w := plain(t, nil)
			up, tx := w.stage("k", "x", nil), w.begin()
			_, err := w.CommitTx(t.Context(), tx, up)
			require.NoError(t, err)
			intents := w.rows.Intents()
			asked := time.Now()
			_, err = settle(t.Context(), w, up)
			require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
			require.ErrorContains(t, err, up.Intent().ID)
			require.LessOrEqual(t, time.Since(asked), 30*time.Second)
			require.Equal(t, intents, w.rows.Intents())
			require.NoError(t, tx.Commit())
			outcome, err := settle(t.Context(), w, up)
			require.NoError(t, err)
			require.True(t, outcome.Committed)
			w.atRest()
		})
		inBubble(t, name+" after a commit: the object as it was then", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			objects, err := w.Commit(t.Context(), nil, up)
			require.NoError(t, err)
			intents := w.rows.Intents()
			w.put("k", "new", &blobtx.PutOptions{If: blobtx.Always()})
			require.NoError(t, w.Delete(t.Context(), "k", nil))
			for range 2 {
				outcome, err := settle(t.Context(), w, up)
				require.NoError(t, err)
				require.Equal(t, blobtx.Outcome{Committed: true, Objects: objects}, outcome)
			}
			require.Subset(t, w.rows.Intents(), intents, "a settled commit was changed")
			w.atRest()
		})
		inBubble(t, name+" after abandonment: not committed", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			up.Release()
			time.Sleep(16 * time.Minute)
			w.sweep()
			outcome, err := settle(t.Context(), w, up)
			require.NoError(t, err)
			require.Equal(t, blobtx.Outcome{}, outcome)
			_, err = w.Commit(t.Context(), nil, up)
			require.ErrorIs(t, err, blobtx.ErrIntentLost)
			w.atRest()
		})
		inBubble(t, name+" without a database: unknown, nothing touched", func(t *testing.T) {
			for _, step := range []string{"take over", "get intents"} {
				if step == "get intents" && name == "Settle" {
					continue // Settle does not read
				}
				w, p := tapped(t, nil)
				up := w.stage("k", "x", nil)
				intents := w.rows.Intents()
				p.lose(step, -1)
				_, err := settle(t.Context(), w, up)
				require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
				require.ErrorIs(t, err, errWire)
				require.NotErrorIs(t, err, blobtx.ErrNotCommitted)
				require.Equal(t, intents, w.rows.Intents())
				require.Len(t, w.blobs.Snapshot(), 1)
				p.onBefore(nil)
				_, err = w.Commit(t.Context(), nil, up)
				require.NoError(t, err)
				w.atRest()
			}
		})
		inBubble(t, name+" whose reply was lost asks again", func(t *testing.T) {
			w, p := tapped(t, nil)
			up := w.stage("k", "x", nil)
			p.loseReply("take over", 2)
			outcome, err := settle(t.Context(), w, up)
			require.NoError(t, err)
			require.False(t, outcome.Committed)
			up.Release()
			w.atRest()
		})
		inBubble(t, name+" after the retention: ErrNotFound, never a guess", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			_, err := w.Commit(t.Context(), nil, up)
			require.NoError(t, err)
			time.Sleep(time.Hour - time.Second)
			w.sweep()
			outcome, err := settle(t.Context(), w, up)
			require.NoError(t, err)
			require.True(t, outcome.Committed, "forgotten too early")
			time.Sleep(2 * time.Second)
			w.sweep()
			_, err = settle(t.Context(), w, up)
			require.ErrorIs(t, err, blobtx.ErrNotFound)
			require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		})
		inBubble(t, name+" of a held intent: ErrHeld", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			up.Release()
			in := w.row(up.Intent().ID)
			in.State, in.DueAt = store.Held, time.Time{}
			w.rows.SetIntent(in)
			_, err := settle(t.Context(), w, up)
			require.ErrorIs(t, err, blobtx.ErrHeld)
			require.Equal(t, in, w.row(in.ID))
		})
		inBubble(t, name+" does not end with the caller's context", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			outcome, err := settle(ctx, w, up)
			require.NoError(t, err)
			require.False(t, outcome.Committed)
			up.Release()
			w.atRest()
		})
	}
	inBubble(t, "Outcome of what never was", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Outcome(t.Context(), "no such intent")
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.ErrorContains(t, err, "no such intent")
	})
}

// commitLate is a transaction whose statements are on their way until the test
// says that they land.
type commitLate struct {
	store.RowTx
	land func() ([]store.Object, error)
}

func (c *commitLate) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	c.land = func() ([]store.Object, error) { return c.RowTx.CommitObjects(context.WithoutCancel(ctx), p) }
	return nil, errWire
}

func TestNotCommittedIsFinalForEveryEarlierAttempt(t *testing.T) {
	for name, settle := range settlers {
		inBubble(t, name, func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			var late []*commitLate
			for range 3 {
				tx := &commitLate{RowTx: w.rows}
				_, err := w.CommitTx(t.Context(), tx, up)
				require.ErrorIs(t, err, errWire)
				late = append(late, tx)
			}
			outcome, err := settle(t.Context(), w, up)
			require.NoError(t, err)
			require.False(t, outcome.Committed)
			for _, tx := range late {
				_, err := tx.land()
				require.ErrorIs(t, err, blobtx.ErrTakenOver)
			}
			require.Empty(t, w.rows.Objects(), "told not committed, and then it was")
			up.Release()
			w.atRest()
		})
	}
	inBubble(t, "and the same upload may be committed again, with the late ones landing after", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		tx := &commitLate{RowTx: w.rows}
		_, err := w.CommitTx(t.Context(), tx, up)
		require.Error(t, err)
		for range 3 {
			_, err = w.Settle(t.Context(), up)
			require.NoError(t, err)
		}
		objects, err := w.CommitWith(t.Context(), w.transaction, up)
		require.NoError(t, err)
		_, err = tx.land()
		require.ErrorIs(t, err, blobtx.ErrAlreadyCommitted)
		require.Equal(t, objects, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "a takeover of one's own that lands after the next commit began hurts nobody", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		_, err := w.Settle(t.Context(), up)
		require.NoError(t, err)
		// The first try of that Settle, sent again by some proxy.
		_, err = w.rows.TakeOver(t.Context(), store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: in.Holder, TTL: 15 * time.Minute})
		require.NoError(t, err)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err, "fenced out by itself")
		w.atRest()
	})
}

func TestOutcomeFencesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		outcome, err := w.calm.Outcome(t.Context(), up.Intent().ID)
		require.NoError(t, err)
		require.Equal(t, blobtx.Outcome{}, outcome)
		_, err = w.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		_, err = w.CommitWith(t.Context(), w.transaction, up)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		_, err = w.Settle(t.Context(), up)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		in := up.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		require.Equal(t, store.Uploading, w.row(in.ID).State)
		require.Empty(t, w.rows.Objects())
		// The holder's own process may ask by id too: that fences it as well.
		up = w.stage("k2", "x", nil)
		_, err = w.Outcome(t.Context(), up.Intent().ID)
		require.NoError(t, err)
		_, err = w.Commit(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		w.atRest()
	})
}

// Between Outcome's look and its takeover another may take the intent over:
// what it then answers must hold for that one too.
func TestOutcomeFencesWhoeverHoldsItThen(t *testing.T) {
	inBubble(t, "a third that took over meanwhile", func(t *testing.T) {
		w, p := tapped(t, nil)
		first := w.stage("k", "x", named("i"))
		first.Release()
		var third *blobtx.Upload
		p.onBefore(func(_ context.Context, step string) error {
			if step == "take over" && third == nil {
				var err error
				third, err = w.calm.Stage(t.Context(), "k", text("x"), named("i"))
				require.NoError(t, err)
			}
			return nil
		})
		outcome, err := w.Outcome(t.Context(), first.Intent().ID)
		require.NoError(t, err)
		require.False(t, outcome.Committed)
		_, err = w.calm.Commit(t.Context(), nil, third)
		require.ErrorIs(t, err, blobtx.ErrTakenOver, "told not committed, and then it was")
		w.atRest()
	})
	inBubble(t, "a holder that committed meanwhile", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "take over" {
				_, err := w.calm.Commit(t.Context(), nil, up)
				require.NoError(t, err)
			}
			return nil
		})
		outcome, err := w.Outcome(t.Context(), up.Intent().ID)
		require.NoError(t, err)
		require.True(t, outcome.Committed)
		w.atRest()
	})
}

func TestSettleOfSeveralUploads(t *testing.T) {
	inBubble(t, "committed together: all, in the order of the uploads", func(t *testing.T) {
		w := plain(t, nil)
		ups, tx := w.three(), w.begin()
		objects, err := w.CommitTx(t.Context(), tx, ups...)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		outcome, err := w.Settle(t.Context(), ups...)
		require.NoError(t, err)
		require.Equal(t, blobtx.Outcome{Committed: true, Objects: objects}, outcome)
		w.atRest()
	})
	inBubble(t, "none, and then they may be committed", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		outcome, err := w.Settle(t.Context(), ups...)
		require.NoError(t, err)
		require.Equal(t, blobtx.Outcome{}, outcome)
		_, err = w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "not committed together is ErrInvalid, and each by itself has an answer", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		_, err := w.Commit(t.Context(), nil, ups[1])
		require.NoError(t, err)
		_, err = w.Settle(t.Context(), ups...)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.NotErrorIs(t, err, blobtx.ErrNotCommitted)
		for i, up := range ups {
			outcome, err := w.Settle(t.Context(), up)
			require.NoError(t, err)
			require.Equal(t, i == 1, outcome.Committed)
		}
		_, err = w.Commit(t.Context(), nil, ups[0], ups[2])
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "the database goes away half-way: unknown, and they may still be committed", func(t *testing.T) {
		w, p := tapped(t, nil)
		ups := w.three()
		n := 0
		p.onBefore(func(_ context.Context, step string) error {
			if step == "take over" {
				if n++; n > 1 {
					return errWire
				}
			}
			return nil
		})
		_, err := w.Settle(t.Context(), ups...)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		p.onBefore(nil)
		_, err = w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		w.atRest()
	})
}

// Everybody asks at once while the holder commits: all answers agree with what
// becomes visible.
func TestManySettleAtOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			defer up.Release()
			outcomes, errs := make([]blobtx.Outcome, 8), make([]error, 8)
			var commit error
			var wg sync.WaitGroup
			for i := range outcomes {
				c := []*blobtx.Coordinator{w.Coordinator, w.calm}[i%2]
				wg.Go(func() { outcomes[i], errs[i] = c.Outcome(t.Context(), up.Intent().ID) })
				if i == 3 {
					wg.Go(func() { _, commit = w.Commit(t.Context(), nil, up) })
				}
			}
			wg.Wait()
			visible := len(w.rows.Objects()) == 1
			if commit == nil {
				require.True(t, visible)
			} else {
				require.ErrorIs(t, commit, blobtx.ErrTakenOver)
				require.False(t, visible)
			}
			for i, outcome := range outcomes {
				switch {
				case errs[i] != nil:
					require.True(t, errors.Is(errs[i], blobtx.ErrOutcomeUnknown), "%v", errs[i])
				case outcome.Committed:
					require.True(t, visible)
				case visible:
					t.Errorf("asker %d was told not committed, and it is there", i)
				}
			}
			w.atRest()
		})
	}
}
