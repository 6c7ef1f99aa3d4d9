package storetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

var commitCases = []rowCase{
	{"Commit/makes the object visible as promised", func(t *rowTest) {
		in := t.insert("k", func(p *store.InsertParams) { p.Metadata = map[string]string{"a": "1"} })
		t.Advance(time.Minute)
		p := t.upload(in)
		objects, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
		require.NoError(t, err)
		require.Len(t, objects, 1)
		o := objects[0]
		want := store.Object{
			Key: "k", Version: o.Version, Blob: p.Blob, IntentID: in.ID, Metadata: map[string]string{"a": "1"},
			CreatedAt: o.CreatedAt, UpdatedAt: o.CreatedAt,
		}
		want.Blob.Name = in.BlobName
		require.Equal(t, want, o)
		t.near(in.CreatedAt.Add(time.Minute), o.CreatedAt)
		require.Equal(t, time.UTC, o.CreatedAt.Location())
		require.Equal(t, o.CreatedAt.Truncate(time.Microsecond), o.CreatedAt)
		require.Equal(t, o, t.object("k"))
	}},
	{"Commit/sets the intent sealing with its result", func(t *rowTest) {
		in := t.insert("k", idempotent("request-1"))
		t.Advance(time.Minute)
		o := t.commit(in)
		got := t.intent(in.ID)
		want := in
		want.State = store.Sealing
		want.Version++
		want.Result = &o
		want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
		require.Equal(t, normal(want), got)
		t.near(in.CreatedAt.Add(time.Minute+sealIn), got.DueAt)
		t.near(in.CreatedAt.Add(time.Minute), got.UpdatedAt)
	}},
	{"Commit/the result stays what it was when the object moves on", func(t *rowTest) {
		in := t.insert("k")
		o := t.commit(in)
		t.put("k")
		require.Equal(t, normalObject(o), *t.intent(in.ID).Result)
		t.remove("k")
		require.Equal(t, normalObject(o), *t.intent(in.ID).Result)
	}},
	{"Commit/facts of the bytes come back as they were", func(t *rowTest) {
		for _, facts := range []store.Blob{
			{ETag: `"0x8DCA5B2F4E7C0A1"`, Size: 1<<33 + 1, SHA256: strings.Repeat("0f", 32), ContentType: `text/plain; charset="utf-8"`},
			{ETag: `W/"weak 'and' \ odd"`, Size: 190<<40 + 7, SHA256: strings.Repeat("ff", 32), ContentType: strings.Repeat("x", store.MaxContentType)},
			{ETag: `unquoted`, Size: 0, SHA256: "", ContentType: ""},
		} {
			in := t.insert("k")
			p := t.upload(in)
			p.Blob = facts
			_, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
			require.NoError(t, err)
			facts.Name = in.BlobName
			require.Equal(t, facts, t.object("k").Blob)
			require.Equal(t, facts, t.intent(in.ID).Result.Blob)
		}
	}},
	{"Commit/takes the name of the blob from the intent", func(t *rowTest) {
		in := t.insert("k")
		p := t.upload(in)
		p.Blob.Name = "another"
		objects, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
		require.NoError(t, err)
		require.Equal(t, in.BlobName, objects[0].Blob.Name)
		require.Equal(t, in.BlobName, t.object("k").Blob.Name)
	}},
	{"Commit/a replaced object keeps its creation and changes the rest", func(t *rowTest) {
		first := t.put("k")
		t.Advance(time.Hour)
		in := t.insert("k", func(p *store.InsertParams) { p.Metadata = map[string]string{"b": "2"} })
		second := t.commit(in)
		require.Equal(t, first.CreatedAt, second.CreatedAt)
		t.near(first.UpdatedAt.Add(time.Hour), second.UpdatedAt)
		require.Greater(t, second.Version, first.Version)
		require.Equal(t, in.BlobName, second.Blob.Name)
		require.Equal(t, in.ID, second.IntentID)
		require.Equal(t, map[string]string{"b": "2"}, second.Metadata)
		require.Equal(t, second, t.object("k"))
	}},
	{"Commit/records the replaced blob as retired, once, due after the read grace", func(t *rowTest) {
		first := t.put("k")
		in := t.insert("k")
		second := t.commit(in)
		require.Empty(t, t.claim().Retired)
		t.Advance(readGrace + slack)
		retired := t.claim().Retired
		require.Len(t, retired, 1)
		require.Equal(t, first.Blob.Name, retired[0].BlobName)
		require.Equal(t, first.IntentID, retired[0].IntentID)
		require.Equal(t, second.Version, t.object("k").Version)
	}},
	{"Commit/a new object retires nothing", func(t *rowTest) {
		t.put("k")
		require.Empty(t, t.retiredNames())
	}},
	{"Commit/again is ErrAlreadyCommitted and changes nothing", func(t *rowTest) {
		for _, s := range []store.State{store.Sealing, store.Done} {
			in := t.inState(s)
			o := t.object(in.Key)
			for _, version := range []int64{in.Version - 1, in.Version} {
				p := t.upload(in)
				p.Version = version
				_, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
				require.ErrorIs(t, err, store.ErrAlreadyCommitted)
			}
			require.Equal(t, in, t.intent(in.ID))
			require.Equal(t, o, t.object(in.Key))
		}
		require.Empty(t, t.retiredNames())
	}},
	{"Commit/of an abandoned intent is ErrIntentLost", func(t *rowTest) {
		in := t.inState(store.Abandoned)
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
		require.ErrorIs(t, err, store.ErrIntentLost)
		require.Equal(t, in, t.intent(in.ID))
		t.noObject(in.Key)
	}},
	{"Commit/after ExpiresAt is ErrIntentLost, though nobody has claimed it", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(maxPending + time.Second)
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
		require.ErrorIs(t, err, store.ErrIntentLost)
		require.Equal(t, normal(in), t.intent(in.ID))
		t.noObject("k")
	}},
	{"Commit/after the deadline succeeds as long as nobody has claimed it", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(ttl + slack)
		t.commit(in)
		require.Empty(t, t.claim().Intents)
	}},
	{"Commit/of an intent that is gone is ErrIntentLost", func(t *rowTest) {
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(store.Intent{ID: nobody, Version: 1, Key: "k"}))
		require.ErrorIs(t, err, store.ErrIntentLost)
		t.noObject("k")
	}},
	{"Commit/at another version is ErrTakenOver", func(t *rowTest) {
		in := t.insert("k")
		for _, version := range []int64{in.Version - 1, in.Version + 1} {
			p := t.upload(in)
			p.Version = version
			_, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
			require.ErrorIs(t, err, store.ErrTakenOver)
		}
		require.Equal(t, normal(in), t.intent(in.ID))
		t.noObject("k")
	}},
	{"Commit/of a held intent is ErrHeld", func(t *rowTest) {
		in := t.inState(store.Held)
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
		require.ErrorIs(t, err, store.ErrHeld)
		require.Equal(t, in, t.intent(in.ID))
		t.noObject(in.Key)
	}},
	{"Commit/several uploads become visible, in the order asked for", func(t *rowTest) {
		old := t.put("b")
		intents := []store.Intent{t.insert("c"), t.insert("a"), t.insert("b")}
		objects, err := t.rows.CommitObjects(t.ctx, t.uploads(intents...))
		require.NoError(t, err)
		require.Len(t, objects, 3)
		for i, in := range intents {
			require.Equal(t, in.Key, objects[i].Key)
			require.Equal(t, in.ID, objects[i].IntentID)
			require.Equal(t, normalObject(objects[i]), t.object(in.Key))
			require.Equal(t, store.Sealing, t.intent(in.ID).State)
			require.Equal(t, normalObject(objects[i]), *t.intent(in.ID).Result)
		}
		require.Equal(t, []string{old.Blob.Name}, t.retiredNames())
	}},
	{"Commit/of several uploads is all or none when one is in conflict", func(t *rowTest) {
		bad := t.insert("z", expecting(store.IfAbsent()))
		t.put("z")
		err := t.noneOfThree(bad)
		require.Equal(t, "z", t.conflict(err).Key)
	}},
	{"Commit/of several uploads is all or none when one is lost", func(t *rowTest) {
		bad := t.abandon(t.insert("z"), "")
		err := t.noneOfThree(bad)
		require.ErrorIs(t, err, store.ErrIntentLost)
	}},
}

