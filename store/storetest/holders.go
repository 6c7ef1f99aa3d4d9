package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// settled are the states in which no holder can do anything any more.
var settled = []store.State{store.Sealing, store.Done, store.Abandoned, store.Held}

const nobody = "ffffffff-0000-4000-8000-000000000000"

func (t *rowTest) takeOver(in store.Intent, holder string) store.Intent {
	t.Helper()
	got, err := t.rows.TakeOver(t.ctx, store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: holder, TTL: ttl})
	require.NoError(t, err)
	return got
}

func (t *rowTest) heartbeat(in store.Intent) store.Intent {
	t.Helper()
	got, err := t.rows.Heartbeat(t.ctx, store.HeartbeatParams{ID: in.ID, Version: in.Version, TTL: ttl})
	require.NoError(t, err)
	return got
}

func (t *rowTest) abandon(in store.Intent, holder string) store.Intent {
	t.Helper()
	got, err := t.rows.Abandon(t.ctx, store.AbandonParams{ID: in.ID, Version: in.Version, Holder: holder})
	require.NoError(t, err)
	return got
}

var takeOverCases = []rowCase{
	{"TakeOver/makes the caller the holder", func(t *rowTest) {
		before := t.heartbeat(t.insert("k", idempotent("request-1")))
		t.Advance(ttl / 2)
		got := t.takeOver(before, "me")
		want := before
		want.Version++
		want.Holder = "me"
		want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
		require.Equal(t, normal(want), normal(got))
		t.near(before.CreatedAt.Add(ttl/2+ttl), got.DueAt)
		t.near(before.CreatedAt.Add(ttl/2), got.UpdatedAt)
		require.Equal(t, normal(got), t.intent(got.ID))
	}},
	{"TakeOver/again after a lost reply is won by its holder", func(t *rowTest) {
		in := t.insert("k")
		t.takeOver(in, "me")
		got := t.takeOver(in, "me") // at the version before its own success
		require.Equal(t, store.Uploading, got.State)
		require.Equal(t, "me", got.Holder)
		t.commit(got)
	}},
	{"TakeOver/at an earlier version by another changes nothing", func(t *rowTest) {
		in := t.insert("k")
		won := t.takeOver(in, "me")
		got := t.takeOver(in, "somebody else")
		require.Equal(t, normal(won), normal(got))
		require.Equal(t, normal(won), t.intent(in.ID))
	}},
	{"TakeOver/fences the commit of an earlier version", func(t *rowTest) {
		in := t.insert("k")
		won := t.takeOver(in, "me")
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
		require.ErrorIs(t, err, store.ErrTakenOver)
		t.noObject("k")
		t.commit(won)
	}},
	{"TakeOver/fences the heartbeat of an earlier version", func(t *rowTest) {
		in := t.insert("k")
		won := t.takeOver(in, "me")
		t.Advance(time.Minute)
		require.Equal(t, normal(won), normal(t.heartbeat(in)))
		require.Equal(t, normal(won), t.intent(in.ID))
	}},
	{"TakeOver/fences the abandon of an earlier version", func(t *rowTest) {
		in := t.insert("k")
		won := t.takeOver(in, "me")
		require.Equal(t, normal(won), normal(t.abandon(in, in.Holder)))
		require.Equal(t, normal(won), t.intent(in.ID))
	}},
	{"TakeOver/never moves the deadline beyond ExpiresAt", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(maxPending - ttl/2)
		got := t.takeOver(in, "me")
		require.Equal(t, store.Uploading, got.State)
		require.Equal(t, in.ExpiresAt, got.ExpiresAt)
		require.Equal(t, in.ExpiresAt, got.DueAt)
	}},
	{"TakeOver/of an intent that is not uploading changes nothing and says its state", func(t *rowTest) {
		for _, s := range settled {
			in := t.inState(s)
			require.Equal(t, in, normal(t.takeOver(in, "me")))
			require.Equal(t, in, normal(t.takeOver(in, in.Holder)))
			require.Equal(t, in, t.intent(in.ID))
		}
	}},
	{"TakeOver/of an unknown intent is ErrNotFound", func(t *rowTest) {
		_, err := t.rows.TakeOver(t.ctx, store.TakeOverParams{ID: nobody, Version: 1, Holder: "me", TTL: ttl})
		require.ErrorIs(t, err, store.ErrNotFound)
	}},
}

var heartbeatCases = []rowCase{
	{"Heartbeat/moves the deadline, counts a beat and changes nothing else", func(t *rowTest) {
		before := t.insert("k", idempotent("request-1"))
		for beat := range int64(2) {
			t.Advance(ttl / 2)
			got := t.heartbeat(before)
			want := before
			want.Beats, want.DueAt = beat+1, got.DueAt
			require.Equal(t, normal(want), normal(got))
			t.near(before.DueAt.Add(time.Duration(beat+1)*ttl/2), got.DueAt)
			require.Equal(t, normal(got), t.intent(before.ID))
		}
	}},
	{"Heartbeat/keeps the upload from being claimed", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(ttl / 2)
		in = t.heartbeat(in)
		t.Advance(ttl / 2)
		require.Empty(t, t.claim().Intents)
		require.Equal(t, normal(in), t.intent(in.ID))
	}},
	{"Heartbeat/never moves the deadline beyond ExpiresAt", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(maxPending - ttl/2)
		require.Equal(t, in.ExpiresAt, t.heartbeat(in).DueAt)
	}},
	{"Heartbeat/at another version changes nothing", func(t *rowTest) {
		before := t.insert("k")
		in := before
		in.Version++
		t.Advance(time.Minute)
		require.Equal(t, normal(before), normal(t.heartbeat(in)))
		require.Equal(t, normal(before), t.intent(in.ID))
	}},
	{"Heartbeat/of an intent that is not uploading changes nothing and says its state", func(t *rowTest) {
		for _, s := range settled {
			in := t.inState(s)
			require.Equal(t, in, normal(t.heartbeat(in)))
			require.Equal(t, in, t.intent(in.ID))
		}
	}},
	{"Heartbeat/of an unknown intent is ErrNotFound", func(t *rowTest) {
		_, err := t.rows.Heartbeat(t.ctx, store.HeartbeatParams{ID: nobody, Version: 1, TTL: ttl})
		require.ErrorIs(t, err, store.ErrNotFound)
	}},
}

