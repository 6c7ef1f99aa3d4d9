package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

var txCases = []rowCase{
	{"Tx/takes effect at its commit and not before", func(t *rowTest) {
		t.besideReaders()
		before := normalObject(t.put("replaced"))
		gone := normalObject(t.put("deleted"))
		described := normalObject(t.put("described"))
		made, replacing := t.insert("made"), t.insert("replaced")
		tx := t.begin()
		objects, err := tx.CommitObjects(t.ctx, t.uploads(made, replacing))
		require.NoError(t, err)
		_, err = tx.DeleteObject(t.ctx, store.DeleteParams{Key: "deleted", If: store.Always()})
		require.NoError(t, err)
		renewed, err := tx.SetObjectMetadata(t.ctx, store.MetadataParams{Key: "described", If: store.Always(), Metadata: map[string]string{"a": "1"}})
		require.NoError(t, err)

		t.noObject("made")
		require.Equal(t, before, t.object("replaced"))
		require.Equal(t, gone, t.object("deleted"))
		require.Equal(t, described, t.object("described"))
		require.Equal(t, []string{"deleted", "described", "replaced"}, t.list(store.ListParams{Limit: 10}))
		require.Equal(t, normal(made), t.intent(made.ID))

		require.NoError(t, tx.Commit())
		require.Equal(t, normalObject(objects[0]), t.object("made"))
		require.Equal(t, normalObject(objects[1]), t.object("replaced"))
		require.Equal(t, renewed, t.object("described"))
		t.noObject("deleted")
		require.Equal(t, store.Sealing, t.intent(made.ID).State)
		require.ElementsMatch(t, []string{before.Blob.Name, gone.Blob.Name}, t.retiredNames())
	}},
	{"Tx/rolled back leaves nothing, and the same upload may be committed again", func(t *rowTest) {
		before := normalObject(t.put("k"))
		in := t.insert("k")
		tx := t.begin()
		_, err := tx.CommitObjects(t.ctx, t.uploads(in))
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		require.Equal(t, before, t.object("k"))
		require.Equal(t, normal(in), t.intent(in.ID))
		require.Empty(t, t.claim().Retired)

		tx = t.begin()
		_, err = tx.CommitObjects(t.ctx, t.uploads(in))
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, in.ID, t.object("k").IntentID)
		require.Equal(t, []string{before.Blob.Name}, t.retiredNames())
	}},
	{"Tx/sees its own steps", func(t *rowTest) {
		a, b := t.insert("k"), t.insert("k")
		tx := t.begin()
		objects, err := tx.CommitObjects(t.ctx, t.uploads(a))
		require.NoError(t, err)
		described, err := tx.SetObjectMetadata(t.ctx, store.MetadataParams{Key: "k", If: store.IfVersion(objects[0].Version), Metadata: map[string]string{"a": "1"}})
		require.NoError(t, err)
		removed, err := tx.DeleteObject(t.ctx, store.DeleteParams{Key: "k", If: store.IfVersion(described.Version)})
		require.NoError(t, err)
		require.Equal(t, described, removed)
		_, err = tx.CommitObjects(t.ctx, t.uploads(a))
		require.ErrorIs(t, err, store.ErrAlreadyCommitted)
		last, err := tx.CommitObjects(t.ctx, t.uploads(b))
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, normalObject(last[0]), t.object("k"))
		require.Equal(t, []string{removed.Blob.Name}, t.retiredNames())
	}},
	{"Tx/a conflict leaves no trace", func(t *rowTest) {
		first := t.insert("k", expecting(store.IfAbsent()))
		second := t.insert("k", expecting(store.IfAbsent()))
		other := t.insert("other")
		o := normalObject(t.commit(first))
		tx := t.begin()
		_, err := tx.CommitObjects(t.ctx, t.uploads(second))
		require.NotErrorIs(t, err, store.ErrTxUnusable)
		require.Equal(t, &store.ConflictError{Key: "k", Current: &o}, t.conflict(err))
		_, err = tx.CommitObjects(t.ctx, t.uploads(other)) // still usable
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, o, t.object("k"))
		require.Equal(t, normal(second), t.intent(second.ID))
		require.Equal(t, other.ID, t.object("other").IntentID)
		require.Empty(t, t.retiredNames())
	}},
	{"Tx/of several uploads a conflict leaves no trace of any", func(t *rowTest) {
		bad := t.insert("z", expecting(store.IfAbsent()))
		t.put("z")
		t.refusedInTx(bad, store.ErrConflict)
	}},
	{"Tx/a lost intent leaves no trace", func(t *rowTest) {
		t.refusedInTx(t.inState(store.Abandoned), store.ErrIntentLost)
	}},
	{"Tx/an expired intent leaves no trace", func(t *rowTest) {
		in := t.insert("z")
		t.Advance(maxPending + slack)
		t.refusedInTx(in, store.ErrIntentLost)
	}},
	{"Tx/an intent taken over leaves no trace", func(t *rowTest) {
		in := t.insert("z")
		t.takeOver(in, "somebody else")
		t.refusedInTx(in, store.ErrTakenOver)
	}},
	{"Tx/a held intent leaves no trace", func(t *rowTest) {
		t.refusedInTx(t.inState(store.Held), store.ErrHeld)
	}},
	{"Tx/a repeated commit leaves no trace", func(t *rowTest) {
		t.refusedInTx(t.inState(store.Sealing), store.ErrAlreadyCommitted)
	}},
	{"Tx/a refused delete or change of metadata leaves no trace", func(t *rowTest) {
		o := normalObject(t.put("k"))
		stale := store.IfVersion(o.Version - 1)
		tx := t.begin()
		_, err := tx.DeleteObject(t.ctx, store.DeleteParams{Key: "k", If: stale})
		require.Equal(t, &o, t.conflict(err).Current)
		_, err = tx.SetObjectMetadata(t.ctx, store.MetadataParams{Key: "k", If: stale, Metadata: map[string]string{"a": "1"}})
		require.Equal(t, &o, t.conflict(err).Current)
		_, err = tx.DeleteObject(t.ctx, store.DeleteParams{Key: "absent", If: store.IfExists()})
		require.True(t, t.conflict(err).Deleted)
		require.NoError(t, tx.Commit())
		require.Equal(t, o, t.object("k"))
		require.Empty(t, t.retiredNames())
	}},
	{"Tx/a delete of what is absent is ErrNotFound and leaves it usable", func(t *rowTest) {
		in := t.insert("k")
		tx := t.begin()
		_, err := tx.DeleteObject(t.ctx, store.DeleteParams{Key: "absent", If: store.Always()})
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NotErrorIs(t, err, store.ErrTxUnusable)
		_, err = tx.SetObjectMetadata(t.ctx, store.MetadataParams{Key: "absent", If: store.Always()})
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NotErrorIs(t, err, store.ErrTxUnusable)
		_, err = tx.CommitObjects(t.ctx, t.uploads(in))
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, in.ID, t.object("k").IntentID)
	}},
}

