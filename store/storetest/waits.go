package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// inFlight commits the intent in a transaction and leaves it open.
func (t *rowTest) inFlight(in store.Intent) (Tx, store.Object) {
	t.Helper()
	tx := t.begin()
	objects, err := tx.CommitObjects(t.ctx, t.uploads(in))
	require.NoError(t, err)
	return tx, objects[0]
}

// meanwhile starts fn, lets it get as far as it can, ends the transaction and
// returns what came back: the same whether fn had begun to wait or not.
func meanwhile[T any](t *rowTest, end func() error, fn func() (T, error)) (T, error) {
	t.Helper()
	back := start(fn)
	t.wait()
	require.NoError(t, end())
	got := <-back
	return got.value, got.err
}

func (t *rowTest) takingOver(in store.Intent) func() (store.Intent, error) {
	return func() (store.Intent, error) {
		return t.rows.TakeOver(t.ctx, store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: "me", TTL: ttl})
	}
}

func (t *rowTest) abandoning(in store.Intent) func() (store.Intent, error) {
	return func() (store.Intent, error) {
		return t.rows.Abandon(t.ctx, store.AbandonParams{ID: in.ID, Version: in.Version})
	}
}

// committing is one commit in the store's own transaction, made ready so that
// it may run beside the case.
func (t *rowTest) committing(in store.Intent) func() (store.Object, error) {
	p := t.uploads(in)
	return func() (store.Object, error) {
		objects, err := t.rows.CommitObjects(t.ctx, p)
		if err != nil {
			return store.Object{}, err
		}
		return objects[0], nil
	}
}

var waitCases = []rowCase{
	{"TakeOver/waits for a commit in flight and loses to it", func(t *rowTest) {
		in := t.insert("k")
		tx, o := t.inFlight(in)
		got, err := meanwhile(t, tx.Commit, t.takingOver(in))
		require.NoError(t, err)
		require.Equal(t, store.Sealing, got.State)
		require.Equal(t, normalObject(o), *normal(got).Result)
		require.Equal(t, normal(got), t.intent(in.ID))
	}},
	{"TakeOver/waits for a commit in flight and wins when it is rolled back", func(t *rowTest) {
		in := t.insert("k")
		tx, _ := t.inFlight(in)
		got, err := meanwhile(t, tx.Rollback, t.takingOver(in))
		require.NoError(t, err)
		require.Equal(t, store.Uploading, got.State)
		require.Equal(t, "me", got.Holder)
		t.noObject("k")
		t.commit(got)
	}},
	{"Abandon/waits for a commit in flight and loses to it", func(t *rowTest) {
		in := t.insert("k")
		tx, _ := t.inFlight(in)
		got, err := meanwhile(t, tx.Commit, t.abandoning(in))
		require.NoError(t, err)
		require.Equal(t, store.Sealing, got.State)
		require.Equal(t, normal(got), t.intent(in.ID))
	}},
	{"Abandon/waits for a commit in flight and wins when it is rolled back", func(t *rowTest) {
		in := t.insert("k")
		tx, _ := t.inFlight(in)
		got, err := meanwhile(t, tx.Rollback, t.abandoning(in))
		require.NoError(t, err)
		require.Equal(t, store.Abandoned, got.State)
		t.noObject("k")
	}},
	{"TakeOver/gives up with ErrBusy after seconds, as Abandon does, and changes nothing", func(t *rowTest) {
		in := t.insert("k")
		tx, o := t.inFlight(in)
		first, second := start(t.takingOver(in)), start(t.abandoning(in))
		require.ErrorIs(t, (<-first).err, store.ErrBusy)
		require.ErrorIs(t, (<-second).err, store.ErrBusy)
		require.NoError(t, tx.Commit())
		require.Equal(t, normalObject(o), t.object("k"))
		require.Equal(t, store.Sealing, t.intent(in.ID).State)
	}},
	{"Heartbeat/does not wait for a locked row", func(t *rowTest) {
		t.besideWriters()
		in := t.insert("k")
		tx, o := t.inFlight(in)
		got := t.heartbeat(in) // would come back with ErrBusy if it waited
		require.Equal(t, store.Uploading, got.State)
		require.Equal(t, in.Version, got.Version)
		require.NoError(t, tx.Commit())
		require.Equal(t, normalObject(o), *t.intent(in.ID).Result)
	}},
	{"Claim/passes over what an open transaction has locked", func(t *rowTest) {
		t.besideWriters()
		busy, free := t.insert("busy"), t.insert("free")
		t.Advance(ttl + slack)
		tx, _ := t.inFlight(busy)
		require.Equal(t, []string{free.ID}, ids(t.claim().Intents))
		require.NoError(t, tx.Commit())
		require.Equal(t, store.Sealing, t.intent(busy.ID).State)
		require.Equal(t, busy.ID, t.object("busy").IntentID)
	}},
	{"Claim/takes up what a rollback has set free", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(ttl + slack)
		tx, _ := t.inFlight(in)
		require.NoError(t, tx.Rollback())
		require.Equal(t, store.Abandoned, t.claimed().State)
	}},
	{"Settle/passes over what an open transaction has locked", func(t *rowTest) {
		t.besideWriters()
		busy, free := t.insert("busy"), t.inState(store.Sealing)
		tx, _ := t.inFlight(busy)
		committed := busy
		committed.State = store.Sealing
		committed.Version++
		batch := []store.IntentSettlement{settlement(committed, store.ToDone), settlement(free, store.ToDone)}
		require.Equal(t, 1, t.settleAll(batch...))
		require.NoError(t, tx.Commit())
		require.Equal(t, 1, t.settleAll(batch...))
	}},
}

