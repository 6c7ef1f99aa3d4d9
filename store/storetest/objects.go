package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

const randomMask = 1<<store.RandomBits - 1

// followsRule checks that next is max(before + 1, fresh) for the random bits
// and a clock near at.
func (t *rowTest) followsRule(before, next store.Version, random uint32, at time.Time) {
	t.Helper()
	if before != 0 && next == before+1 {
		return
	}
	require.Equal(t, random, uint32(next&randomMask), "the low bits are the caller's")
	t.near(at, time.UnixMilli(int64(next>>store.RandomBits)))
	require.Greater(t, next, before)
}

var versionCases = []rowCase{
	{"Version/of a new object is the clock and the caller's random bits", func(t *rowTest) {
		for _, random := range []uint32{0, 1, randomMask} {
			in := t.insert("k")
			p := t.upload(in)
			p.Random = random
			objects, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
			require.NoError(t, err)
			t.followsRule(0, objects[0].Version, random, in.CreatedAt)
			t.remove("k")
		}
	}},
	{"Version/follows the clock and the caller's random bits where they are ahead", func(t *rowTest) {
		o := t.put("k")
		t.Advance(time.Minute)
		p := t.upload(t.insert("k"))
		objects, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
		require.NoError(t, err)
		require.NotEqual(t, o.Version+1, objects[0].Version)
		t.followsRule(o.Version, objects[0].Version, p.Random, o.CreatedAt.Add(time.Minute))
		o = objects[0]
		t.Advance(time.Minute)
		m := store.MetadataParams{Key: "k", If: store.Always(), Random: t.random()}
		next, err := t.rows.SetObjectMetadata(t.ctx, m)
		require.NoError(t, err)
		require.NotEqual(t, o.Version+1, next.Version)
		t.followsRule(o.Version, next.Version, m.Random, o.UpdatedAt.Add(time.Minute))
	}},
	{"Version/grows with every change, whatever the random bits", func(t *rowTest) {
		at := t.insert("k").CreatedAt
		last := store.Version(0)
		for i := range 30 {
			p := t.upload(t.insert("k"))
			p.Random = uint32(30-i) % 7 // mostly smaller than the one before
			objects, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
			require.NoError(t, err)
			t.followsRule(last, objects[0].Version, p.Random, at)
			m := store.MetadataParams{Key: "k", If: store.IfVersion(objects[0].Version)}
			o, err := t.rows.SetObjectMetadata(t.ctx, m)
			require.NoError(t, err)
			t.followsRule(objects[0].Version, o.Version, 0, at)
			last = o.Version
		}
	}},
	{"Version/never repeats in a loop of create and delete", func(t *rowTest) {
		seen := make(map[store.Version]bool)
		for range 60 {
			o := t.put("k")
			require.False(t, seen[o.Version], "version %s came again", o.Version)
			seen[o.Version] = true
			t.remove("k")
		}
	}},
	{"Version/never repeats in a loop inside one transaction", func(t *rowTest) {
		var uploads []store.CommitParams
		for range 30 {
			uploads = append(uploads, t.upload(t.insert("k")))
		}
		tx := t.begin()
		seen := make(map[store.Version]bool)
		for _, p := range uploads {
			objects, err := tx.CommitObjects(t.ctx, []store.CommitParams{p})
			require.NoError(t, err)
			require.False(t, seen[objects[0].Version], "version %s came again", objects[0].Version)
			seen[objects[0].Version] = true
			_, err = tx.DeleteObject(t.ctx, store.DeleteParams{Key: "k", If: store.IfVersion(objects[0].Version), ReadGrace: readGrace})
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		t.noObject("k")
		require.Len(t, t.retiredNames(), len(uploads))
	}},
}

// change is DeleteObject or SetObjectMetadata under a condition.
type change func(want store.Condition) (store.Object, error)

func (t *rowTest) deleting(key string) change {
	return func(want store.Condition) (store.Object, error) {
		return t.rows.DeleteObject(t.ctx, store.DeleteParams{Key: key, If: want, ReadGrace: readGrace})
	}
}

func (t *rowTest) describing(key string) change {
	return func(want store.Condition) (store.Object, error) {
		p := store.MetadataParams{Key: key, If: want, Metadata: map[string]string{"new": "1"}, Random: t.random()}
		return t.rows.SetObjectMetadata(t.ctx, p)
	}
}

// refusals checks what a change answers where its condition does not hold.
func (t *rowTest) refusals(do func(key string) change) {
	t.Helper()
	old := t.put("k").Version
	o := normalObject(t.put("k"))
	_, err := do("k")(store.IfVersion(old, o.Version+1))
	require.Equal(t, &store.ConflictError{Key: "k", Want: store.IfVersion(old, o.Version+1), Current: &o}, t.conflict(err))
	require.Equal(t, o, t.object("k"))
	for _, want := range []store.Condition{store.IfExists(), store.IfVersion(old)} {
		_, err := do("absent")(want)
		require.Equal(t, &store.ConflictError{Key: "absent", Want: want, Deleted: true}, t.conflict(err))
	}
	_, err = do("absent")(store.Always())
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NotErrorIs(t, err, store.ErrConflict)
	for _, want := range []store.Condition{store.IfAbsent(), store.IfVersion(0)} {
		for _, key := range []string{"k", "absent"} {
			_, err := do(key)(want)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
	}
	require.Equal(t, o, t.object("k"))
	t.noObject("absent")
}

var deleteCases = []rowCase{
	{"Delete/removes the object and returns it", func(t *rowTest) {
		o := t.put("k")
		got, err := t.deleting("k")(store.Always())
		require.NoError(t, err)
		require.Equal(t, normalObject(o), normalObject(got))
		t.noObject("k")
	}},
	{"Delete/records the blob as retired, once, due after the read grace", func(t *rowTest) {
		o := t.put("k")
		t.remove("k")
		require.Empty(t, t.claim().Retired)
		t.Advance(readGrace + slack)
		retired := t.claim().Retired
		require.Len(t, retired, 1)
		require.Equal(t, o.Blob.Name, retired[0].BlobName)
		require.Equal(t, o.IntentID, retired[0].IntentID)
	}},
	{"Delete/without a read grace is due at once", func(t *rowTest) {
		o := t.put("k")
		_, err := t.rows.DeleteObject(t.ctx, store.DeleteParams{Key: "k", If: store.Always()})
		require.NoError(t, err)
		retired := t.claim().Retired
		require.Len(t, retired, 1)
		require.Equal(t, o.Blob.Name, retired[0].BlobName)
	}},
	{"Delete/takes place under every condition that holds", func(t *rowTest) {
		for _, want := range []func(store.Version) store.Condition{
			func(store.Version) store.Condition { return store.Always() },
			func(store.Version) store.Condition { return store.IfExists() },
			func(v store.Version) store.Condition { return store.IfVersion(v) },
			func(v store.Version) store.Condition { return store.IfVersion(v+1, v-1, v) },
		} {
			_, err := t.deleting("k")(want(t.put("k").Version))
			require.NoError(t, err)
			t.noObject("k")
		}
	}},
	{"Delete/is refused where its condition does not hold", func(t *rowTest) {
		t.refusals(t.deleting)
		require.Len(t, t.retiredNames(), 1) // of the replace
	}},
	{"Delete/again cannot remove a later object", func(t *rowTest) {
		o := t.put("k")
		remove := t.deleting("k")
		_, err := remove(store.IfVersion(o.Version))
		require.NoError(t, err)
		later := t.put("k")
		_, err = remove(store.IfVersion(o.Version))
		require.ErrorIs(t, err, store.ErrConflict)
		require.Equal(t, normalObject(later), t.object("k"))
	}},
}

var metadataCases = []rowCase{
	{"SetMetadata/replaces the metadata under a new version and nothing else", func(t *rowTest) {
		before := t.commit(t.insert("k", func(p *store.InsertParams) { p.Metadata = map[string]string{"old": "1"} }))
		t.Advance(time.Minute)
		got, err := t.describing("k")(store.Always())
		require.NoError(t, err)
		want := before
		want.Version, want.UpdatedAt = got.Version, got.UpdatedAt
		want.Metadata = map[string]string{"new": "1"}
		require.Equal(t, want, got)
		require.Greater(t, got.Version, before.Version)
		t.near(before.UpdatedAt.Add(time.Minute), got.UpdatedAt)
		require.Equal(t, got, t.object("k"))
		require.Empty(t, t.retiredNames())
	}},
	{"SetMetadata/takes place under every condition that holds", func(t *rowTest) {
		v := t.put("k").Version
		for _, want := range []func(store.Version) store.Condition{
			func(store.Version) store.Condition { return store.Always() },
			func(store.Version) store.Condition { return store.IfExists() },
			func(v store.Version) store.Condition { return store.IfVersion(v) },
			func(v store.Version) store.Condition { return store.IfVersion(v+1, v-1, v) },
		} {
			o, err := t.describing("k")(want(v))
			require.NoError(t, err)
			require.Greater(t, o.Version, v)
			v = o.Version
		}
	}},
	{"SetMetadata/is refused where its condition does not hold", func(t *rowTest) { t.refusals(t.describing) }},
	{"SetMetadata/again finds its own success in the conflict", func(t *rowTest) {
		o := t.put("k")
		t.Advance(time.Second) // so that the clock is ahead of the object
		p := store.MetadataParams{Key: "k", If: store.IfVersion(o.Version), Metadata: map[string]string{"a": "1"}, Random: t.random()}
		first, err := t.rows.SetObjectMetadata(t.ctx, p)
		require.NoError(t, err)
		_, err = t.rows.SetObjectMetadata(t.ctx, p)
		current := t.conflict(err).Current
		require.Equal(t, &first, current)
		require.Equal(t, p.Random, uint32(current.Version&randomMask))
	}},
	{"SetMetadata/can take all of it away", func(t *rowTest) {
		t.commit(t.insert("k", func(p *store.InsertParams) { p.Metadata = map[string]string{"old": "1"} }))
		o, err := t.rows.SetObjectMetadata(t.ctx, store.MetadataParams{Key: "k", If: store.Always(), Random: t.random()})
		require.NoError(t, err)
		require.Empty(t, o.Metadata)
		require.Empty(t, t.object("k").Metadata)
	}},
}