var abandonCases = []rowCase{
	{"Abandon/makes it abandoned, due at once, its idempotency key free", func(t *rowTest) {
		before := t.insert("k", idempotent("request-1"))
		t.Advance(ttl / 2)
		got := t.abandon(before, "")
		want := before
		want.State = store.Abandoned
		want.Version++
		want.IdempotencyKey = ""
		want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
		require.Equal(t, normal(want), normal(got))
		t.near(before.CreatedAt.Add(ttl/2), got.DueAt)
		t.near(before.CreatedAt.Add(ttl/2), got.UpdatedAt)
		require.Equal(t, normal(got), t.intent(got.ID))
		require.Len(t, t.claim().Intents, 1)
		t.insert("k", idempotent("request-1")) // a fresh intent, not the old one
	}},
	{"Abandon/no commit can succeed any more", func(t *rowTest) {
		in := t.insert("k")
		got := t.abandon(in, "")
		for _, in := range []store.Intent{in, got} {
			_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
			require.ErrorIs(t, err, store.ErrIntentLost)
		}
		t.noObject("k")
	}},
	{"Abandon/at an earlier version succeeds for the holder", func(t *rowTest) {
		in := t.insert("k")
		t.takeOver(in, "me")
		require.Equal(t, store.Abandoned, t.abandon(in, "me").State)
	}},
	{"Abandon/at another version by another changes nothing", func(t *rowTest) {
		in := t.insert("k")
		won := normal(t.takeOver(in, "me"))
		for _, holder := range []string{"", "somebody else"} {
			require.Equal(t, won, normal(t.abandon(in, holder)))
			require.Equal(t, won, t.intent(in.ID))
		}
	}},
	{"Abandon/an empty holder is nobody's", func(t *rowTest) {
		in := t.insert("k", func(p *store.InsertParams) { p.Holder = "" })
		before := t.intent(in.ID)
		in.Version++
		require.Equal(t, before, normal(t.abandon(in, "")))
		require.Equal(t, before, t.intent(in.ID))
	}},
	{"Abandon/again changes nothing", func(t *rowTest) {
		in := t.insert("k")
		first := t.abandon(in, in.Holder)
		t.Advance(time.Minute)
		require.Equal(t, normal(first), normal(t.abandon(in, in.Holder)))
		require.Equal(t, normal(first), t.intent(in.ID))
	}},
	{"Abandon/of an intent that is not uploading changes nothing and says its state", func(t *rowTest) {
		for _, s := range settled {
			in := t.inState(s)
			require.Equal(t, in, normal(t.abandon(in, in.Holder)))
			require.Equal(t, in, t.intent(in.ID))
		}
	}},
	{"Abandon/of an unknown intent is ErrNotFound", func(t *rowTest) {
		_, err := t.rows.Abandon(t.ctx, store.AbandonParams{ID: nobody, Version: 1})
		require.ErrorIs(t, err, store.ErrNotFound)
	}},
}

var readCases = []rowCase{
	{"Check/is nil on a store that is ready", func(t *rowTest) {
		require.NoError(t, t.rows.Check(t.ctx))
	}},
	{"GetIntents/come in the order asked for, without those that do not exist", func(t *rowTest) {
		a, b, c := t.insert("k"), t.insert("k"), t.insert("k")
		intents, err := t.rows.GetIntents(t.ctx, []string{c.ID, nobody, a.ID, b.ID})
		require.NoError(t, err)
		require.Len(t, intents, 3)
		require.Equal(t, []string{c.ID, a.ID, b.ID}, []string{intents[0].ID, intents[1].ID, intents[2].ID})
	}},
	{"GetIntents/of none are none", func(t *rowTest) {
		t.insert("k")
		intents, err := t.rows.GetIntents(t.ctx, nil)
		require.NoError(t, err)
		require.Empty(t, intents)
	}},
	{"GetIntents/takes thousands of ids", func(t *rowTest) {
		a, b := t.insert("k"), t.insert("k")
		ids := []string{b.ID}
		for range 3000 {
			ids = append(ids, t.insertParams("k").ID)
		}
		intents, err := t.rows.GetIntents(t.ctx, append(ids, a.ID))
		require.NoError(t, err)
		require.Len(t, intents, 2)
		require.Equal(t, []string{b.ID, a.ID}, []string{intents[0].ID, intents[1].ID})
	}},
	{"GetObject/of an absent key is ErrNotFound", func(t *rowTest) {
		t.put("k")
		t.noObject("absent")
	}},
	{"GetObject/sees every commit that was reported", func(t *rowTest) {
		for range 20 {
			o := normalObject(t.put("k"))
			require.Equal(t, o, t.object("k"))
		}
		t.remove("k")
		t.noObject("k")
	}},
}
