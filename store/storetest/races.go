package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// attempts is how often a race is run.
const attempts = 20

var raceCases = []rowCase{
	{"Race/of creators has one winner", func(t *rowTest) {
		commits := make([]func() (store.Object, error), t.Concurrency)
		for i := range commits {
			commits[i] = t.committing(t.insert("k", expecting(store.IfAbsent())))
		}
		o := t.oneWins(together(len(commits), func(i int) (store.Object, error) { return commits[i]() }))
		require.Equal(t, normalObject(o), t.object("k"))
		require.Empty(t, t.retiredNames())
	}},
	{"Race/of replacers of one version has one winner", func(t *rowTest) {
		v := t.put("k").Version
		commits := make([]func() (store.Object, error), t.Concurrency)
		for i := range commits {
			commits[i] = t.committing(t.insert("k", expecting(store.IfVersion(v))))
		}
		o := t.oneWins(together(len(commits), func(i int) (store.Object, error) { return commits[i]() }))
		require.Equal(t, normalObject(o), t.object("k"))
		require.Len(t, t.retiredNames(), 1)
	}},
	{"Race/of a replace, a delete and a change of one version has one winner", func(t *rowTest) {
		for range attempts {
			want := store.IfVersion(t.put("k").Version)
			replace := t.committing(t.insert("k", expecting(want)))
			remove, describe := t.deleting("k"), t.describing("k")
			contest := []func() (store.Object, error){
				replace,
				func() (store.Object, error) { return remove(want) },
				func() (store.Object, error) { return describe(want) },
			}
			t.oneWins(together(len(contest), func(i int) (store.Object, error) { return contest[i]() }))
		}
	}},
	{"Race/of replacers under Always retires every blob but the last, once", func(t *rowTest) {
		names := map[string]bool{t.put("k").Blob.Name: true}
		commits := make([]func() (store.Object, error), t.Concurrency)
		for i := range commits {
			commits[i] = t.committing(t.insert("k"))
		}
		versions := make(map[store.Version]bool)
		for _, got := range together(len(commits), func(i int) (store.Object, error) { return commits[i]() }) {
			if got.err != nil { // it lost every race for the row
				require.True(t, t.conflict(got.err).Retryable, "%v", got.err)
				continue
			}
			require.False(t, versions[got.value.Version])
			versions[got.value.Version] = true
			names[got.value.Blob.Name] = true
		}
		delete(names, t.object("k").Blob.Name)
		retired := t.retiredNames()
		require.Len(t, retired, len(names))
		for _, name := range retired {
			require.True(t, names[name])
		}
	}},
	{"Race/of commits of the same keys in other orders ends", func(t *rowTest) {
		var batches [][]store.CommitParams
		for i := range t.Concurrency {
			p := t.uploads(t.insert("a"), t.insert("b"), t.insert("c"))
			if i%2 == 1 {
				p[0], p[2] = p[2], p[0]
			}
			batches = append(batches, p)
		}
		for _, got := range together(len(batches), func(i int) ([]store.Object, error) { return t.rows.CommitObjects(t.ctx, batches[i]) }) {
			if got.err != nil {
				require.True(t, t.conflict(got.err).Retryable, "%v", got.err)
			}
		}
	}},
	{"Race/of a take-over and a commit has one winner", func(t *rowTest) {
		for range attempts {
			in := t.insert("k")
			t.fenced(t.committing(in), t.takingOver(in), store.ErrTakenOver)
		}
	}},
	{"Race/of an abandon and a commit has one winner", func(t *rowTest) {
		for range attempts {
			in := t.insert("k")
			t.fenced(t.committing(in), t.abandoning(in), store.ErrIntentLost)
		}
	}},
	{"Race/of a claim and a commit has one winner", func(t *rowTest) {
		for range attempts {
			in := t.insert("k")
			t.Advance(ttl + slack)
			back := start(t.committing(in))
			c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 1000, Lease: 1000 * time.Hour})
			require.NoError(t, err)
			committed := <-back
			if slices.Contains(ids(c.Intents), in.ID) {
				require.ErrorIs(t, committed.err, store.ErrIntentLost)
				require.Equal(t, store.Abandoned, t.intent(in.ID).State)
			} else {
				require.NoError(t, committed.err)
				require.Equal(t, store.Sealing, t.intent(in.ID).State)
			}
		}
	}},
	{"Race/of claims hands every row to one", func(t *rowTest) {
		want := make(map[string]bool)
		for range manyRows {
			want[t.insert("k").ID] = true
		}
		t.Advance(ttl + slack)
		for _, got := range together(t.Concurrency, t.claimAll) {
			require.NoError(t, got.err)
			for _, id := range got.value {
				require.True(t, want[id], "%s was handed out twice", id)
				delete(want, id)
			}
		}
		for _, in := range t.claim().Intents { // what each passed over while the other had it
			require.True(t, want[in.ID], "%s was handed out twice", in.ID)
			delete(want, in.ID)
		}
		require.Empty(t, want)
	}},
	{"Race/of inserts with one idempotency key has one intent", func(t *rowTest) {
		for i := range attempts {
			p := make([]store.InsertParams, t.Concurrency)
			for j := range p {
				p[j] = t.insertParams("k")
				p[j].IdempotencyKey = string(rune('a' + i))
			}
			t.oneIntent(p)
		}
	}},
	{"Race/of one insert with itself has one intent", func(t *rowTest) {
		for range attempts {
			p := make([]store.InsertParams, t.Concurrency)
			p[0] = t.insertParams("k")
			for j := range p {
				p[j] = p[0]
			}
			t.oneIntent(p)
		}
	}},
	{"Race/of one settlement with itself counts once", func(t *rowTest) {
		for range attempts {
			s := []store.IntentSettlement{settlement(t.inState(store.Sealing), store.ToDone)}
			n := 0
			for _, got := range together(t.Concurrency, func(int) (int, error) { return t.rows.SettleIntents(t.ctx, s) }) {
				require.NoError(t, got.err)
				n += got.value
			}
			require.Equal(t, 1, n)
		}
	}},
}

