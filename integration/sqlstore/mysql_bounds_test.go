package sqlstore_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// bounding are the two ways in which waits are bounded.
var bounding = []database{mariadbs[0], mariadbs[1], asMySQL}

// Another transaction has the rows: who needs them gives up and has changed
// nothing, who can do without passes over them. The other has no gaps: an insert
// beside the rows is free.
func TestMySQLWaitsForLocksAreBounded(t *testing.T) {
	each(t, bounding, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, "k", store.Always()), 1)})
		require.NoError(t, err)
		in := upload(t, s, "k", store.Always())
		tx := begin(t, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		for _, table := range []string{"objects SET size = size + 1", "intents SET beats = beats + 1"} {
			_, err = tx.ExecContext(t.Context(), "UPDATE blobtx_"+table)
			require.NoError(t, err)
		}
		waits := []string{"take over", "abandon", "commit", "delete", "metadata"}
		for name, step := range steps(s, in) {
			err := within(t, name, step)
			if slices.Contains(waits, name) {
				require.ErrorIs(t, err, store.ErrBusy, name)
				require.Equal(t, 1205, mysqlNumber(t, err))
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

// So are waits for a table that somebody alters.
func TestMySQLWaitsForTablesAreBounded(t *testing.T) {
	each(t, bounding, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		in := upload(t, s, "k", store.Always())
		other, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer other.Close()
		_, err = other.ExecContext(t.Context(), "LOCK TABLES blobtx_intents WRITE")
		require.NoError(t, err)
		all := steps(s, in)
		for _, name := range []string{"insert", "take over", "abandon", "commit", "heartbeat", "settle", "claim", "forget"} {
			require.ErrorIs(t, within(t, name, all[name]), store.ErrBusy, name)
		}
		_, err = other.ExecContext(t.Context(), "UNLOCK TABLES")
		require.NoError(t, err)
		for _, name := range []string{"insert", "heartbeat", "commit"} {
			require.NoError(t, within(t, name, all[name]), name)
		}
	})
}

// Neither the pool's connections nor the caller's transaction keep the bounds,
// nor the level of a transaction of ours, whatever became of the step.
func TestMySQLWhatASessionIsGivenItGetsBack(t *testing.T) {
	each(t, bounding, func(t *testing.T, d database) {
		inner := d.dsn
		d.dsn = func(t testing.TB) string { return inner(t) + "&innodb_lock_wait_timeout=33&lock_wait_timeout=44" }
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		db.SetMaxOpenConns(1)
		require.Equal(t, session{33, 44, "REPEATABLE-READ", 1}, settings(t, db))
		in := upload(t, s, "k", store.Always())
		for name, step := range steps(s, in) {
			_ = step(t.Context()) // some cannot succeed after others
			require.Equal(t, session{33, 44, "REPEATABLE-READ", 1}, settings(t, db), name)
		}
		in = upload(t, s, "k", store.Always())
		tx := begin(t, db, nil)
		_, err := s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		require.Equal(t, session{33, 44, "REPEATABLE-READ", 1}, settings(t, tx))
		require.NoError(t, tx.Rollback())

		db.SetMaxOpenConns(2)
		tx = begin(t, db, nil)
		_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		for name, step := range steps(s, in) {
			_ = within(t, name, step) // several give up
			require.Equal(t, session{33, 44, "REPEATABLE-READ", 1}, settings(t, db), name)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		for name, step := range steps(s, in) {
			require.ErrorIs(t, step(gone), context.Canceled, name)
		}
		require.Equal(t, session{33, 44, "REPEATABLE-READ", 1}, settings(t, db))
		require.NoError(t, tx.Rollback())
	})
}

// In a transaction of the caller's the bound is the caller's, and what it says is
// passed on.
func TestMySQLACallersOwnBound(t *testing.T) {
	d := database{"impatient", sqlstore.MySQL, "mysql", mariadb("innodb_lock_wait_timeout=1")}
	s, db := d.migrated(t, nil)
	in := upload(t, s, "k", store.Always())
	first, second := begin(t, db, nil), begin(t, db, nil)
	_, err := s.Tx(first).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
	require.NoError(t, err)
	bound := s.Tx(second)
	for range 2 { // the second time nothing is waited for
		_, err = bound.CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.ErrorIs(t, err, store.ErrBusy)
		require.True(t, sqlstore.IsRetryable(err))
		require.Equal(t, 1205, mysqlNumber(t, err))
	}
	require.NoError(t, second.Rollback())
	require.NoError(t, first.Commit())
}

// session is what a connection brings along.
type session struct {
	rowWait, tableWait int
	level              string
	autocommit         int
}

func settings(t *testing.T, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (s session) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@tx_isolation, @@autocommit").
		Scan(&s.rowWait, &s.tableWait, &s.level, &s.autocommit))
	return s
}
