package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

const claimers = 16

// sweepers is what 16 sweepers have got hold of, and how often.
type sweepers struct {
	mu      sync.Mutex
	intents map[string]int
	retired map[string]int
	busy    int // sweepers that got anything
}

// claimAll runs 16 sweepers until each finds nothing more. One that is kept
// waiting is an error when ctx ends.
func claimAll(ctx context.Context, s *sqlstore.Store) (*sweepers, error) {
	x := &sweepers{intents: map[string]int{}, retired: map[string]int{}}
	err := together(claimers, func(int) error {
		for n := 0; ; n++ {
			c, err := s.Claim(ctx, store.ClaimParams{Limit: 20, Lease: time.Hour})
			if err != nil {
				return fmt.Errorf("claim %d: %w", n, err)
			}
			if len(c.Intents)+len(c.Retired) == 0 {
				return nil
			}
			if err := x.took(c, n == 0); err != nil {
				return err
			}
		}
	})
	return x, err
}

func (x *sweepers) took(c store.Claimed, first bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if first {
		x.busy++
	}
	for _, in := range c.Intents {
		if in.State == store.Uploading || in.Version > 2 || in.State == store.Abandoned && in.Attempts != 1 {
			return fmt.Errorf("intent %s came as %s, version %d, attempt %d", in.ID, in.State, in.Version, in.Attempts)
		}
		x.intents[in.ID]++
	}
	for _, r := range c.Retired {
		x.retired[r.BlobName]++
	}
	return nil
}

// once requires that exactly these were claimed, each by one sweeper.
func once(t *testing.T, db *sql.DB, query string, got map[string]int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	want := map[string]int{}
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		want[name] = 1
	}
	require.NoError(t, rows.Err())
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

const (
	dueIntents = "SELECT id FROM blobtx_intents WHERE id LIKE 'due%'"
	dueRetired = "SELECT blob_name FROM blobtx_retired WHERE blob_name LIKE 'due%'"
)

// backlog is what is due, in the three states that a sweeper acts on, among what
// is not: forgotten later, held, or due later.
func (d database) backlog(t *testing.T, db *sql.DB) {
	t.Helper()
	d.fill(t, db, "due", 1500, "CASE n % 3 WHEN 0 THEN 'uploading' WHEN 1 THEN 'abandoned' ELSE 'sealing' END", "1 + n % 7")
	d.fill(t, db, "later", 500, "CASE n % 2 WHEN 0 THEN 'uploading' ELSE 'sealing' END", fmt.Sprintf("%d + n %% 7", int64(never)))
	d.fill(t, db, "held", 500, "'held'", "NULL")
	d.fillIntents(t, db, "done", 500, "'done'", "1")
}

func TestSixteenClaimersTakeEachDueRowOnce(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: time.Minute, ConnWait: time.Minute})
		if d.dialect == sqlstore.SQLite {
			db.SetMaxOpenConns(1) // the one writer
		}
		d.backlog(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x, err := claimAll(ctx, s)
		require.NoError(t, err)
		require.Greater(t, x.busy, 1, "one sweeper did it all")
		once(t, db, dueIntents, x.intents)
		once(t, db, dueRetired, x.retired)
	})
}

// Transactions of callers are open and have locked due rows: an upload being
// committed, with the object and the name that it gives up, and a row of a
// settlement. The sweepers take all the others and do not wait: they have a
// minute, the locks are there for as long as they take, and waiting for one would
// outlast it.
func TestAnOpenTransactionStallsNoClaimer(t *testing.T) {
	each(t, append(servers[:len(servers):len(servers)], mariadbs...), func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: 5 * time.Minute, ConnWait: time.Minute})
		d.backlog(t, db)
		var kept []store.Intent
		var locks []*sql.Tx
		for _, id := range []string{"due000000003", "due000000006", "due000001500"} { // the first that are due, and the last
			in, err := s.GetIntents(t.Context(), []string{id})
			require.NoError(t, err)
			require.Equal(t, store.Uploading, in[0].State)
			tx := begin(t, db, nil)
			_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in[0], 1)})
			require.NoError(t, err)
			kept, locks = append(kept, in...), append(locks, tx)
		}
		retired := begin(t, db, nil)
		_, err := retired.ExecContext(t.Context(), "UPDATE blobtx_retired SET attempts = attempts WHERE blob_name = 'due000000007'")
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x, err := claimAll(ctx, s)
		require.NoError(t, err)
		once(t, db, dueIntents+" AND id NOT IN ('due000000003', 'due000000006', 'due000001500')", x.intents)
		once(t, db, dueRetired+" AND blob_name <> 'due000000007'", x.retired)

		// What the callers gave back is there to be claimed, and what they
		// committed is to be sealed.
		require.NoError(t, retired.Rollback())
		require.NoError(t, locks[0].Rollback())
		require.NoError(t, locks[1].Commit())
		require.NoError(t, locks[2].Commit())
		x, err = claimAll(ctx, s)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"due000000007": 1}, x.retired)
		require.Equal(t, map[string]int{kept[0].ID: 1, kept[1].ID: 1, kept[2].ID: 1}, x.intents)
		now, err := s.GetIntents(t.Context(), []string{kept[0].ID, kept[1].ID, kept[2].ID})
		require.NoError(t, err)
		for i, state := range []store.State{store.Abandoned, store.Sealing, store.Sealing} {
			require.Equal(t, state, now[i].State)
		}
	})
}

// SQLite has one writer at a time: a sweeper says that it is busy within its
// bound, and takes everything once the caller is done.
func TestAnOpenTransactionOnSQLiteIsBusy(t *testing.T) {
	each(t, []database{
		{"modernc", sqlstore.SQLite, "sqlite", sqliteFile("_pragma=busy_timeout(50)&_pragma=journal_mode(WAL)&_txlock=immediate")},
		{"mattn", sqlstore.SQLite, "sqlite3", sqliteFile("_busy_timeout=50&_journal_mode=WAL&_txlock=immediate")},
	}, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		d.backlog(t, db)
		in, err := s.GetIntents(t.Context(), []string{"due000000003"})
		require.NoError(t, err)
		tx := begin(t, db, nil)
		_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in[0], 1)})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, together(claimers, func(int) error {
			_, err := s.Claim(ctx, store.ClaimParams{Limit: 20, Lease: time.Hour})
			if !errors.Is(err, store.ErrBusy) {
				return fmt.Errorf("not busy: %w", err)
			}
			return nil
		}))
		require.NoError(t, tx.Commit())
		db.SetMaxOpenConns(1) // the one writer
		x, err := claimAll(ctx, s)
		require.NoError(t, err)
		once(t, db, dueIntents, x.intents)
	})
}
