package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// settlement is a compare-and-set on the intent as it is.
func settlement(in store.Intent, to store.Verdict) store.IntentSettlement {
	return store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: to, In: time.Hour, Err: "why"}
}

// claimedIn brings an intent into the state and claims it, at a time when its
// lease is long over.
func (t *rowTest) claimedIn(s store.State) store.Intent {
	t.Helper()
	t.inState(s)
	t.Advance(sealIn + slack)
	in := normal(t.claimed())
	require.Equal(t, s, in.State)
	require.Equal(t, 1, in.Attempts)
	return in
}

// verdicts are what may become of a state.
var verdicts = map[store.State][]store.Verdict{
	store.Sealing:   {store.ToDone, store.ToRetry, store.ToHeld},
	store.Abandoned: {store.ToWatch, store.ToGone, store.ToRetry, store.ToHeld},
}

func (t *rowTest) settleAll(s ...store.IntentSettlement) int {
	t.Helper()
	n, err := t.rows.SettleIntents(t.ctx, s)
	require.NoError(t, err)
	return n
}

var settleCases = []rowCase{
	{"Settle/to done ends sealing, for an inline seal too", func(t *rowTest) {
		for _, in := range []store.Intent{t.claimedIn(store.Sealing), t.inState(store.Sealing)} {
			s := settlement(in, store.ToDone)
			s.Err = ""
			require.Equal(t, 1, t.settleAll(s))
			got := t.intent(in.ID)
			want := in
			want.State, want.Attempts = store.Done, 0
			want.Version++
			want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
			require.Equal(t, want, got)
			t.near(t.claim().Now.Add(time.Hour), got.DueAt)
		}
	}},
	{"Settle/to watch keeps an abandoned intent for later", func(t *rowTest) {
		in := t.claimedIn(store.Abandoned)
		s := settlement(in, store.ToWatch)
		s.Err = ""
		require.Equal(t, 1, t.settleAll(s))
		got := t.intent(in.ID)
		want := in
		want.Watched, want.Attempts = true, 0
		want.Version++
		want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
		require.Equal(t, want, got)
		require.Empty(t, t.claim().Intents)
		t.Advance(time.Hour + slack)
		again := t.claimed()
		require.True(t, again.Watched)
		require.Equal(t, 1, again.Attempts)
	}},
	{"Settle/to gone deletes the row", func(t *rowTest) {
		in := t.claimedIn(store.Abandoned)
		require.Equal(t, 1, t.settleAll(settlement(in, store.ToGone)))
		t.noIntent(in.ID)
	}},
	{"Settle/to retry notes the error and comes round again", func(t *rowTest) {
		for s := range verdicts {
			in := t.claimedIn(s)
			require.Equal(t, 1, t.settleAll(settlement(in, store.ToRetry)))
			got := t.intent(in.ID)
			want := in
			want.LastError = "why"
			want.DueAt, want.UpdatedAt = got.DueAt, got.UpdatedAt
			require.Equal(t, want, got)
			require.Empty(t, t.claim().Intents)
			t.Advance(time.Hour + slack)
			again := t.claimed()
			require.Equal(t, 2, again.Attempts)
			require.Equal(t, "why", again.LastError)
			require.Equal(t, 1, t.settleAll(settlement(again, store.ToHeld))) // out of the way of the next
		}
	}},
	{"Settle/to held notes the error and is never due again", func(t *rowTest) {
		for s := range verdicts {
			in := t.claimedIn(s)
			require.Equal(t, 1, t.settleAll(settlement(in, store.ToHeld)))
			got := t.intent(in.ID)
			require.Equal(t, store.Held, got.State)
			require.Equal(t, in.Version+1, got.Version)
			require.Equal(t, "why", got.LastError)
			require.Zero(t, got.DueAt)
			t.Advance(1000 * time.Hour)
			require.Empty(t, t.claim().Intents)
		}
	}},
	{"Settle/keeps the idempotency key of what was committed", func(t *rowTest) {
		for _, to := range verdicts[store.Sealing] {
			in := t.insert("k", idempotent(string(to)))
			t.commit(in)
			require.Equal(t, 1, t.settleAll(settlement(t.intent(in.ID), to)))
			require.Equal(t, string(to), t.intent(in.ID).IdempotencyKey)
		}
	}},
	{"Settle/at another version changes nothing", func(t *rowTest) {
		for s, all := range verdicts {
			before := t.inState(s)
			for _, to := range all {
				for _, version := range []int64{before.Version - 1, before.Version + 1} {
					in := before
					in.Version = version
					require.Zero(t, t.settleAll(settlement(in, to)), "%s at %d", to, version)
					require.Equal(t, before, t.intent(in.ID))
				}
			}
		}
	}},
	{"Settle/in another state changes nothing", func(t *rowTest) {
		for s, all := range verdicts {
			for _, is := range []store.State{store.Uploading, store.Sealing, store.Done, store.Abandoned, store.Held} {
				if is == s {
					continue
				}
				before := t.inState(is)
				in := before
				in.State = s
				for _, to := range all {
					require.Zero(t, t.settleAll(settlement(in, to)), "%s of %s", to, is)
					require.Equal(t, before, t.intent(in.ID))
				}
			}
		}
	}},
	{"Settle/again changes nothing", func(t *rowTest) {
		for _, to := range []store.Verdict{store.ToWatch, store.ToGone, store.ToHeld} {
			s := settlement(t.inState(store.Abandoned), to)
			require.Equal(t, 1, t.settleAll(s))
			after, err := t.rows.GetIntents(t.ctx, []string{s.ID})
			require.NoError(t, err)
			require.Zero(t, t.settleAll(s))
			again, err := t.rows.GetIntents(t.ctx, []string{s.ID})
			require.NoError(t, err)
			require.Equal(t, after, again)
		}
	}},
	{"Settle/of a batch takes what it can and says how many", func(t *rowTest) {
		good, other := t.inState(store.Sealing), t.inState(store.Abandoned)
		late := t.inState(store.Sealing)
		stale := late
		stale.Version--
		batch := []store.IntentSettlement{
			settlement(other, store.ToGone), settlement(stale, store.ToDone), settlement(good, store.ToDone),
		}
		for range 500 {
			batch = append(batch, store.IntentSettlement{ID: t.insertParams("k").ID, State: store.Sealing, Version: 2, To: store.ToDone})
		}
		require.Equal(t, 2, t.settleAll(batch...))
		require.Equal(t, store.Done, t.intent(good.ID).State)
		require.Equal(t, late, t.intent(late.ID))
		t.noIntent(other.ID)
	}},
	{"Settle/of nothing is nothing", func(t *rowTest) {
		require.Zero(t, t.settleAll())
		n, err := t.rows.SettleRetired(t.ctx, nil)
		require.NoError(t, err)
		require.Zero(t, n)
	}},
}

