package ncruces

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

const durable = "_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"

func open(t *testing.T, path, params string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?"+params)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

type boundTx struct {
	store.RowTx
	*sql.Tx
}

func (t boundTx) Commit() error   { return t.Tx.Commit() }
func (t boundTx) Rollback() error { return t.Tx.Rollback() }

// harness is the suite's view of a store. Cases share a database, one after the
// other.
func harness(t *testing.T, db *sql.DB) storetest.RowHarness {
	var by atomic.Int64
	s, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{TestClockOffset: func() time.Duration { return time.Duration(by.Load()) }})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	for _, table := range []string{"objects", "intents", "retired"} {
		_, err := db.ExecContext(t.Context(), "DELETE FROM blobtx_"+table)
		require.NoError(t, err)
	}
	return storetest.RowHarness{
		Store: s, Advance: func(d time.Duration) { by.Add(int64(d)) }, SingleWriter: true,
		Begin: func(ctx context.Context) (storetest.Tx, error) {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return nil, err
			}
			return boundTx{s.Tx(tx), tx}, nil
		},
	}
}

func TestRowStore(t *testing.T) {
	for _, lock := range []string{"immediate", "deferred"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			db := open(t, filepath.Join(t.TempDir(), "test.db"), durable+"&_txlock="+lock)
			storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness { return harness(t, db) })
		})
	}
}

// A lock that another has is busy, and the same transaction may run again: the
// driver says so in a way of its own.
func TestBusyIsRetryable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	const impatient = "_pragma=busy_timeout(0)&_pragma=journal_mode(wal)&_txlock=immediate"
	db, other := open(t, path, impatient), open(t, path, impatient)
	s, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{LockWait: 50 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	tx, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "DELETE FROM blobtx_objects")
	require.True(t, sqlstore.IsRetryable(err), err)
	_, err = s.Forget(t.Context(), 1)
	require.ErrorIs(t, err, store.ErrBusy)
	require.NoError(t, tx.Rollback())
	_, err = s.Forget(t.Context(), 1)
	require.NoError(t, err)
}

func TestAMissingTableIsSetup(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), durable)
	s, err := sqlstore.New(db, sqlstore.SQLite, nil)
	require.NoError(t, err)
	require.ErrorIs(t, s.Check(t.Context()), store.ErrSetup)
}
