package faultstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
	"github.com/blobtx/blobtx/store/memstore"
)

// script decides by the name of the step; each entry is used once.
type script struct {
	faults map[string]faultstore.Fault
	ops    []faultstore.Op
}

func (s *script) Step(_ context.Context, op faultstore.Op) faultstore.Fault {
	s.ops = append(s.ops, op)
	f := s.faults[op.Name]
	delete(s.faults, op.Name)
	return f
}

func at(name string, f faultstore.Fault) *script {
	return &script{faults: map[string]faultstore.Fault{name: f}}
}

func insert(id string) store.InsertParams {
	return store.InsertParams{ID: id, Holder: "h", Key: "k", BlobName: "b/" + id, TTL: time.Minute, MaxPending: time.Hour}
}

func create(name, body string) store.CreateParams {
	return store.CreateParams{Name: name, IntentID: "i", Key: "k", Body: store.NewBody(strings.NewReader(body), -1, "")}
}

func TestRowFaults(t *testing.T) {
	var late faultstore.Message
	for _, c := range []struct {
		name    string
		fault   faultstore.Fault
		applied bool
		err     error
	}{
		{"it proceeds", faultstore.Fault{}, true, nil},
		{"a lost request is not applied", faultstore.Fault{Kind: faultstore.FailBefore}, false, faultstore.ErrLost},
		{"a lost reply is applied", faultstore.Fault{Kind: faultstore.LoseReply}, true, faultstore.ErrLost},
		{"a late request is not applied yet", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}, false, faultstore.ErrLost},
		{"a late request that nobody takes is lost", faultstore.Fault{Kind: faultstore.Late}, false, faultstore.ErrLost},
		{"of the dead nothing is applied", faultstore.Fault{Kind: faultstore.Die}, false, faultstore.ErrDead},
	} {
		t.Run(c.name, func(t *testing.T) {
			under := memstore.NewRows(nil)
			var told error
			c.fault.Told = func(_ any, err error) { told = err }
			ctx, cancel := context.WithCancel(t.Context())
			_, err := faultstore.Rows(under, at("insert intent", c.fault)).InsertIntent(ctx, insert("1"))
			cancel()
			require.ErrorIs(t, err, c.err)
			require.Equal(t, err, told)
			require.Equal(t, c.applied, len(under.Intents()) == 1)
			if late.Apply != nil {
				late.Apply() // after its caller has gone
				require.Len(t, under.Intents(), 1)
				late = faultstore.Message{}
			}
		})
	}
}

func TestEveryCallIsAStep(t *testing.T) {
	s := &script{}
	rows := faultstore.Rows(memstore.NewRows(nil), s)
	blobs := faultstore.Blobs(memstore.NewBlobs(nil), s)
	ctx := t.Context()
	_ = rows.Check(ctx)
	_, _ = rows.InsertIntent(ctx, insert("1"))
	_, _ = rows.TakeOver(ctx, store.TakeOverParams{ID: "1"})
	_, _ = rows.Heartbeat(ctx, store.HeartbeatParams{ID: "1"})
	_, _ = rows.Abandon(ctx, store.AbandonParams{ID: "1"})
	_, _ = rows.GetIntents(ctx, []string{"1", "2"})
	_, _ = rows.GetObject(ctx, "k")
	_, _ = rows.ListObjects(ctx, store.ListParams{Limit: 1})
	_, _ = rows.CommitObjects(ctx, []store.CommitParams{{IntentID: "1", Key: "k"}})
	_, _ = rows.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always()})
	_, _ = rows.SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.Always()})
	_, _ = rows.Claim(ctx, store.ClaimParams{Limit: 1})
	_, _ = rows.SettleIntents(ctx, []store.IntentSettlement{{ID: "1"}})
	_, _ = rows.SettleRetired(ctx, []store.RetiredSettlement{{BlobName: "b"}})
	_, _ = rows.Forget(ctx, 1)
	_, _ = blobs.Create(ctx, create("b", "x"))
	_ = blobs.Seal(ctx, "b", "i")
	_ = blobs.Delete(ctx, []store.DeleteBlob{{Name: "b"}})
	_, _ = blobs.Stat(ctx, store.StatParams{Name: "b"})
	_, _ = blobs.Open(ctx, store.OpenParams{Name: "b"})
	for _, err := range blobs.List(ctx, store.ListBlobsParams{}) {
		require.NoError(t, err)
		break
	}
	_ = blobs.Probe(ctx)
	var names []string
	for _, op := range s.ops {
		names = append(names, op.Name)
	}
	require.Equal(t, []string{
		"check", "insert intent", "take over", "heartbeat", "abandon", "get intents", "get object", "list objects",
		"commit objects", "delete object", "set metadata", "claim", "settle intents", "settle retired", "forget",
		"create blob", "seal", "delete blobs", "stat", "open blob", "list blobs", "probe",
	}, names)
	require.Equal(t, "1 2", s.ops[5].Subject)
}

