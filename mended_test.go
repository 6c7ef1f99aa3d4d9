package blobtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// Traces that a model, a review or an exploration has found, each kept as the
// test that would have shown it.

func TestARequestThatHangsUnsettlesNobodyElse(t *testing.T) {
	inBubble(t, "seals", func(t *testing.T) {
		w, p := tapped(t, &blobtx.Options{SealLater: true})
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			w.put(key, "x", nil)
		}
		var hung atomic.Bool
		p.onBefore(func(ctx context.Context, step string) error {
			if step == "seal" && hung.CompareAndSwap(false, true) {
				<-ctx.Done() // a connection that went into a black hole
				return ctx.Err()
			}
			return nil
		})
		result, err := w.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, blobtx.SweepResult{Sealed: 4, Failed: 1}, result)
		states := map[store.State]int{}
		for _, in := range w.rows.Intents() {
			states[in.State]++
		}
		require.Equal(t, map[store.State]int{store.Done: 4, store.Sealing: 1}, states)
		p.onBefore(nil)
		w.atRest()
	})
}

func TestACreateThatLandsAfterItsBlobWasRetiredIsFound(t *testing.T) {
	inBubble(t, "within the quarantine", func(t *testing.T) {
		w := newWorld(t, nil)
		w.put("warm", "up", nil)
		w.wire.fail(2, landsLate) // the create; a second try succeeds
		_, err := w.Put(t.Context(), "k", bytes.NewReader([]byte("x")), nil)
		require.NoError(t, err)
		require.Equal(t, "create blob", w.wire.step)
		w.wire.heal()
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		time.Sleep(10 * time.Minute)
		w.sweep()
		require.Len(t, w.blobs.Snapshot(), 1)
		w.wire.land()
		require.Len(t, w.blobs.Snapshot(), 2, "the first try landed at last")
		w.atRest()
	})
}

func TestSealSettlesBeforeItRefuses(t *testing.T) {
	inBubble(t, "a COMMIT that is under way", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Second)
			_ = tx.Commit()
		}()
		require.NoError(t, w.Seal(t.Context(), up))
		require.Equal(t, store.Done, w.row(up.Intent().ID).State)
	})
	inBubble(t, "told not committed, an attempt made before never becomes visible", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		before := up.Intent()
		require.ErrorIs(t, w.Seal(t.Context(), up), blobtx.ErrNotCommitted)
		_, err := w.rows.CommitObjects(t.Context(), []store.CommitParams{{IntentID: before.ID, Version: before.Version, Key: "k"}})
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		w.atRest()
	})
	inBubble(t, "a forgotten outcome is not found", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		w.atRest()
		err = w.Seal(t.Context(), up)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.NotErrorIs(t, err, blobtx.ErrNotCommitted)
	})
}

func TestCommitWithGoesOnAfterItsOwnRetries(t *testing.T) {
	inBubble(t, "a helper that runs its closure again may commit again", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
			for range 2 { // the first transaction lost a deadlock after its commit step
				tx, err := w.rows.Begin(ctx)
				require.NoError(t, err)
				_, err = commit(tx)
				require.NoError(t, err)
				require.NoError(t, tx.Rollback())
			}
			return w.transaction(ctx, commit)
		}, up)
		require.NoError(t, err)
		require.Equal(t, objects, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "a Settle of its own that came twice is no takeover", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		twice := false
		p.onAfter(func(ctx context.Context, step string, err error) error {
			if step == "take over" && !twice {
				twice = true
				in := w.row(up.Intent().ID)
				_, again := w.rows.TakeOver(ctx, store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: in.Holder, TTL: time.Minute})
				require.NoError(t, again)
			}
			return err
		})
		runs := 0
		_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
			if runs++; runs > 1 {
				return w.transaction(ctx, commit)
			}
			tx, err := w.rows.Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			if _, err := commit(tx); err != nil {
				return err
			}
			return &blobtx.ConflictError{Key: "other", Retryable: true}
		}, up)
		require.NoError(t, err)
		require.True(t, twice)
		w.atRest()
	})
}

func TestARepeatedInsertDoesNotAdoptTheHolderWhoTookItOver(t *testing.T) {
	inBubble(t, "the first attempt is told so, and the second goes on", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("warm", "up", nil)
		var second *blobtx.Upload
		p.onAfter(func(_ context.Context, step string, err error) error {
			if step == "insert intent" && second == nil {
				var stageErr error
				second, stageErr = w.calm.Stage(t.Context(), "k", text("x"), &blobtx.PutOptions{IdempotencyKey: "i"})
				require.NoError(t, stageErr)
				return errors.New("connection reset")
			}
			return err
		})
		_, err := w.Put(t.Context(), "k", text("x"), &blobtx.PutOptions{IdempotencyKey: "i"})
		require.ErrorIs(t, err, blobtx.ErrTakenOver)
		_, err = w.calm.Commit(t.Context(), nil, second)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestWhoFellSilentWhileARetryCommittedIsNotToldAbandoned(t *testing.T) {
	inBubble(t, "Put", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.lose("heartbeat", -1)
		told := make(chan error)
		go func() {
			_, err := w.Put(t.Context(), "k", slowly(time.Hour, time.Minute), &blobtx.PutOptions{IdempotencyKey: "i"})
			told <- err
		}()
		time.Sleep(10 * time.Minute)
		_, err := w.calm.Put(t.Context(), "k", text("x"), &blobtx.PutOptions{IdempotencyKey: "i"})
		require.NoError(t, err)
		require.ErrorIs(t, <-told, blobtx.ErrTakenOver)
		w.atRest()
	})
}

func TestAnEmptyBlobThatClearsANameIsNobodysUpload(t *testing.T) {
	inBubble(t, "the upload was lost, not its key reused", func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		c, err := blobtx.New(w.rows, clearing{w.blobs, in.ID}, nil)
		require.NoError(t, err)
		_, err = c.Upload(t.Context(), in, text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		require.NotErrorIs(t, err, blobtx.ErrIdempotencyReuse)
	})
}

// clearing shows every name as a sweeper leaves it between an empty commit and
// its delete.
type clearing struct {
	store.BlobStore
	intentID string
}

func (clearing) Create(context.Context, store.CreateParams) (store.Blob, error) {
	return store.Blob{}, store.ErrExists
}

func (c clearing) Stat(_ context.Context, p store.StatParams) (store.BlobInfo, error) {
	return store.BlobInfo{Blob: store.Blob{Name: p.Name}, IntentID: c.intentID}, nil
}

func TestAnUnknownDeleteIsNoConflict(t *testing.T) {
	inBubble(t, "whose reply was lost", func(t *testing.T) {
		w, p := tapped(t, nil)
		o := w.put("k", "x", nil)
		p.loseReply("delete object", 1)
		err := w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(o.Version)})
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, blobtx.ErrConflict)
		require.NotErrorIs(t, err, blobtx.ErrNotFound)
	})
}