// refusedInTx commits two good uploads and a bad one, whose key comes last, in
// a caller's transaction and checks that nothing is left of any, although the
// caller commits, and that the transaction stayed usable.
func (t *rowTest) refusedInTx(bad store.Intent, want error) {
	t.Helper()
	before := normalObject(t.put("b"))
	a, b, other := t.insert("a"), t.insert("b"), t.insert("other")
	was := t.intent(bad.ID)
	require.Greater(t, bad.Key, b.Key)
	tx := t.begin()
	_, err := tx.CommitObjects(t.ctx, t.uploads(b, bad, a))
	require.ErrorIs(t, err, want)
	require.NotErrorIs(t, err, store.ErrTxUnusable)
	_, err = tx.CommitObjects(t.ctx, t.uploads(other))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, normal(a), t.intent(a.ID))
	require.Equal(t, normal(b), t.intent(b.ID))
	require.Equal(t, was, t.intent(bad.ID))
	require.Equal(t, before, t.object("b"))
	t.noObject("a")
	require.Equal(t, other.ID, t.object("other").IntentID)
	require.NotContains(t, t.retiredNames(), before.Blob.Name)
}

// unusable checks that every step on the transaction is refused and that
// nothing of it is left.
func (t *rowTest) unusable(tx Tx, before store.Object, in store.Intent) {
	t.Helper()
	_, err := tx.CommitObjects(t.ctx, t.uploads(in))
	require.ErrorIs(t, err, store.ErrTxUnusable)
	_, err = tx.DeleteObject(t.ctx, store.DeleteParams{Key: before.Key, If: store.Always()})
	require.ErrorIs(t, err, store.ErrTxUnusable)
	_, err = tx.SetObjectMetadata(t.ctx, store.MetadataParams{Key: before.Key, If: store.Always()})
	require.ErrorIs(t, err, store.ErrTxUnusable)
	require.NoError(t, tx.Rollback())
	require.Equal(t, before, t.object(before.Key))
	require.Equal(t, normal(in), t.intent(in.ID))
	require.Empty(t, t.retiredNames())
}

var unusableCases = []rowCase{
	{"Tx/an intent that it cannot see makes it unusable", func(t *rowTest) {
		before := normalObject(t.put("k"))
		in := t.insert("k")
		tx := t.begin()
		_, err := tx.CommitObjects(t.ctx, t.uploads(store.Intent{ID: nobody, Version: 1, Key: "k"}))
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.NotErrorIs(t, err, store.ErrIntentLost)
		t.unusable(tx, before, in)
	}},
	{"Tx/any other error of a commit makes it unusable", func(t *rowTest) {
		t.cancelledStep(func(ctx context.Context, tx Tx, in store.Intent) error {
			_, err := tx.CommitObjects(ctx, t.uploads(in))
			return err
		})
	}},
	{"Tx/any other error of a delete makes it unusable", func(t *rowTest) {
		t.cancelledStep(func(ctx context.Context, tx Tx, in store.Intent) error {
			_, err := tx.DeleteObject(ctx, store.DeleteParams{Key: in.Key, If: store.Always()})
			return err
		})
	}},
	{"Tx/any other error of a change of metadata makes it unusable", func(t *rowTest) {
		t.cancelledStep(func(ctx context.Context, tx Tx, in store.Intent) error {
			_, err := tx.SetObjectMetadata(ctx, store.MetadataParams{Key: in.Key, If: store.Always()})
			return err
		})
	}},
}

func (t *rowTest) cancelledStep(step func(ctx context.Context, tx Tx, in store.Intent) error) {
	t.Helper()
	before := normalObject(t.put("k"))
	in := t.insert("k")
	tx := t.begin()
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	err := step(ctx, tx, in)
	require.ErrorIs(t, err, store.ErrTxUnusable)
	require.ErrorIs(t, err, context.Canceled)
	t.unusable(tx, before, in)
}
