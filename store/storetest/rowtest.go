package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

type rowCase struct {
	name string
	run  func(t *rowTest)
}

func rowCases() []rowCase {
	return slices.Concat(
		insertCases, takeOverCases, heartbeatCases, abandonCases, readCases,
		commitCases, conditionCases, versionCases, deleteCases, metadataCases, keyCases, listCases,
		claimCases, settleCases, retiredCases, forgetCases,
		txCases, unusableCases, waitCases, relookCases, raceCases,
	)
}

func (c rowCase) on(t tester, h RowHarness) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	if h.Concurrency == 0 {
		h.Concurrency = 8
	}
	c.run(&rowTest{tester: t, ctx: ctx, RowHarness: h, rows: h.Store})
}

// Durations of the cases. What passes by itself on a real clock, at most a
// minute in a case, is small beside them.
const (
	ttl        = 15 * time.Minute
	maxPending = 48 * time.Hour
	readGrace  = 10 * time.Minute
	sealIn     = 20 * time.Minute
	lease      = 10 * time.Minute
	slack      = time.Minute
)

// rowTest is one case at work on a fresh store.
type rowTest struct {
	tester
	RowHarness
	ctx  context.Context
	rows store.RowStore
	n    int
}

func (t *rowTest) number() int { t.n++; return t.n }

// random returns bits for a version that no other call of the case returns,
// nor bits beside them.
func (t *rowTest) random() uint32 { return uint32(t.number()*8191) % (1 << store.RandomBits) }

func (t *rowTest) insertParams(key string) store.InsertParams {
	n := t.number()
	return store.InsertParams{
		ID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", n), Holder: fmt.Sprintf("holder-%d", n),
		Key: key, Expect: store.Always(), BlobName: fmt.Sprintf("blobs/%d", n),
		TTL: ttl, MaxPending: maxPending,
	}
}

// insert promises an upload, under Always unless a change says otherwise.
func (t *rowTest) insert(key string, changes ...func(*store.InsertParams)) store.Intent {
	t.Helper()
	p := t.insertParams(key)
	for _, change := range changes {
		change(&p)
	}
	in, err := t.rows.InsertIntent(t.ctx, p)
	require.NoError(t, err)
	require.Equal(t, p.ID, in.ID)
	return in
}

func expecting(c store.Condition) func(*store.InsertParams) {
	return func(p *store.InsertParams) { p.Expect = c }
}

func idempotent(key string) func(*store.InsertParams) {
	return func(p *store.InsertParams) { p.IdempotencyKey = key }
}

// upload returns the commit of an intent, with facts of bytes that no other
// upload has.
func (t *rowTest) upload(in store.Intent) store.CommitParams {
	n := t.number()
	sum := sha256.Sum256([]byte(in.ID))
	return store.CommitParams{
		IntentID: in.ID, Version: in.Version, Key: in.Key, Creates: in.Expect == store.IfAbsent(),
		Random: t.random(), ReadGrace: readGrace, SealIn: sealIn,
		Blob: store.Blob{ETag: fmt.Sprintf(`"0x%X"`, n), Size: int64(n), SHA256: hex.EncodeToString(sum[:]), ContentType: "text/plain"},
	}
}

func (t *rowTest) uploads(intents ...store.Intent) []store.CommitParams {
	p := make([]store.CommitParams, len(intents))
	for i, in := range intents {
		p[i] = t.upload(in)
	}
	return p
}

// commit makes the upload visible in a transaction of the store's own.
func (t *rowTest) commit(in store.Intent) store.Object {
	t.Helper()
	objects, err := t.rows.CommitObjects(t.ctx, t.uploads(in))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0]
}

// put makes an object, or replaces it.
func (t *rowTest) put(key string) store.Object {
	t.Helper()
	return t.commit(t.insert(key))
}

func (t *rowTest) remove(key string) {
	t.Helper()
	_, err := t.rows.DeleteObject(t.ctx, store.DeleteParams{Key: key, If: store.IfExists(), ReadGrace: readGrace})
	require.NoError(t, err)
}