func TestAnUploadWhoseTransactionRolledBackAfterLongIsKept(t *testing.T) {
	inBubble(t, "its due time, which the lock held back, moves soon", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		time.Sleep(time.Minute)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		time.Sleep(19*time.Minute + 30*time.Second)
		require.NoError(t, tx.Rollback())
		time.Sleep(80 * time.Second)
		require.Equal(t, blobtx.SweepResult{}, w.sweep())
		_, err = w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestAStartThatCannotAskLeavesEarlierAttemptsOpen(t *testing.T) {
	inBubble(t, "a process that has just begun", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.lose("check", -1)
		_, err := w.Put(t.Context(), "k", text("x"), named("i"))
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
	})
}

func TestOneLostHeartbeatFailsNoUpload(t *testing.T) {
	for what, lose := range map[string]func(p *tap){
		"request": func(p *tap) { p.lose("heartbeat", 1) },
		"reply":   func(p *tap) { p.loseReply("heartbeat", 1) },
	} {
		inBubble(t, "its "+what, func(t *testing.T) {
			w, p := tapped(t, nil)
			in, err := w.Intent(t.Context(), "k", nil)
			require.NoError(t, err)
			lose(p)
			up, err := w.Upload(t.Context(), in, text("x"), nil)
			require.NoError(t, err)
			up.Release()
			w.atRest()
		})
	}
}

func TestACommitThatGotNoConnectionIsNotUnknown(t *testing.T) {
	inBubble(t, "and is aborted", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "commit objects" {
				return fmt.Errorf("no connection: %w", blobtx.ErrBusy)
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrBusy)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "unless an earlier try may have been applied", func(t *testing.T) {
		w, p := tapped(t, nil)
		tries := 0
		p.onBefore(func(_ context.Context, step string) error {
			if step == "take over" || step == "commit objects" {
				if tries++; tries > 1 {
					return fmt.Errorf("no connection: %w", blobtx.ErrBusy)
				}
				return errWire
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		w.atRest()
	})
}

func TestAFailureNamesKeyAndIntent(t *testing.T) {
	for op, do := range map[string]func(w *world) error{
		"put":   func(w *world) error { _, err := w.Put(w.t.Context(), "k", text("x"), named("i")); return err },
		"stage": func(w *world) error { _, err := w.Stage(w.t.Context(), "k", text("x"), named("i")); return err },
	} {
		inBubble(t, op+" with the key that the idempotency key stands for", func(t *testing.T) {
			w, p := tapped(t, nil)
			_, err := w.calm.Intent(t.Context(), "theirs", &blobtx.IntentOptions{IdempotencyKey: "i"})
			require.NoError(t, err)
			p.lose("create blob", -1)
			require.ErrorContains(t, do(w), op+` "theirs" (intent `)
		})
	}
}

func TestACommitElsewhereEndsAnUploadWithItsReason(t *testing.T) {
	inBubble(t, "of who has a copy of the intent", func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		copied := *in
		slow := make(chan error)
		go func() {
			_, err := w.Upload(t.Context(), in, slowly(time.Hour, time.Minute), nil)
			slow <- err
		}()
		time.Sleep(time.Second)
		up, err := w.calm.Upload(t.Context(), &copied, text("x"), nil)
		require.NoError(t, err)
		_, err = w.calm.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		err = <-slow
		require.ErrorIs(t, err, blobtx.ErrAlreadyCommitted)
		require.NotErrorIs(t, err, context.Canceled)
		w.atRest()
	})
}

func TestOneCommitThatHangsLeavesNoSealUnrecorded(t *testing.T) {
	inBubble(t, "for long", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("warm", "up", nil)
		release := w.hungCommit(p)
		for i := range 10 {
			time.Sleep(2 * time.Second)
			w.put(fmt.Sprint(i), "x", nil)
		}
		for _, in := range w.rows.Intents() {
			late := time.Since(in.UpdatedAt) > 6*time.Second && in.State == store.Sealing
			require.False(t, late, "%s was sealed and is not recorded", in.Key)
		}
		release()
		w.atRest()
	})
}
