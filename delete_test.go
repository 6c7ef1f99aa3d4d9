package blobtx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

func TestDelete(t *testing.T) {
	inBubble(t, "removes the object at once and its blob after the read grace", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		_, err := w.Get(t.Context(), "k")
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		time.Sleep(5*time.Minute - time.Second)
		w.sweep()
		require.Contains(t, w.blobs.Snapshot(), o.Blob.Name)
		time.Sleep(2 * time.Second)
		w.sweep()
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "is no error when the object is absent already", func(t *testing.T) {
		w := plain(t, nil)
		require.NoError(t, w.Delete(t.Context(), "never", nil))
		require.NoError(t, w.Delete(t.Context(), "never", &blobtx.DeleteOptions{If: blobtx.Always()}))
		w.put("k", "x", nil)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		require.Len(t, w.rows.RetiredNames(), 1)
	})
	inBubble(t, "under a condition refuses an absent object and says so", func(t *testing.T) {
		w := plain(t, nil)
		for _, want := range []blobtx.Condition{blobtx.IfExists(), blobtx.IfVersion(7)} {
			err := w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: want})
			require.ErrorIs(t, err, blobtx.ErrConflict)
			require.ErrorIs(t, err, blobtx.ErrNotFound)
			var conflict *blobtx.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.True(t, conflict.Deleted)
			require.Equal(t, want, conflict.Want)
		}
	})
	inBubble(t, "refuses a stale version and names the current object", func(t *testing.T) {
		w := plain(t, nil)
		old := w.put("k", "old", nil)
		current := w.put("k", "new", &blobtx.PutOptions{If: blobtx.Always()})
		err := w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(old.Version)})
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, &current, conflict.Current)
		require.NotErrorIs(t, err, blobtx.ErrExists)
		require.NotErrorIs(t, err, blobtx.ErrNotFound)
		require.Equal(t, "new", w.read("k"))
		require.NoError(t, w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(old.Version, current.Version)}))
	})
	inBubble(t, "sent late never removes a later object", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "old", nil)
		var late func()
		c, err := blobtx.New(rowsLate{w.rows, &late}, w.blobs, nil)
		require.NoError(t, err)
		err = c.Delete(t.Context(), "k", nil)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		w.put("k", "again", nil)
		late()
		require.Equal(t, "again", w.read("k"))
		w.atRest()
	})
	inBubble(t, "whose reply was lost does not go on to remove what another creates meanwhile", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "old", nil)
		p.onAfter(func(_ context.Context, step string, _ error) error {
			if step != "delete object" {
				return nil
			}
			p.onAfter(nil)
			_, err := w.calm.Put(t.Context(), "k", text("theirs"), nil)
			require.NoError(t, err)
			return errWire
		})
		err := w.Delete(t.Context(), "k", nil)
		require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Equal(t, "theirs", w.read("k"), "one Delete removed two objects")
	})
	// ErrBusy says that nothing was changed: it makes nothing unknown.
	inBubble(t, "waits for a replace in a transaction longer than one try lasts", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "old", nil)
		up, tx := w.stage("k", "new", &blobtx.PutOptions{If: blobtx.Always()}), w.begin()
		_, err := w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		time.AfterFunc(7*time.Second, func() { _ = tx.Commit() })
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		require.Empty(t, w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "of a row that stays locked is ErrBusy, not unknown", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "old", nil)
		tx := w.begin()
		require.NoError(t, w.DeleteTx(t.Context(), tx, "k", nil))
		began := time.Now()
		err := w.Delete(t.Context(), "k", nil)
		require.ErrorIs(t, err, blobtx.ErrBusy)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.LessOrEqual(t, time.Since(began), time.Minute)
		require.NoError(t, tx.Rollback())
		require.Equal(t, "old", w.read("k"))
		w.atRest()
	})
	inBubble(t, "once begun does not end with the caller's context", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "x", nil)
		ctx, cancel := context.WithCancel(t.Context())
		p.onBefore(func(_ context.Context, step string) error {
			if step == "get object" {
				cancel()
			}
			return nil
		})
		require.NoError(t, w.Delete(ctx, "k", nil))
		require.Empty(t, w.rows.Objects())
	})
}