// In these a step meets a row that an open transaction is changing: what its
// statement saw first is no longer so when the wait is over.
var relookCases = []rowCase{
	{"Relook/Always with nothing there yet, while another creates", func(t *rowTest) {
		first, second := t.insert("k"), t.insert("k")
		tx, o := t.inFlight(first)
		got, err := meanwhile(t, tx.Commit, t.committing(second))
		require.NoError(t, err)
		t.replaced(o, got)
	}},
	{"Relook/Always while another replaces", func(t *rowTest) {
		old := t.put("k")
		first, second := t.insert("k"), t.insert("k")
		tx, o := t.inFlight(first)
		got, err := meanwhile(t, tx.Commit, t.committing(second))
		require.NoError(t, err)
		require.Greater(t, got.Version, o.Version)
		require.Equal(t, normalObject(got), t.object("k"))
		require.ElementsMatch(t, []string{old.Blob.Name, o.Blob.Name}, t.retiredNames())
	}},
	{"Relook/Always while another deletes", func(t *rowTest) {
		old := t.put("k")
		in := t.insert("k")
		got, err := meanwhile(t, t.deletingTx("k").Commit, t.committing(in))
		require.NoError(t, err)
		require.Equal(t, normalObject(got), t.object("k"))
		require.Equal(t, []string{old.Blob.Name}, t.retiredNames())
	}},
	{"Relook/a version that another is about to commit", func(t *rowTest) {
		t.put("k")
		tx, o := t.inFlight(t.insert("k"))
		// The condition names a version that nobody can see yet.
		got, err := meanwhile(t, tx.Commit, func() (store.Object, error) { return t.deleting("k")(store.IfVersion(o.Version)) })
		require.NoError(t, err)
		require.Equal(t, normalObject(o), normalObject(got))
		t.noObject("k")
	}},
	{"Relook/a version that another is about to replace", func(t *rowTest) {
		old := t.put("k")
		first, second := t.insert("k"), t.insert("k", expecting(store.IfVersion(old.Version)))
		tx, o := t.inFlight(first)
		_, err := meanwhile(t, tx.Commit, t.committing(second))
		o = normalObject(o)
		require.Equal(t, &o, t.conflict(err).Current)
		require.Equal(t, normal(second), t.intent(second.ID))
		require.Equal(t, o, t.object("k"))
	}},
	{"Relook/a version that another was about to replace and did not", func(t *rowTest) {
		old := t.put("k")
		first, second := t.insert("k"), t.insert("k", expecting(store.IfVersion(old.Version)))
		tx, _ := t.inFlight(first)
		got, err := meanwhile(t, tx.Rollback, t.committing(second))
		require.NoError(t, err)
		t.replaced(old, got)
	}},
	{"Relook/IfAbsent while another creates", func(t *rowTest) {
		first, second := t.insert("k", expecting(store.IfAbsent())), t.insert("k", expecting(store.IfAbsent()))
		tx, o := t.inFlight(first)
		_, err := meanwhile(t, tx.Commit, t.committing(second))
		require.ErrorIs(t, err, store.ErrExists)
		o = normalObject(o)
		require.Equal(t, &o, t.conflict(err).Current)
		require.Equal(t, normal(second), t.intent(second.ID))
	}},
	{"Relook/IfAbsent while another creates and does not", func(t *rowTest) {
		first, second := t.insert("k", expecting(store.IfAbsent())), t.insert("k", expecting(store.IfAbsent()))
		tx, _ := t.inFlight(first)
		got, err := meanwhile(t, tx.Rollback, t.committing(second))
		require.NoError(t, err)
		require.Equal(t, normalObject(got), t.object("k"))
	}},
	{"Relook/IfAbsent while another deletes", func(t *rowTest) {
		in := t.insert("k", expecting(store.IfAbsent()))
		old := t.put("k")
		got, err := meanwhile(t, t.deletingTx("k").Commit, t.committing(in))
		require.NoError(t, err)
		require.Equal(t, normalObject(got), t.object("k"))
		require.Equal(t, []string{old.Blob.Name}, t.retiredNames())
	}},
	{"Relook/IfExists while another deletes", func(t *rowTest) {
		t.put("k")
		in := t.insert("k", expecting(store.IfExists()))
		_, err := meanwhile(t, t.deletingTx("k").Commit, t.committing(in))
		require.True(t, t.conflict(err).Deleted)
		require.Equal(t, normal(in), t.intent(in.ID))
		t.noObject("k")
	}},
	{"Relook/a delete while another replaces", func(t *rowTest) {
		t.put("k")
		tx, o := t.inFlight(t.insert("k"))
		got, err := meanwhile(t, tx.Commit, func() (store.Object, error) { return t.deleting("k")(store.IfExists()) })
		require.NoError(t, err)
		require.Equal(t, normalObject(o), normalObject(got))
		t.noObject("k")
		require.Contains(t, t.retiredNames(), o.Blob.Name)
	}},
	{"Relook/a change of metadata while another replaces", func(t *rowTest) {
		old := t.put("k")
		tx, o := t.inFlight(t.insert("k"))
		describe := t.describing("k")
		_, err := meanwhile(t, tx.Commit, func() (store.Object, error) { return describe(store.IfVersion(old.Version)) })
		o = normalObject(o)
		require.Equal(t, &o, t.conflict(err).Current)
		require.Equal(t, o, t.object("k"))
	}},
	{"Relook/two intents of one transaction meet another's", func(t *rowTest) {
		a, b, other := t.insert("a"), t.insert("b"), t.insert("b")
		tx, o := t.inFlight(other)
		p := t.uploads(b, a)
		got, err := meanwhile(t, tx.Commit, func() ([]store.Object, error) { return t.rows.CommitObjects(t.ctx, p) })
		require.NoError(t, err)
		t.replaced(o, got[0])
		require.Equal(t, a.ID, t.object("a").IntentID)
	}},
}

// replaced checks that the object has taken the place of the old one, whose
// blob is retired, and none beside it.
func (t *rowTest) replaced(old, now store.Object) {
	t.Helper()
	require.Greater(t, now.Version, old.Version)
	require.Equal(t, old.CreatedAt, now.CreatedAt)
	require.Equal(t, normalObject(now), t.object(now.Key))
	require.Equal(t, []string{old.Blob.Name}, t.retiredNames())
}

// deletingTx removes the object in a transaction that it leaves open.
func (t *rowTest) deletingTx(key string) Tx {
	t.Helper()
	tx := t.begin()
	_, err := tx.DeleteObject(t.ctx, store.DeleteParams{Key: key, If: store.Always(), ReadGrace: readGrace})
	require.NoError(t, err)
	return tx
}
