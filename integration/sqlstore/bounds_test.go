package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// steps are the steps of the store's own that change an intent or its object.
func steps(s *sqlstore.Store, in store.Intent) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"insert": func(ctx context.Context) error {
			_, err := s.InsertIntent(ctx, store.InsertParams{
				ID: "new", Holder: "h", Key: in.Key, Expect: store.Always(), BlobName: "new", TTL: time.Hour, MaxPending: time.Hour,
			})
			return err
		},
		"take over": func(ctx context.Context) error {
			_, err := s.TakeOver(ctx, store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: "x", TTL: time.Hour})
			return err
		},
		"abandon": func(ctx context.Context) error {
			_, err := s.Abandon(ctx, store.AbandonParams{ID: in.ID, Version: in.Version})
			return err
		},
		"commit": func(ctx context.Context) error {
			_, err := s.CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := s.DeleteObject(ctx, store.DeleteParams{Key: in.Key, If: store.Always()})
			return err
		},
		"metadata": func(ctx context.Context) error {
			_, err := s.SetObjectMetadata(ctx, store.MetadataParams{Key: in.Key, If: store.Always()})
			return err
		},
		"heartbeat": func(ctx context.Context) error {
			_, err := s.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: in.Version, TTL: time.Hour})
			return err
		},
		"claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, store.ClaimParams{Limit: 1, Lease: time.Hour})
			return err
		},
		"settle": func(ctx context.Context) error {
			_, err := s.SettleIntents(ctx, []store.IntentSettlement{{ID: in.ID, State: store.Sealing, Version: 99, To: store.ToDone}})
			return err
		},
		"forget": func(ctx context.Context) error { _, err := s.Forget(ctx, 1); return err },
		"get":    func(ctx context.Context) error { _, err := s.GetObject(ctx, in.Key); return err },
		"check":  s.Check,
	}
}

// within fails the test when fn takes longer than a bound of some 50 ms could
// explain, on however slow a machine.
func within(t *testing.T, what string, fn func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := fn(ctx)
	require.NoError(t, ctx.Err(), what)
	return err
}

const short = 50 * time.Millisecond

// The pool's only connection has the caller's transaction: every step that
// needs another comes back and asks about it.
func TestAPoolOfOneWithATransactionOpen(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		patient, db := d.migrated(t, nil) // a new connection may take longer than the bound tested here
		db.SetMaxOpenConns(1)
		in := upload(t, patient, "k", store.Always())
		s, err := sqlstore.New(db, d.dialect, &sqlstore.Options{ConnWait: short})
		require.NoError(t, err)
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		require.NoError(t, err)
		objects, err := s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		all := steps(s, in)
		all["migrate"] = s.Migrate
		all["in tx"] = func(ctx context.Context) error {
			return s.InTx(ctx, nil, func(context.Context, *sql.Tx) error { return nil })
		}
		for name, step := range all {
			err := within(t, name, step)
			require.ErrorIs(t, err, store.ErrBusy, name)
			require.ErrorContains(t, err, "is a transaction open", name)
		}
		require.NoError(t, tx.Commit())
		got, err := s.GetObject(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, objects[0], got)
	})
}

func TestACallersDeadlineIsShorterThanTheBound(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		db.SetMaxOpenConns(1)
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		_, err = s.GetObject(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, store.ErrBusy, "the bound of the store was not reached")
		require.NoError(t, tx.Rollback())

		gone, leave := context.WithCancel(t.Context())
		leave()
		_, err = s.GetObject(gone, "k")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, store.ErrBusy)
	})
}

// Another transaction has the rows: who needs them gives up and has changed
// nothing, who can do without passes over them.
func TestWaitsForLocksAreBounded(t *testing.T) {
	each(t, append(servers[:len(servers):len(servers)], deferred...), func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, "k", store.Always()), 1)})
		require.NoError(t, err)
		in := upload(t, s, "k", store.Always())
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		require.NoError(t, err)
		for _, table := range []string{"objects SET size = size", "intents SET beats = beats"} {
			_, err = tx.ExecContext(t.Context(), "UPDATE blobtx_"+table)
			require.NoError(t, err)
		}
		waits := map[string]bool{"take over": true, "abandon": true, "commit": true, "delete": true, "metadata": true}
		if d.dialect == sqlstore.SQLite { // one lock for all writers
			for _, name := range []string{"insert", "heartbeat", "claim", "settle", "forget"} {
				waits[name] = true
			}
		}
		for name, step := range steps(s, in) {
			err := within(t, name, step)
			if waits[name] {
				require.ErrorIs(t, err, store.ErrBusy, name)
			} else {
				require.NoError(t, err, name)
			}
		}
		require.NoError(t, tx.Rollback())
		now, err := s.GetIntents(t.Context(), []string{in.ID})
		require.NoError(t, err)
		require.Equal(t, []store.Intent{in}, now)
		got, err := s.GetObject(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, objects[0], got)
	})
}

// The bound is set inside the statement and ends with it: neither the pool's
// connections nor the caller's transaction keep it.
func TestTheBoundOfALockDoesNotStay(t *testing.T) {
	each(t, servers, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		db.SetMaxOpenConns(1)
		timeout := func(q interface {
			QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
		}) (got string) {
			require.NoError(t, q.QueryRowContext(t.Context(), "SHOW lock_timeout").Scan(&got))
			return got
		}
		in := upload(t, s, "k", store.Always())
		for name, step := range steps(s, in) {
			_ = step(t.Context()) // some cannot succeed after others
			require.Equal(t, "0", timeout(db), name)
		}
		in = upload(t, s, "k", store.Always())
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.ErrorIs(t, err, store.ErrAlreadyCommitted)
		require.Equal(t, "0", timeout(tx))
		require.NoError(t, tx.Rollback())
	})
}