// rowsLate delays every DeleteObject until the test says so.
type rowsLate struct {
	store.RowStore
	late *func()
}

func (r rowsLate) DeleteObject(_ context.Context, p store.DeleteParams) (store.Object, error) {
	before := *r.late
	*r.late = func() {
		if before != nil {
			before()
		}
		_, _ = r.RowStore.DeleteObject(context.Background(), p)
	}
	return store.Object{}, errWire
}

func TestDeleteTx(t *testing.T) {
	inBubble(t, "takes effect with the caller's commit, not before", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "x", nil)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.DeleteTx(t.Context(), tx, "k", nil))
		require.Equal(t, "x", w.read("k"))
		require.Empty(t, w.rows.RetiredNames())
		require.NoError(t, tx.Commit())
		require.Empty(t, w.rows.Objects())
		require.Len(t, w.rows.RetiredNames(), 1)
		w.atRest()
	})
	inBubble(t, "is undone by the caller's rollback", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "x", nil)
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.DeleteTx(t.Context(), tx, "k", nil))
		require.NoError(t, tx.Rollback())
		require.Equal(t, "x", w.read("k"))
		w.atRest()
	})
	inBubble(t, "in conflict leaves no trace, and the transaction usable", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		w.put("other", "y", nil)
		before := w.rows.Objects()
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.DeleteTx(t.Context(), tx, "absent", nil))
		err = w.DeleteTx(t.Context(), tx, "absent", &blobtx.DeleteOptions{If: blobtx.IfExists()})
		require.ErrorIs(t, err, blobtx.ErrConflict)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		err = w.DeleteTx(t.Context(), tx, "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(o.Version + 1)})
		require.ErrorIs(t, err, blobtx.ErrConflict)
		require.NotErrorIs(t, err, blobtx.ErrTxUnusable)
		require.NoError(t, w.DeleteTx(t.Context(), tx, "other", nil))
		require.NoError(t, tx.Commit())
		require.Equal(t, before[:1], w.rows.Objects())
		require.Len(t, w.rows.RetiredNames(), 1)
		w.atRest()
	})
	inBubble(t, "and an upload of the same key replace it in one transaction", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "old", nil)
		up := w.stage("k", "new", &blobtx.PutOptions{If: blobtx.Always()})
		tx, err := w.rows.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.DeleteTx(t.Context(), tx, "k", nil))
		_, err = w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		require.Equal(t, "old", w.read("k"))
		require.NoError(t, tx.Commit())
		require.Equal(t, "new", w.read("k"))
		w.atRest()
	})
}