func TestBodies(t *testing.T) {
	t.Run("a body that breaks in the middle leaves nothing readable", func(t *testing.T) {
		under := memstore.NewBlobs(nil)
		p := create("b", "hello")
		_, err := faultstore.Blobs(under, at("create blob", faultstore.Fault{Kind: faultstore.Midway})).Create(t.Context(), p)
		require.ErrorIs(t, err, faultstore.ErrLost)
		require.Empty(t, under.Snapshot())
		require.NoError(t, p.Body.Rewind())
	})
	t.Run("a late body is what was sent", func(t *testing.T) {
		under := memstore.NewBlobs(nil)
		var late faultstore.Message
		p := create("b", "hello")
		_, err := faultstore.Blobs(under, at("create blob", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }})).Create(t.Context(), p)
		require.ErrorIs(t, err, faultstore.ErrLost)
		require.NoError(t, p.Body.Drain(t.Context()))
		require.Empty(t, under.Snapshot())
		late.Apply()
		require.Equal(t, "hello", string(under.Snapshot()["b"]))
	})
	t.Run("the caller's own reader never counts as lost", func(t *testing.T) {
		for _, kind := range []faultstore.Kind{faultstore.LoseReply, faultstore.Late, faultstore.Midway} {
			broken := io.MultiReader(failing{})
			p := store.CreateParams{Name: "b", IntentID: "i", Body: store.NewBody(broken, -1, "")}
			_, err := faultstore.Blobs(memstore.NewBlobs(nil), at("create blob", faultstore.Fault{Kind: kind})).Create(t.Context(), p)
			var body *store.BodyError
			require.ErrorAs(t, err, &body)
		}
	})
	t.Run("a read ends half-way", func(t *testing.T) {
		under := memstore.NewBlobs(nil)
		blob, err := under.Create(t.Context(), create("b", "hello"))
		require.NoError(t, err)
		body, err := faultstore.Blobs(under, at("open blob", faultstore.Fault{Kind: faultstore.Midway})).Open(t.Context(), store.OpenParams{Name: "b", ETag: blob.ETag, Count: -1})
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.ErrorIs(t, err, faultstore.ErrLost)
		require.Equal(t, "h", string(got))
	})
	t.Run("of a batch the first half is deleted", func(t *testing.T) {
		under := memstore.NewBlobs(nil)
		for _, name := range []string{"a", "b"} {
			_, err := under.Create(t.Context(), create(name, name))
			require.NoError(t, err)
		}
		errs := faultstore.Blobs(under, at("delete blobs", faultstore.Fault{Kind: faultstore.Midway})).
			Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: "i"}, {Name: "b", IntentID: "i"}})
		require.Equal(t, []error{faultstore.ErrLost, faultstore.ErrLost}, errs)
		require.Len(t, under.Snapshot(), 1)
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("client left") }

// open stages an upload in a transaction and returns what ends it.
func open(t *testing.T, rows *memstore.Rows, in faultstore.Injector) faultstore.Transaction {
	t.Helper()
	_, err := rows.InsertIntent(t.Context(), insert("1"))
	require.NoError(t, err)
	under, err := rows.Begin(t.Context())
	require.NoError(t, err)
	return faultstore.Tx(under, in)
}

func commit(t *testing.T, tx store.RowTx) error {
	_, err := tx.CommitObjects(t.Context(), []store.CommitParams{{IntentID: "1", Version: 1, Key: "k"}})
	return err
}