// noneOfThree commits a new object, a replacement and the bad upload together
// and checks that nothing is left of the first two.
func (t *rowTest) noneOfThree(bad store.Intent) error {
	t.Helper()
	before := normalObject(t.put("b"))
	a, b := t.insert("a"), t.insert("b")
	t.claim() // what is due already is none of the case's
	_, err := t.rows.CommitObjects(t.ctx, t.uploads(b, bad, a))
	require.Error(t, err)
	require.Equal(t, normal(a), t.intent(a.ID))
	require.Equal(t, normal(b), t.intent(b.ID))
	require.Equal(t, before, t.object("b"))
	t.noObject("a")
	require.NotContains(t, t.retiredNames(), before.Blob.Name)
	return err
}

var conditionCases = []rowCase{
	{"Commit/under Always creates and replaces", func(t *rowTest) {
		require.NoError(t, t.attempt(t.insert("k")))
		require.NoError(t, t.attempt(t.insert("k")))
		in := t.insert("k")
		t.remove("k")
		require.NoError(t, t.attempt(in))
	}},
	{"Commit/under IfAbsent creates", func(t *rowTest) {
		require.NoError(t, t.attempt(t.insert("k", expecting(store.IfAbsent()))))
		t.remove("k")
		require.NoError(t, t.attempt(t.insert("k", expecting(store.IfAbsent()))))
	}},
	{"Commit/a wrong hint decides nothing", func(t *rowTest) {
		commit := func(in store.Intent) error {
			p := t.upload(in)
			p.Creates = !p.Creates
			_, err := t.rows.CommitObjects(t.ctx, []store.CommitParams{p})
			return err
		}
		v := t.put("there").Version
		for _, cond := range []store.Condition{store.IfVersion(v), store.IfExists(), store.Always()} {
			in := t.insert("there", expecting(cond))
			require.NoError(t, commit(in), "%s", cond)
			require.Equal(t, in.ID, t.object("there").IntentID)
		}
		late := t.insert("new", expecting(store.IfAbsent()))
		require.NoError(t, commit(t.insert("new", expecting(store.IfAbsent()))))
		require.ErrorIs(t, commit(late), store.ErrExists)
		require.NoError(t, commit(t.insert("fresh", expecting(store.Always()))))
	}},
	{"Commit/a second creator is refused", func(t *rowTest) {
		first, second := t.insert("k", expecting(store.IfAbsent())), t.insert("k", expecting(store.IfAbsent()))
		t.commit(first)
		require.ErrorIs(t, t.attempt(second), store.ErrExists)
	}},
	{"Commit/under IfExists replaces what is there", func(t *rowTest) {
		t.put("k")
		in := t.insert("k", expecting(store.IfExists()))
		t.put("k")
		require.NoError(t, t.attempt(in))
	}},
	{"Commit/under IfExists of what was deleted is refused", func(t *rowTest) {
		t.put("k")
		in := t.insert("k", expecting(store.IfExists()))
		t.remove("k")
		require.ErrorIs(t, t.attempt(in), store.ErrNotFound)
	}},
	{"Commit/under the version that it has replaces", func(t *rowTest) {
		o := t.put("k")
		in := t.insert("k", expecting(store.IfVersion(o.Version)))
		require.NoError(t, t.attempt(in))
		o = t.object("k")
		in = t.insert("k", expecting(store.IfVersion(o.Version-1, o.Version, o.Version+1)))
		require.NoError(t, t.attempt(in))
	}},
	{"Commit/under a version that it had is refused", func(t *rowTest) {
		in := t.insert("k", expecting(store.IfVersion(t.put("k").Version)))
		t.put("k")
		err := t.attempt(in)
		require.ErrorIs(t, err, store.ErrConflict)
		require.NotErrorIs(t, err, store.ErrNotFound)
	}},
	{"Commit/under a version of what was deleted is refused", func(t *rowTest) {
		in := t.insert("k", expecting(store.IfVersion(t.put("k").Version)))
		t.remove("k")
		require.ErrorIs(t, t.attempt(in), store.ErrNotFound)
	}},
	{"Commit/under a version of what was deleted and made again is refused", func(t *rowTest) {
		in := t.insert("k", expecting(store.IfVersion(t.put("k").Version)))
		t.remove("k")
		t.put("k")
		require.ErrorIs(t, t.attempt(in), store.ErrConflict)
	}},
}

// attempt commits one upload. A conflict is checked to have its facts and to
// leave the intent and the object as they were.
func (t *rowTest) attempt(in store.Intent) error {
	t.Helper()
	var before *store.Object
	if o, err := t.rows.GetObject(t.ctx, in.Key); err == nil {
		o = normalObject(o)
		before = &o
	}
	_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
	if err == nil {
		require.Equal(t, in.ID, t.object(in.Key).IntentID)
		return nil
	}
	require.Equal(t, &store.ConflictError{Key: in.Key, Want: in.Expect, Current: before, Deleted: before == nil}, t.conflict(err))
	require.Equal(t, normal(in), t.intent(in.ID))
	if before == nil {
		t.noObject(in.Key)
	} else {
		require.Equal(t, *before, t.object(in.Key))
	}
	return err
}