func (t *rowTest) settleRetired(r store.Retired, to store.Verdict) int {
	t.Helper()
	n, err := t.rows.SettleRetired(t.ctx, []store.RetiredSettlement{
		{BlobName: r.BlobName, DueAt: r.DueAt, To: to, In: time.Hour, Err: "why"},
	})
	require.NoError(t, err)
	return n
}

// claimedRetired makes a retired name and claims it.
func (t *rowTest) claimedRetired() store.Retired {
	t.Helper()
	t.put("k")
	t.remove("k")
	t.Advance(readGrace + slack)
	retired := t.claim().Retired
	require.Len(t, retired, 1)
	return retired[0]
}

var retiredCases = []rowCase{
	{"SettleRetired/to gone deletes the row", func(t *rowTest) {
		r := t.claimedRetired()
		require.Equal(t, 1, t.settleRetired(r, store.ToGone))
		t.Advance(1000 * time.Hour)
		require.Empty(t, t.claim().Retired)
		require.Zero(t, t.settleRetired(r, store.ToGone))
	}},
	{"SettleRetired/to retry notes the error and comes round again", func(t *rowTest) {
		r := t.claimedRetired()
		require.Equal(t, 1, t.settleRetired(r, store.ToRetry))
		require.Empty(t, t.claim().Retired)
		t.Advance(time.Hour + slack)
		again := t.claim().Retired
		require.Len(t, again, 1)
		require.Equal(t, "why", again[0].LastError)
		require.Equal(t, 2, again[0].Attempts)
		require.Equal(t, r.IntentID, again[0].IntentID)
	}},
	{"SettleRetired/to watch keeps the row, watched, with its attempts begun anew", func(t *rowTest) {
		r := t.claimedRetired()
		require.False(t, r.Watched)
		require.Equal(t, 1, t.settleRetired(r, store.ToWatch))
		require.Empty(t, t.claim().Retired)
		t.Advance(time.Hour + slack)
		again := t.claim().Retired
		require.Len(t, again, 1)
		require.True(t, again[0].Watched)
		require.Equal(t, 1, again[0].Attempts)
		require.Equal(t, 1, t.settleRetired(again[0], store.ToRetry))
		t.Advance(time.Hour + slack)
		require.True(t, t.claim().Retired[0].Watched)
	}},
	{"SettleRetired/to held keeps the row and is never due again", func(t *rowTest) {
		r := t.claimedRetired()
		require.Equal(t, 1, t.settleRetired(r, store.ToHeld))
		t.Advance(1000 * time.Hour)
		require.Empty(t, t.claim().Retired)
		t.forgetAll() // so that the name is on record there only
		p := t.insertParams("k")
		p.BlobName = r.BlobName
		_, err := t.rows.InsertIntent(t.ctx, p)
		require.ErrorIs(t, err, store.ErrInvalid)
	}},
	{"SettleRetired/after another claim changes nothing", func(t *rowTest) {
		stale := t.claimedRetired()
		t.Advance(lease + slack)
		c := t.claim()
		require.Len(t, c.Retired, 1)
		for _, to := range []store.Verdict{store.ToGone, store.ToWatch, store.ToRetry, store.ToHeld} {
			require.Zero(t, t.settleRetired(stale, to))
		}
		require.Equal(t, 1, t.settleRetired(c.Retired[0], store.ToGone))
	}},
	{"SettleRetired/of a batch takes what it can and says how many", func(t *rowTest) {
		for range 2 {
			t.put("k")
			t.remove("k")
		}
		t.Advance(readGrace + slack)
		retired := t.claim().Retired
		require.Len(t, retired, 2)
		var batch []store.RetiredSettlement
		for range 500 {
			batch = append(batch, store.RetiredSettlement{BlobName: t.insertParams("k").BlobName, DueAt: retired[0].DueAt, To: store.ToGone})
		}
		for _, r := range retired {
			batch = append(batch, store.RetiredSettlement{BlobName: r.BlobName, DueAt: r.DueAt, To: store.ToGone})
		}
		n, err := t.rows.SettleRetired(t.ctx, batch)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		t.Advance(1000 * time.Hour)
		require.Empty(t, t.claim().Retired)
	}},
}