func TestTransactionFaults(t *testing.T) {
	locked := func(t *testing.T, rows *memstore.Rows) bool {
		in, err := rows.Heartbeat(t.Context(), store.HeartbeatParams{ID: "1", Version: 1, TTL: time.Minute})
		require.NoError(t, err)
		return in.Beats == 0
	}
	t.Run("a fault at a statement breaks the connection", func(t *testing.T) {
		rows := memstore.NewRows(nil)
		tx := open(t, rows, at("commit objects", faultstore.Fault{Kind: faultstore.LoseReply}))
		err := commit(t, tx)
		require.ErrorIs(t, err, faultstore.ErrLost)
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.ErrorIs(t, commit(t, tx), store.ErrTxUnusable)
		require.Error(t, tx.Commit())
		require.Empty(t, rows.Objects())
		require.False(t, locked(t, rows))
	})
	for kind, visible := range map[faultstore.Kind]bool{faultstore.FailBefore: false, faultstore.LoseReply: true} {
		t.Run("COMMIT: "+kind.String(), func(t *testing.T) {
			rows := memstore.NewRows(nil)
			tx := open(t, rows, at("COMMIT", faultstore.Fault{Kind: kind}))
			require.NoError(t, commit(t, tx))
			require.ErrorIs(t, tx.Commit(), faultstore.ErrLost)
			require.Error(t, tx.Rollback())
			require.Equal(t, visible, len(rows.Objects()) == 1)
		})
	}
	for _, arrives := range []bool{true, false} {
		t.Run(map[bool]string{true: "a late COMMIT keeps its locks and commits", false: "a COMMIT that never arrives rolls back"}[arrives], func(t *testing.T) {
			rows := memstore.NewRows(nil)
			var late faultstore.Message
			tx := open(t, rows, at("COMMIT", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}))
			require.NoError(t, commit(t, tx))
			require.ErrorIs(t, tx.Commit(), faultstore.ErrLost)
			_ = tx.Rollback() // says nothing to the database any more
			require.True(t, locked(t, rows))
			if arrives {
				late.Apply()
			} else {
				late.Drop()
			}
			require.Equal(t, arrives, len(rows.Objects()) == 1)
		})
	}
}

func TestADeadProcess(t *testing.T) {
	t.Run("rolls back and touches nothing", func(t *testing.T) {
		rows := memstore.NewRows(nil)
		p := faultstore.NewProcess(t.Context(), &script{})
		tx := open(t, rows, p)
		require.NoError(t, commit(t, tx))
		p.Kill()
		require.ErrorIs(t, context.Cause(p.Context()), faultstore.ErrDead)
		require.ErrorIs(t, tx.Commit(), faultstore.ErrDead)
		require.Empty(t, rows.Objects())
		_, err := faultstore.Rows(rows, p).InsertIntent(t.Context(), insert("2"))
		require.ErrorIs(t, err, faultstore.ErrDead)
		require.Len(t, rows.Intents(), 1)
	})
	t.Run("dies at a step", func(t *testing.T) {
		rows := memstore.NewRows(nil)
		p := faultstore.NewProcess(t.Context(), at("insert intent", faultstore.Fault{Kind: faultstore.Die}))
		_, err := faultstore.Rows(rows, p).InsertIntent(p.Context(), insert("1"))
		require.ErrorIs(t, err, faultstore.ErrDead)
		require.True(t, p.Dead())
		require.Equal(t, faultstore.Stats{Steps: 1, Injected: 1, Surfaced: 1}, p.Stats())
	})
	t.Run("its COMMIT on the way is not rolled back", func(t *testing.T) {
		rows := memstore.NewRows(nil)
		var late faultstore.Message
		p := faultstore.NewProcess(t.Context(), at("COMMIT", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}))
		tx := open(t, rows, p)
		require.NoError(t, commit(t, tx))
		require.Error(t, tx.Commit())
		p.Kill()
		late.Apply()
		require.Len(t, rows.Objects(), 1)
	})
	t.Run("is found out when it loops", func(t *testing.T) {
		loops := 0
		p := faultstore.NewProcess(t.Context(), &script{})
		p.OnLoop = func() { loops++ }
		p.Kill()
		rows := faultstore.Rows(memstore.NewRows(nil), p)
		for range 999 {
			_ = rows.Check(t.Context())
		}
		require.False(t, p.Loops())
		for range 999 {
			_ = rows.Check(t.Context())
		}
		require.True(t, p.Loops())
		require.Equal(t, 1, loops)
	})
}

func TestADelayEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := faultstore.Rows(memstore.NewRows(nil), at("insert intent", faultstore.Fault{Delay: time.Hour})).InsertIntent(ctx, insert("1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
	})
}
