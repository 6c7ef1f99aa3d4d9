package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// things makes two rows for transactions to fight over.
func things(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, statement := range []string{"CREATE TABLE things (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO things VALUES (1, 0), (2, 0)"} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

func change(ctx context.Context, tx *sql.Tx, id int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE things SET n = n + 1 WHERE id = %d", id))
	return err
}

func begin(t *testing.T, db *sql.DB, opts *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // an error where the case has ended it
	return tx
}

func TestARealDeadlockIsRetryable(t *testing.T) {
	each(t, append(servers[:len(servers):len(servers)], mariadbs...), func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		txs := []*sql.Tx{begin(t, db, nil), begin(t, db, nil)}
		for i, tx := range txs {
			require.NoError(t, change(t.Context(), tx, i+1))
		}
		err := together(2, func(i int) error {
			err := change(t.Context(), txs[i], 2-i)
			if err != nil {
				_ = txs[i].Rollback() // lets the other go on
			}
			return err
		})
		require.True(t, sqlstore.IsRetryable(err), "%v", err)
	})
}

func TestARealSerializationFailureIsRetryable(t *testing.T) {
	snapshots := database{"mysql", sqlstore.MySQL, "mysql", mariadb("innodb_snapshot_isolation=ON")}
	each(t, append(servers[:len(servers):len(servers)], snapshots), func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		tx := begin(t, db, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		var n int
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT n FROM things WHERE id = 1").Scan(&n))
		_, err := db.ExecContext(t.Context(), "UPDATE things SET n = 9")
		require.NoError(t, err)
		err = change(t.Context(), tx, 1)
		require.True(t, sqlstore.IsRetryable(fmt.Errorf("wrapped: %w", errors.Join(errBroken, err))), "%v", err)
	})
}

func TestARealViolationIsNotRetryable(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		_, err := db.ExecContext(t.Context(), "INSERT INTO things VALUES (1, 0)")
		require.Error(t, err)
		require.False(t, sqlstore.IsRetryable(err))
		_, err = db.ExecContext(t.Context(), "SELECT 1 FROM nothing")
		require.Error(t, err)
		require.False(t, sqlstore.IsRetryable(err))
	})
}

// A transaction that has read and then writes, after another has written, is
// SQLITE_BUSY_SNAPSHOT; one that meets a writer is SQLITE_BUSY.
func TestARealBusyDatabaseIsRetryable(t *testing.T) {
	each(t, deferred, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		in := upload(t, s, "k", store.Always())
		stale := begin(t, db, nil)
		var n int
		require.NoError(t, stale.QueryRowContext(t.Context(), "SELECT count(*) FROM blobtx_objects").Scan(&n))
		upload(t, s, "other", store.Always())
		_, err := s.Tx(stale).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.True(t, sqlstore.IsRetryable(err), "%v", err)
		require.NoError(t, stale.Rollback())

		writer, waiting := begin(t, db, nil), begin(t, db, nil)
		_, err = s.Tx(writer).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		_, err = s.Tx(waiting).DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.ErrorIs(t, err, store.ErrBusy)
		require.True(t, sqlstore.IsRetryable(err), "%v", err)
		require.NoError(t, waiting.Rollback())
		require.NoError(t, writer.Commit())
	})
}

// A statement that is cancelled inside a SQLite transaction may roll it back
// and leave it taking statements: the steps do not let that happen.
func TestAContextThatEndsDuringAStepOfACallersTransaction(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		in := upload(t, s, "k", store.IfAbsent())
		for range 20 {
			tx := begin(t, db, nil)
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			_, err := s.Tx(tx).CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
			if err != nil {
				require.ErrorIs(t, err, store.ErrTxUnusable)
			}
			_, _ = s.Tx(tx).DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()}) // must not survive
			_ = tx.Rollback()                                                                           // PostgreSQL drivers may have closed the connection
			_, err = s.GetObject(t.Context(), "k")
			require.ErrorIs(t, err, store.ErrNotFound)
			now, err := s.GetIntents(t.Context(), []string{in.ID})
			require.NoError(t, err)
			require.Equal(t, []store.Intent{in}, now)
		}
	})
}

func TestInTxOutlivesTheRequest(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, _ := d.migrated(t, nil)
		in := upload(t, s, "k", store.IfAbsent())
		request, leave := context.WithCancel(t.Context())
		err := s.InTx(request, nil, func(ctx context.Context, tx *sql.Tx) error {
			leave() // the client has gone
			_, err := s.Tx(tx).CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
			return err
		})
		require.NoError(t, err)
		_, err = s.GetObject(t.Context(), "k")
		require.NoError(t, err)
	})
}

func TestInTxRollsBack(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{ConnWait: 5 * time.Second})
		db.SetMaxOpenConns(1) // a transaction left open would be noticed
		in := upload(t, s, "k", store.IfAbsent())
		write := func(ctx context.Context, tx *sql.Tx) {
			_, err := s.Tx(tx).CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
			require.NoError(t, err)
		}
		err := s.InTx(t.Context(), nil, func(ctx context.Context, tx *sql.Tx) error {
			write(ctx, tx)
			return errBroken
		})
		require.Equal(t, errBroken, err)
		require.PanicsWithValue(t, "mine", func() {
			_ = s.InTx(t.Context(), nil, func(ctx context.Context, tx *sql.Tx) error {
				write(ctx, tx)
				panic("mine")
			})
		})
		_, err = s.GetObject(t.Context(), "k")
		require.ErrorIs(t, err, store.ErrNotFound)
		require.ErrorIs(t, s.InTx(t.Context(), nil, nil), store.ErrInvalid)
	})
}