func (t *rowTest) begin() Tx {
	t.Helper()
	tx, err := t.Begin(t.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // an error where the case has ended it
	return tx
}

// intent returns the intent as it stands.
func (t *rowTest) intent(id string) store.Intent {
	t.Helper()
	intents, err := t.rows.GetIntents(t.ctx, []string{id})
	require.NoError(t, err)
	require.Len(t, intents, 1)
	return normal(intents[0])
}

func (t *rowTest) noIntent(id string) {
	t.Helper()
	intents, err := t.rows.GetIntents(t.ctx, []string{id})
	require.NoError(t, err)
	require.Empty(t, intents)
}

func (t *rowTest) object(key string) store.Object {
	t.Helper()
	o, err := t.rows.GetObject(t.ctx, key)
	require.NoError(t, err)
	return normalObject(o)
}

func (t *rowTest) noObject(key string) {
	t.Helper()
	_, err := t.rows.GetObject(t.ctx, key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// normal and normalObject take away what two reads of one row may differ in.
func normal(in store.Intent) store.Intent {
	if len(in.Metadata) == 0 {
		in.Metadata = nil
	}
	if in.Result != nil {
		o := normalObject(*in.Result)
		in.Result = &o
	}
	return in
}

func normalObject(o store.Object) store.Object {
	if len(o.Metadata) == 0 {
		o.Metadata = nil
	}
	return o
}

// inState brings a fresh intent on its own key into the state and returns it.
func (t *rowTest) inState(s store.State) store.Intent {
	t.Helper()
	in := t.insert(fmt.Sprintf("z/%s/%d", s, t.number()))
	switch s {
	case store.Sealing:
		t.commit(in)
	case store.Done:
		t.commit(in)
		t.settle(store.IntentSettlement{ID: in.ID, State: store.Sealing, Version: in.Version + 1, To: store.ToDone, In: time.Hour})
	case store.Abandoned, store.Held:
		in, err := t.rows.Abandon(t.ctx, store.AbandonParams{ID: in.ID, Version: in.Version})
		require.NoError(t, err)
		if s == store.Held {
			t.settle(store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToHeld, Err: "refused"})
		}
	}
	in = t.intent(in.ID)
	require.Equal(t, s, in.State)
	return in
}

func (t *rowTest) settle(s store.IntentSettlement) {
	t.Helper()
	n, err := t.rows.SettleIntents(t.ctx, []store.IntentSettlement{s})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// claim takes everything that is due.
func (t *rowTest) claim() store.Claimed {
	t.Helper()
	c, err := t.rows.Claim(t.ctx, store.ClaimParams{Limit: 1000, Lease: lease})
	require.NoError(t, err)
	return c
}

// retiredNames waits the read grace out and returns what must go.
func (t *rowTest) retiredNames() []string {
	t.Helper()
	t.Advance(readGrace + slack)
	names := []string{}
	for _, r := range t.claim().Retired {
		names = append(names, r.BlobName)
	}
	slices.Sort(names)
	return names
}

// conflict checks that the error is a conflict and returns its facts.
func (t *rowTest) conflict(err error) *store.ConflictError {
	t.Helper()
	require.ErrorIs(t, err, store.ErrConflict)
	var c *store.ConflictError
	require.ErrorAs(t, err, &c)
	if c.Current != nil {
		o := normalObject(*c.Current)
		c.Current = &o
	}
	return c
}

func (t *rowTest) near(want, got time.Time) {
	t.Helper()
	require.WithinDuration(t, want, got, slack)
}

// wait lets steps that were started get as far as they can.
func (t *rowTest) wait() {
	if t.Waiting != nil {
		t.Waiting()
		return
	}
	for range 50 {
		runtime.Gosched()
		if !t.Exclusive {
			_, _ = t.rows.GetObject(t.ctx, "nothing") // a round trip's time
		}
	}
}

// besideReaders skips a case on a store whose readers wait for an open
// transaction.
func (t *rowTest) besideReaders() {
	if t.Exclusive {
		t.Skipf("an open transaction keeps readers waiting here: what they see meanwhile cannot be asked")
	}
}

// besideWriters skips a case on a store whose writers wait for an open
// transaction, whatever the row.
func (t *rowTest) besideWriters() {
	if t.SingleWriter || t.Exclusive {
		t.Skipf("an open transaction keeps every writer waiting here: there are no row locks to pass over")
	}
}
