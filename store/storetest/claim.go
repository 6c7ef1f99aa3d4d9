package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func ids(intents []store.Intent) []string {
	out := []string{}
	for _, in := range intents {
		out = append(out, in.ID)
	}
	return out
}

// claimed takes the only intent that is due.
func (t *rowTest) claimed() store.Intent {
	t.Helper()
	c := t.claim()
	require.Len(t, c.Intents, 1)
	return c.Intents[0]
}

var claimCases = []rowCase{
	{"Claim/turns an upload that is due into abandoned", func(t *rowTest) {
		before := t.insert("k", idempotent("request-1"))
		t.heartbeat(before)
		t.Advance(ttl + slack)
		c := t.claim()
		require.Len(t, c.Intents, 1)
		got := c.Intents[0]
		want := before
		want.State = store.Abandoned
		want.Version++
		want.IdempotencyKey = ""
		want.Attempts = 1
		want.Beats = 1
		want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
		require.Equal(t, normal(want), normal(got))
		t.near(c.Now.Add(lease), got.DueAt)
		require.Equal(t, normal(got), t.intent(got.ID))
		require.Empty(t, c.Retired)
		t.insert("k", idempotent("request-1")) // its key is free
	}},
	{"Claim/fences the commit", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(ttl + slack)
		t.claim()
		_, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
		require.ErrorIs(t, err, store.ErrIntentLost)
		t.noObject("k")
	}},
	{"Claim/fences the holder", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(ttl + slack)
		got := normal(t.claimed())
		require.Equal(t, store.Abandoned, got.State)
		require.Equal(t, got, normal(t.heartbeat(in)))
		require.Equal(t, got, normal(t.takeOver(in, in.Holder)))
		require.Equal(t, got, t.intent(in.ID))
	}},
	{"Claim/tells the database's clock", func(t *rowTest) {
		in := t.insert("k")
		t.Advance(time.Hour)
		c := t.claim()
		t.near(in.CreatedAt.Add(time.Hour), c.Now)
		require.Equal(t, time.UTC, c.Now.Location())
	}},
	{"Claim/leaves alone what is not due", func(t *rowTest) {
		uploading, sealing := t.insert("k"), t.inState(store.Sealing)
		t.put("replaced")
		t.put("replaced") // sealing too, and a retired name
		t.Advance(readGrace - slack)
		c := t.claim()
		require.Empty(t, c.Intents)
		require.Empty(t, c.Retired)
		require.Equal(t, normal(uploading), t.intent(uploading.ID))
		require.Equal(t, sealing, t.intent(sealing.ID))
	}},
	{"Claim/of an abandoned intent counts an attempt and changes no state", func(t *rowTest) {
		before := t.inState(store.Abandoned)
		for attempt := 1; attempt <= 2; attempt++ {
			got := t.claimed()
			want := before
			want.Attempts = attempt
			want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
			require.Equal(t, want, normal(got))
			require.Equal(t, normal(got), t.intent(got.ID))
			t.Advance(lease + slack)
		}
	}},
	{"Claim/of a sealing intent counts an attempt and changes no state", func(t *rowTest) {
		before := t.inState(store.Sealing)
		t.Advance(sealIn + slack)
		for attempt := 1; attempt <= 2; attempt++ {
			got := t.claimed()
			want := before
			want.Attempts = attempt
			want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
			require.Equal(t, want, normal(got))
			require.Equal(t, normal(got), t.intent(got.ID))
			t.Advance(lease + slack)
		}
	}},
	{"Claim/begins to count anew for what it abandoned", func(t *rowTest) {
		t.insert("k")
		t.Advance(ttl + slack)
		require.Equal(t, 1, t.claimed().Attempts)
		t.Advance(lease + slack)
		require.Equal(t, 2, t.claimed().Attempts)
	}},
	{"Claim/hands an intent out once until its lease ends", func(t *rowTest) {
		t.inState(store.Abandoned)
		first := t.claimed()
		require.Empty(t, t.claim().Intents)
		t.Advance(lease - slack)
		require.Empty(t, t.claim().Intents)
		t.Advance(2 * slack)
		require.Equal(t, first.ID, t.claimed().ID)
	}},
	{"Claim/hands a retired name out once until its lease ends", func(t *rowTest) {
		t.put("k")
		t.remove("k")
		t.Advance(readGrace + slack)
		first := t.claim()
		require.Len(t, first.Retired, 1)
		require.Equal(t, 1, first.Retired[0].Attempts)
		t.near(first.Now.Add(lease), first.Retired[0].DueAt)
		require.Empty(t, t.claim().Retired)
		t.Advance(lease - slack)
		require.Empty(t, t.claim().Retired)
		t.Advance(2 * slack)
		second := t.claim().Retired
		require.Len(t, second, 1)
		require.Equal(t, first.Retired[0].BlobName, second[0].BlobName)
		require.Equal(t, 2, second[0].Attempts)
		require.True(t, second[0].DueAt.After(first.Retired[0].DueAt))
	}},
	{"Claim/takes the longest due first, as many as the limit of each", func(t *rowTest) {
		var want []string
		for range 5 {
			want = append(want, t.inState(store.Abandoned).ID)
			t.put("k")
			t.remove("k")
			t.Advance(time.Second)
		}
		t.Advance(readGrace) // before the seals are due
		var got []string
		for _, n := range []int{2, 2, 1, 0} {
			c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 2, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, c.Intents, n)
			require.Len(t, c.Retired, n)
			require.Subset(t, want[len(got):min(len(got)+n, len(want))], ids(c.Intents))
			got = append(got, ids(c.Intents)...)
		}
		require.ElementsMatch(t, want, got)
	}},
	{"Claim/until a moment takes only what was due then", func(t *rowTest) {
		early := t.inState(store.Abandoned)
		until := t.intent(early.ID).DueAt
		t.Advance(time.Minute)
		late := t.inState(store.Abandoned)
		t.Advance(time.Minute)
		c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 10, Lease: lease, Until: until})
		require.NoError(t, err)
		require.Equal(t, []string{early.ID}, ids(c.Intents))
		require.Equal(t, []string{late.ID}, ids(t.claim().Intents))
	}},
	{"Claim/until a moment to come takes nothing that is not due", func(t *rowTest) {
		in := t.insert("k")
		c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 10, Lease: lease, Until: in.DueAt.Add(time.Hour)})
		require.NoError(t, err)
		require.Empty(t, c.Intents)
		require.Equal(t, normal(in), t.intent(in.ID))
	}},
	{"Claim/never hands out what is held or done", func(t *rowTest) {
		held, done := t.inState(store.Held), t.inState(store.Done)
		t.Advance(1000 * time.Hour)
		require.Empty(t, t.claim().Intents)
		require.Equal(t, held, t.intent(held.ID))
		require.Equal(t, done, t.intent(done.ID))
	}},
}

