package sqlstore_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

// clock moves a store's clock on.
type clock struct{ by atomic.Int64 }

func (c *clock) offset() time.Duration   { return time.Duration(c.by.Load()) }
func (c *clock) advance(d time.Duration) { c.by.Add(int64(d)) }

type boundTx struct {
	store.RowTx
	commit, rollback func() error
}

func (t boundTx) Commit() error   { return t.commit() }
func (t boundTx) Rollback() error { return t.rollback() }

// harness is the suite's view of a store whose transactions are database/sql's.
// Cases share a database, one after the other.
func (d database) harness(t testing.TB, db *sql.DB) storetest.RowHarness {
	return d.harnessIn(t, db, sqlstore.Options{}, "blobtx_")
}

// harnessIn is harness with tables whose names begin with this text.
func (d database) harnessIn(t testing.TB, db *sql.DB, o sqlstore.Options, tables string) storetest.RowHarness {
	var c clock
	o.TestClockOffset = c.offset
	s := d.store(t, db, &o)
	for _, table := range []string{"objects", "intents", "retired"} {
		_, err := db.ExecContext(t.Context(), "DELETE FROM "+tables+table)
		require.NoError(t, err)
	}
	return storetest.RowHarness{
		Store: s, Advance: c.advance, SingleWriter: d.dialect == sqlstore.SQLite,
		Begin: func(ctx context.Context) (storetest.Tx, error) {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return nil, err
			}
			return boundTx{s.Tx(tx), tx.Commit, tx.Rollback}, nil
		},
	}
}

// suite runs the conformance suite in one database.
func (d database) suite(t *testing.T) {
	db := d.open(t)
	storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness { return d.harness(t, db) })
}

func TestRowStore(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		d.suite(t)
	})
}

// A caller's transaction that is not immediate: the first statement of every
// step must be a write.
func TestRowStoreInDeferredTransactions(t *testing.T) {
	each(t, deferred, func(t *testing.T, d database) {
		d.suite(t)
	})
}

// A pool of one connection: an open transaction has it.
func TestRowStoreOnOneConnection(t *testing.T) {
	each(t, []database{
		{"memory", sqlstore.SQLite, "sqlite", func(testing.TB) string { return ":memory:" }},
		servers[0], mariadbs[0], mariadbs[1],
	}, func(t *testing.T, d database) {
		db := d.open(t)
		db.SetMaxOpenConns(1)
		storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness {
			h := d.harness(t, db)
			h.Exclusive = true
			return h
		})
	})
}

// The caller's transactions are native pgx's.
func TestRowStoreOverNativePGX(t *testing.T) {
	dsn := services.Postgres(t)
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := servers[0]
	db := open(t, d.driver, dsn)
	storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness {
		h := d.harness(t, db)
		s := h.Store.(*sqlstore.Store)
		h.Begin = func(ctx context.Context) (storetest.Tx, error) {
			ctx = context.WithoutCancel(ctx)
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, err
			}
			return boundTx{
				s.TxOf(pgxQuerier{tx}),
				func() error { return tx.Commit(ctx) },
				func() error { return tx.Rollback(ctx) },
			}, nil
		}
		return h
	})
}

// pgxQuerier is all that native pgx needs.
type pgxQuerier struct{ pgx.Tx }

func (q pgxQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := q.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (q pgxQuerier) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := q.Tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
