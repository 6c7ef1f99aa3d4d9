package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// promise records an intent for the key, whose id and blob name are id.
func promise(t *testing.T, rows *memstore.Rows, id, key string) store.CommitParams {
	t.Helper()
	in, err := rows.InsertIntent(t.Context(), store.InsertParams{
		ID: id, Holder: "holder", Key: key, Expect: store.Always(), BlobName: id, TTL: time.Minute, MaxPending: time.Hour,
	})
	require.NoError(t, err)
	return store.CommitParams{IntentID: in.ID, Version: in.Version, Key: in.Key}
}

func begin(t *testing.T, rows *memstore.Rows) *memstore.Tx {
	t.Helper()
	tx, err := rows.Begin(t.Context())
	require.NoError(t, err)
	return tx
}

func commitIn(t *testing.T, tx store.RowTx, p ...store.CommitParams) error {
	t.Helper()
	_, err := tx.CommitObjects(t.Context(), p)
	return err
}

func TestWaitForALockIsBoundedInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memstore.NewRows(nil)
		p := promise(t, rows, "1", "k")
		tx := begin(t, rows)
		require.NoError(t, commitIn(t, tx, p))

		began := time.Now()
		_, err := rows.TakeOver(t.Context(), store.TakeOverParams{ID: "1", Version: 1, Holder: "me", TTL: time.Minute})
		require.ErrorIs(t, err, store.ErrBusy)
		require.True(t, rows.Retryable(err))
		require.Equal(t, 5*time.Second, time.Since(began))

		// Waiters go on once the transaction has ended, and leave nothing
		// behind: the bubble would not end.
		back := make(chan store.Intent, 3)
		for range cap(back) {
			go func() {
				in, _ := rows.Abandon(t.Context(), store.AbandonParams{ID: "1", Version: 1})
				back <- in
			}()
		}
		synctest.Wait()
		require.Empty(t, back)
		require.NoError(t, tx.Commit())
		for range cap(back) {
			require.Equal(t, store.Sealing, (<-back).State)
		}
	})
}

func TestWaitForALockEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memstore.NewRows(nil)
		p := promise(t, rows, "1", "k")
		tx := begin(t, rows)
		require.NoError(t, commitIn(t, tx, p))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rows.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always()})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, tx.Rollback())
	})
}

func TestTransactionsThatWaitForEachOtherEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memstore.NewRows(nil)
		a1, b1 := promise(t, rows, "a1", "a"), promise(t, rows, "b1", "b")
		a2, b2 := promise(t, rows, "a2", "a"), promise(t, rows, "b2", "b")
		first, second := begin(t, rows), begin(t, rows)
		require.NoError(t, commitIn(t, first, a1))
		require.NoError(t, commitIn(t, second, b2))

		back := make(chan error)
		go func() { back <- commitIn(t, second, a2) }()
		synctest.Wait()
		time.Sleep(time.Second) // the bubble's: the second gives up first
		go func() { back <- commitIn(t, first, b1) }()
		err := <-back
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.ErrorIs(t, err, store.ErrBusy)
		require.True(t, rows.Retryable(err))
		require.NoError(t, second.Rollback())
		require.NoError(t, <-back)
		require.NoError(t, first.Commit())
		require.Len(t, rows.Objects(), 2)
		require.Equal(t, "a1", rows.Objects()[0].IntentID)
		require.Equal(t, "b1", rows.Objects()[1].IntentID)
	})
}

func TestTxEndsOnce(t *testing.T) {
	rows := memstore.NewRows(nil)
	p := promise(t, rows, "1", "k")
	tx := begin(t, rows)
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, tx.Commit(), memstore.ErrTxDone)
	require.ErrorIs(t, tx.Rollback(), memstore.ErrTxDone)
	err := commitIn(t, tx, p)
	require.ErrorIs(t, err, store.ErrTxUnusable)
	require.ErrorIs(t, err, memstore.ErrTxDone)
	require.Empty(t, rows.Objects())
}

func TestCommitOfAnUnusableTxRollsBack(t *testing.T) {
	rows := memstore.NewRows(nil)
	p := promise(t, rows, "1", "k")
	tx := begin(t, rows)
	require.NoError(t, commitIn(t, tx, p))
	require.ErrorIs(t, commitIn(t, tx, store.CommitParams{IntentID: "unknown", Key: "x"}), store.ErrTxUnusable)
	require.ErrorIs(t, tx.Commit(), store.ErrTxUnusable)
	require.Empty(t, rows.Objects())
	require.Equal(t, store.Uploading, rows.Intents()[0].State)
}

// A cause may be one of the protocol's own errors; it must not pass for what
// a step found out.
func TestCauseOfACancellationIsNotAnOutcome(t *testing.T) {
	rows := memstore.NewRows(nil)
	p := promise(t, rows, "1", "k")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(store.ErrIntentLost)
	_, err := rows.CommitObjects(ctx, []store.CommitParams{p})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, store.ErrIntentLost)
}

func TestClockMayUseTheStore(t *testing.T) {
	var rows *memstore.Rows
	inside := false
	rows = memstore.NewRows(&memstore.RowsOptions{Now: func() time.Time {
		if !inside {
			inside = true
			_, _ = rows.GetIntents(context.Background(), nil) // would hang if the mutex were held
			inside = false
		}
		return time.Now()
	}})
	promise(t, rows, "1", "k")
	require.Len(t, rows.Intents(), 1)
}

func TestInspection(t *testing.T) {
	rows := memstore.NewRows(nil)
	p := []store.CommitParams{promise(t, rows, "2", "b"), promise(t, rows, "1", "a"), promise(t, rows, "3", "b")}
	for _, one := range p {
		require.NoError(t, commitIn(t, rows, one))
	}
	intents, objects, retired := rows.Intents(), rows.Objects(), rows.RetiredNames()
	require.Equal(t, []string{"1", "2", "3"}, []string{intents[0].ID, intents[1].ID, intents[2].ID})
	require.Equal(t, []string{"a", "b"}, []string{objects[0].Key, objects[1].Key})
	require.Len(t, retired, 1)
	require.Equal(t, "2", retired[0].BlobName)

	rows.RemoveRetired("2")
	require.Empty(t, rows.RetiredNames())
	rows.SetRetired(store.Retired{BlobName: "2", IntentID: "i"})
	require.Equal(t, []store.Retired{{BlobName: "2", IntentID: "i"}}, rows.RetiredNames())
	rows.RemoveRetired("2")
	rows.RemoveRetired("2")
	require.Empty(t, rows.RetiredNames())
	objects[0].Blob.ETag = `"tampered"`
	rows.SetObject(objects[0])
	got, err := rows.GetObject(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, `"tampered"`, got.Blob.ETag)
	intents[0].State = store.Held
	rows.SetIntent(intents[0])
	require.Equal(t, store.Held, rows.Intents()[0].State)
}

func TestATransactionThatWasNotBegunIsRefused(t *testing.T) {
	ctx := t.Context()
	var tx memstore.Tx
	_, err := tx.CommitObjects(ctx, []store.CommitParams{{IntentID: "1", Version: 1, Key: "k"}})
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = tx.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always()})
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = tx.SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.Always()})
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorIs(t, tx.Commit(), store.ErrInvalid)
	require.ErrorIs(t, tx.Rollback(), store.ErrInvalid)
}