// oneWins checks that all but one met a conflict, and returns the winner's.
func (t *rowTest) oneWins(outcomes []outcome[store.Object]) store.Object {
	t.Helper()
	var won []store.Object
	for _, got := range outcomes {
		if got.err != nil {
			require.ErrorIs(t, got.err, store.ErrConflict)
			continue
		}
		won = append(won, got.value)
	}
	require.Len(t, won, 1)
	return won[0]
}

// fenced runs a commit against a fence of the same intent and checks that they
// agree about who was first.
func (t *rowTest) fenced(commit func() (store.Object, error), fence func() (store.Intent, error), refused error) {
	t.Helper()
	back := start(commit)
	in, err := fence()
	require.NoError(t, err)
	committed := <-back
	if in.Committed() {
		require.NoError(t, committed.err)
		require.Equal(t, normalObject(committed.value), *normal(in).Result)
	} else {
		require.ErrorIs(t, committed.err, refused)
	}
}

// manyRows is what a race of claims hands out.
const manyRows = 60

// claimAll claims in small batches until nothing is left, or too much was
// handed out.
func (t *rowTest) claimAll(int) ([]string, error) {
	var got []string
	for {
		c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 7, Lease: lease})
		if err != nil || len(c.Intents) == 0 || len(got) > manyRows {
			return got, err
		}
		got = append(got, ids(c.Intents)...)
	}
}

// oneIntent inserts all at once and checks that they agree about one.
func (t *rowTest) oneIntent(p []store.InsertParams) {
	t.Helper()
	id := ""
	for _, got := range together(len(p), func(i int) (store.Intent, error) { return t.rows.InsertIntent(t.ctx, p[i]) }) {
		require.NoError(t, got.err)
		if id == "" {
			id = got.value.ID
		}
		require.Equal(t, id, got.value.ID)
	}
	for _, one := range p {
		if one.ID == id {
			t.intent(id)
		} else {
			t.noIntent(one.ID)
		}
	}
}