func TestSetMetadata(t *testing.T) {
	inBubble(t, "gives a new version and leaves the bytes alone", func(t *testing.T) {
		w := plain(t, nil)
		old := w.put("k", "x", &blobtx.PutOptions{Metadata: map[string]string{"a": "1", "gone": "2"}, ContentType: "a/b"})
		intents, blobs := w.rows.Intents(), w.blobs.Snapshot()
		time.Sleep(time.Second)
		m := map[string]string{"a": "3", "b": "4"}
		fresh, err := w.SetMetadata(t.Context(), "k", m, nil)
		require.NoError(t, err)
		require.Greater(t, fresh.Version, old.Version)
		require.Equal(t, map[string]string{"a": "3", "b": "4"}, fresh.Metadata)
		require.Equal(t, old.Blob, fresh.Blob)
		require.Equal(t, old.IntentID, fresh.IntentID)
		require.Equal(t, old.CreatedAt, fresh.CreatedAt)
		require.True(t, fresh.UpdatedAt.After(old.UpdatedAt))
		require.Equal(t, intents, w.rows.Intents())
		require.Equal(t, blobs, w.blobs.Snapshot())
		require.Empty(t, w.rows.RetiredNames())
		m["a"] = "the caller's own map"
		got, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, fresh, got)
		_, err = w.Put(t.Context(), "k", text("y"), &blobtx.PutOptions{If: blobtx.IfVersion(old.Version)})
		require.ErrorIs(t, err, blobtx.ErrConflict, "the version is the token of the whole aggregate")
		cleared, err := w.SetMetadata(t.Context(), "k", nil, &blobtx.MetadataOptions{If: blobtx.IfVersion(fresh.Version)})
		require.NoError(t, err)
		require.Empty(t, cleared.Metadata)
		w.atRest()
	})
	inBubble(t, "refuses an absent object, by default and always", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.SetMetadata(t.Context(), "k", nil, nil)
		require.ErrorIs(t, err, blobtx.ErrConflict)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		_, err = w.SetMetadata(t.Context(), "k", nil, &blobtx.MetadataOptions{If: blobtx.Always()})
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		w.nothing()
	})
	inBubble(t, "refuses a stale version and names the current object", func(t *testing.T) {
		w := plain(t, nil)
		old := w.put("k", "x", nil)
		current, err := w.SetMetadata(t.Context(), "k", map[string]string{"n": "1"}, nil)
		require.NoError(t, err)
		_, err = w.SetMetadata(t.Context(), "k", map[string]string{"n": "2"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(old.Version)})
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, &current, conflict.Current)
		got, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, current, got)
	})
	inBubble(t, "whose reply was lost knows its own success", func(t *testing.T) {
		w, p := tapped(t, nil)
		o := w.put("k", "x", nil)
		time.Sleep(time.Second) // so that the random bits are in the version
		p.loseReply("set metadata", 1)
		fresh, err := w.SetMetadata(t.Context(), "k", map[string]string{"a": "1"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(o.Version)})
		require.NoError(t, err)
		got, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, got, fresh)
	})
	// The first attempt may have been what the deleter saw.
	for promise, want := range map[string]blobtx.Condition{"if it exists": blobtx.IfExists(), "always": blobtx.Always()} {
		inBubble(t, "whose reply was lost before another deleted the object has an unknown outcome, "+promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			w.put("k", "x", nil)
			p.onAfter(func(_ context.Context, step string, _ error) error {
				if step != "set metadata" {
					return nil
				}
				require.NoError(t, w.calm.Delete(t.Context(), "k", nil))
				return errWire
			})
			_, err := w.SetMetadata(t.Context(), "k", map[string]string{"a": "1"}, &blobtx.MetadataOptions{If: want})
			require.ErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		})
	}
}

func TestSetMetadataTx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		begin := func() interface {
			store.RowTx
			Commit() error
			Rollback() error
		} {
			tx, err := w.rows.Begin(t.Context())
			require.NoError(t, err)
			return tx
		}
		tx := begin()
		_, err := w.SetMetadataTx(t.Context(), tx, "k", map[string]string{"a": "1"}, nil)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		require.Equal(t, []blobtx.Object{o}, w.rows.Objects())

		tx = begin()
		_, err = w.SetMetadataTx(t.Context(), tx, "k", map[string]string{"a": "1"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(o.Version + 1)})
		require.ErrorIs(t, err, blobtx.ErrConflict)
		_, err = w.SetMetadataTx(t.Context(), tx, "absent", nil, nil)
		require.True(t, errors.Is(err, blobtx.ErrConflict) && errors.Is(err, blobtx.ErrNotFound), "%v", err)
		_, err = w.SetMetadataTx(t.Context(), tx, "absent", nil, &blobtx.MetadataOptions{If: blobtx.Always()})
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		fresh, err := w.SetMetadataTx(t.Context(), tx, "k", map[string]string{"a": "2"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(o.Version)})
		require.NoError(t, err)
		require.Equal(t, []blobtx.Object{o}, w.rows.Objects(), "seen before the caller's commit")
		require.NoError(t, tx.Commit())
		require.Equal(t, []blobtx.Object{fresh}, w.rows.Objects())
		require.Greater(t, fresh.Version, o.Version)
		w.atRest()
	})
}
