package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FACTS C2, as the servers show it: why nothing more is issued on a caller's
// transaction after an error. One that fails here has changed: look at what was
// built on it.

// survivors are the ids of things, after the transaction was rolled back, or
// committed, as far as it let itself be.
func survivors(t *testing.T, db *sql.DB, end func() error) (ids []int) {
	t.Helper()
	_ = end() // SQLite: there is no transaction any more
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM things ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	return ids
}

func insert(ctx context.Context, tx *sql.Tx, values string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO things "+values)
	return err
}

// The victim's transaction has ended: what it did is gone, and what it goes on to
// do stands alone and survives its Rollback.
func TestAfterADeadlockOnMariaDBAStatementStandsAlone(t *testing.T) {
	each(t, mariadbs, func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		other, victim := begin(t, db, nil), begin(t, db, nil)
		for range 3 { // the server picks whom it costs least to roll back
			require.NoError(t, change(t.Context(), other, 2))
		}
		require.NoError(t, insert(t.Context(), other, "SELECT seq + 100, 0 FROM seq_1_to_50"))
		require.NoError(t, insert(t.Context(), victim, "VALUES (3, 0)"))
		require.NoError(t, change(t.Context(), victim, 1))
		var errs [2]error
		require.NoError(t, together(2, func(i int) error {
			errs[i] = change(t.Context(), []*sql.Tx{other, victim}[i], i+1)
			return nil
		}))
		require.NoError(t, errs[0])
		require.Equal(t, 1213, mysqlNumber(t, errs[1]))
		require.NoError(t, insert(t.Context(), victim, "VALUES (4, 0)"))
		require.NoError(t, other.Rollback())
		require.Equal(t, []int{1, 2, 4}, survivors(t, db, victim.Rollback))
	})
}

// A wait that was given up undoes its statement only: the transaction goes on and
// can be committed without it.
func TestAfterATimeoutOnMariaDBTheTransactionGoesOn(t *testing.T) {
	each(t, mariadbs, func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		holder, tx := begin(t, db, nil), begin(t, db, nil)
		require.NoError(t, change(t.Context(), holder, 1))
		require.NoError(t, insert(t.Context(), tx, "VALUES (3, 0)"))
		_, err := tx.ExecContext(t.Context(), "SET SESSION innodb_lock_wait_timeout = 1")
		require.NoError(t, err)
		require.Equal(t, 1205, mysqlNumber(t, change(t.Context(), tx, 1)))
		require.NoError(t, insert(t.Context(), tx, "VALUES (4, 0)"))
		require.Equal(t, []int{1, 2, 3, 4}, survivors(t, db, tx.Commit))
	})
}

func TestAfterAnErrorOnPostgresTheTransactionRefusesEverything(t *testing.T) {
	each(t, servers, func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		tx := begin(t, db, nil)
		require.NoError(t, insert(t.Context(), tx, "VALUES (3, 0)"))
		require.Equal(t, "23505", code(t, insert(t.Context(), tx, "VALUES (1, 0)")))
		require.Equal(t, "25P02", code(t, insert(t.Context(), tx, "VALUES (4, 0)")))
		require.Equal(t, []int{1, 2}, survivors(t, db, tx.Rollback))
	})
}

// A write that is cancelled rolls the whole transaction back (SQLite,
// sqlite3_interrupt), which goes on taking statements: each stands alone.
func TestAfterACancelledWriteOnSQLiteAStatementStandsAlone(t *testing.T) {
	each(t, embedded, func(t *testing.T, d database) {
		db := d.open(t)
		things(t, db)
		tx := begin(t, db, nil)
		require.NoError(t, insert(t.Context(), tx, "VALUES (3, 0)"))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.Error(t, insert(ctx, tx, "WITH RECURSIVE s(n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM s) SELECT n, 0 FROM s")) // endless
		require.NoError(t, insert(t.Context(), tx, "VALUES (4, 0)"))
		require.Equal(t, []int{1, 2, 4}, survivors(t, db, tx.Rollback))
	})
}