// forgetAll seals and forgets every commit; what is due else is claimed.
func (t *rowTest) forgetAll() {
	t.Helper()
	t.Advance(sealIn + slack)
	for _, in := range t.claim().Intents {
		if in.State == store.Sealing {
			t.settle(store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToDone})
		}
	}
	_, err := t.rows.Forget(t.ctx, 1000)
	require.NoError(t, err)
}

func (t *rowTest) forget(limit int) int {
	t.Helper()
	n, err := t.rows.Forget(t.ctx, limit)
	require.NoError(t, err)
	return n
}

var forgetCases = []rowCase{
	{"Forget/deletes what is done and due, as many as the limit", func(t *rowTest) {
		for range 5 {
			t.inState(store.Done)
		}
		require.Zero(t, t.forget(10))
		t.Advance(time.Hour + slack)
		require.Equal(t, 2, t.forget(2))
		require.Equal(t, 2, t.forget(2))
		require.Equal(t, 1, t.forget(2))
		require.Zero(t, t.forget(2))
	}},
	{"Forget/keeps the object, and sets the idempotency key free", func(t *rowTest) {
		in := t.insert("k", idempotent("request-1"))
		o := normalObject(t.commit(in))
		t.settle(store.IntentSettlement{ID: in.ID, State: store.Sealing, Version: in.Version + 1, To: store.ToDone})
		require.Equal(t, 1, t.forget(10))
		t.noIntent(in.ID)
		require.Equal(t, o, t.object("k"))
		t.insert("k", idempotent("request-1"))
	}},
	{"Forget/keeps every other state", func(t *rowTest) {
		var kept []store.Intent
		for _, s := range []store.State{store.Uploading, store.Sealing, store.Abandoned, store.Held} {
			kept = append(kept, t.inState(s))
		}
		t.Advance(1000 * time.Hour)
		require.Zero(t, t.forget(10))
		for _, in := range kept {
			require.Equal(t, in, t.intent(in.ID))
		}
	}},
}
