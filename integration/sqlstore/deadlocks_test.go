package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// withLocks are the databases whose rows are locked one by one.
var withLocks = append(servers[:len(servers):len(servers)], mariadbs...)

// code is the server's own for an error, which the store's errors leave in reach.
func code(t *testing.T, err error) string {
	t.Helper()
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	var e *mysql.MySQLError
	require.True(t, errors.As(err, &e), "the driver's error is out of reach: %v", err)
	return fmt.Sprint(e.Number)
}

// Two callers meet each other's objects in opposite orders. The one that loses
// has no transaction any more (MariaDB) or one that refuses everything
// (PostgreSQL), while its *sql.Tx goes on taking statements: none of ours is sent.
func TestADeadlockOfCallersIsRetryable(t *testing.T) {
	each(t, withLocks, func(t *testing.T, d database) {
		db, w := d.openCounted(t)
		s := d.store(t, db, nil)
		var uploads [2][2]store.Intent // by transaction
		for i, keys := range [2][2]string{{"a", "b"}, {"b", "a"}} {
			for j, key := range keys {
				uploads[i][j] = upload(t, s, key, store.Always())
			}
		}
		txs := [2]*sql.Tx{begin(t, db, nil), begin(t, db, nil)}
		steps := [2]store.RowTx{s.Tx(txs[0]), s.Tx(txs[1])}
		for i, step := range steps {
			_, err := step.CommitObjects(t.Context(), []store.CommitParams{commit(uploads[i][0], 1)})
			require.NoError(t, err)
		}
		var errs [2]error
		require.NoError(t, together(2, func(i int) error {
			if _, errs[i] = steps[i].CommitObjects(t.Context(), []store.CommitParams{commit(uploads[i][1], 1)}); errs[i] == nil {
				return nil
			}
			w.take()
			_, err := steps[i].DeleteObject(t.Context(), store.DeleteParams{Key: "a", If: store.Always()})
			if !errors.Is(err, store.ErrTxUnusable) {
				return fmt.Errorf("a step after the deadlock: %w", err)
			}
			if sent := w.take(); slices.ContainsFunc(sent, func(text string) bool { return strings.Contains(text, "DELETE") }) {
				return fmt.Errorf("sent after the deadlock: %q", sent)
			}
			return txs[i].Rollback() // PostgreSQL: or the other goes on waiting
		}))
		lost := 0
		if errs[0] == nil {
			lost = 1
		}
		require.NoError(t, errs[1-lost])
		require.ErrorIs(t, errs[lost], store.ErrTxUnusable)
		require.True(t, sqlstore.IsRetryable(errs[lost]))
		require.Equal(t, map[sqlstore.Dialect]string{sqlstore.Postgres: "40P01", sqlstore.MySQL: "1213"}[d.dialect], code(t, errs[lost]))
		for _, in := range uploads[lost] {
			now, err := s.GetIntents(t.Context(), []string{in.ID})
			require.NoError(t, err)
			require.Equal(t, []store.Intent{in}, now)
		}
		require.NoError(t, txs[1-lost].Commit())

		require.NoError(t, s.InTx(t.Context(), nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := s.Tx(tx).CommitObjects(ctx, []store.CommitParams{commit(uploads[lost][0], 1), commit(uploads[lost][1], 1)})
			return err
		}))
		var retired int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM blobtx_retired").Scan(&retired))
		require.Equal(t, 2, retired)
	})
}

// A caller's transaction commits many uploads in the order that suits it least,
// and after each the sweeper does all it ever does, at the same rows, in the
// order of their ids. It neither waits for the caller nor keeps it waiting.
func TestSweepersAndACallersTransaction(t *testing.T) {
	each(t, append(withLocks[:len(withLocks):len(withLocks)], asMySQL), func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that waits for the caller waits for good
		defer cancel()
		keys := []string{"j", "i", "h", "g", "f", "e", "d", "c", "b", "a"}
		settled := 0
		for range 4 {
			ins := make([]store.Intent, len(keys))
			for i := range keys {
				ins[len(keys)-1-i] = upload(t, s, keys[len(keys)-1-i], store.Always()) // ids grow as keys do
			}
			tx := begin(t, db, nil)
			bound := s.Tx(tx)
			for i := range ins {
				_, err := bound.CommitObjects(t.Context(), []store.CommitParams{commit(ins[i], 1)})
				require.NoError(t, err)
				require.NoError(t, together(3, func(int) error { return sweepAll(ctx, s, ins, nil) }))
			}
			_, err := bound.DeleteObject(t.Context(), store.DeleteParams{Key: "e", If: store.Always()})
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			require.NoError(t, sweepAll(ctx, s, ins, &settled))
		}
		require.Equal(t, 4*len(keys), settled, "what was committed was settled in the end")
		var left int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM blobtx_intents) + (SELECT count(*) FROM blobtx_retired)").Scan(&left))
		require.Zero(t, left)
	})
}

// sweepAll is heartbeats, claims, settlements and forgetting.
func sweepAll(ctx context.Context, s *sqlstore.Store, ins []store.Intent, settled *int) error {
	var batch []store.IntentSettlement
	var errs []error
	for _, in := range ins {
		_, err := s.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: in.Version, TTL: time.Hour})
		errs = append(errs, err)
		batch = append(batch, store.IntentSettlement{ID: in.ID, State: store.Sealing, Version: in.Version + 1, To: store.ToDone})
	}
	claimed, err := s.Claim(ctx, store.ClaimParams{Limit: 100, Lease: time.Microsecond})
	errs = append(errs, err)
	n, err := s.SettleIntents(ctx, batch)
	errs = append(errs, err)
	if settled != nil {
		*settled += n
	}
	var names []store.RetiredSettlement
	for _, r := range claimed.Retired {
		names = append(names, store.RetiredSettlement{BlobName: r.BlobName, DueAt: r.DueAt, To: store.ToGone})
	}
	_, err = s.SettleRetired(ctx, names)
	errs = append(errs, err)
	_, err = s.Forget(ctx, 100)
	return errors.Join(append(errs, err)...)
}

// Callers commit their uploads from the last id to the first, and sweepers settle
// the same intents from the first to the last, all at full speed. None of the
// callers tries again: not one is the victim of a deadlock, nor told to.
func TestASettlementIsNeverTheCauseOfACallersDeadlock(t *testing.T) {
	const callers, rounds, ownUploads = 4, 15, 3
	each(t, withLocks, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		var ins []store.Intent
		var batch []store.IntentSettlement
		for n := range callers * rounds * ownUploads {
			in := upload(t, s, fmt.Sprintf("k%03d", n), store.Always())
			ins = append(ins, in)
			batch = append(batch, store.IntentSettlement{ID: in.ID, State: store.Sealing, Version: in.Version + 1, To: store.ToDone, In: time.Hour})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var running, settled atomic.Int64
		running.Store(callers)
		sweep := func() error {
			_, claim := s.Claim(ctx, store.ClaimParams{Limit: 100, Lease: time.Microsecond})
			n, settle := s.SettleIntents(ctx, batch)
			settled.Add(int64(n))
			return errors.Join(claim, settle)
		}
		require.NoError(t, together(callers+3, func(i int) error {
			if i >= callers {
				for running.Load() > 0 {
					if err := sweep(); err != nil {
						return fmt.Errorf("sweeper: %w", err)
					}
				}
				return nil
			}
			defer running.Add(-1)
			for round := range rounds {
				at := (round*callers + i) * ownUploads
				own := slices.Clone(ins[at : at+ownUploads])
				slices.Reverse(own)
				if err := commitSlowly(ctx, s, db, own); err != nil {
					return fmt.Errorf("caller %d, round %d: %w", i, round, err)
				}
			}
			return nil
		}))
		require.NoError(t, sweep())
		require.Equal(t, len(ins), int(settled.Load()), "each was settled once")
	})
}

// commitSlowly commits each upload by a step of its own, in a transaction that is
// never tried again.
func commitSlowly(ctx context.Context, s *sqlstore.Store, db *sql.DB, ins []store.Intent) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit
	bound := s.Tx(tx)
	for _, in := range ins {
		if _, err := bound.CommitObjects(ctx, []store.CommitParams{commit(in, 1)}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// stage makes uploads for CommitWith, over rows that are real.
func stage(t *testing.T, files *blobtx.Coordinator, keys ...string) (ups []*blobtx.Upload) {
	t.Helper()
	for _, key := range keys {
		up, err := files.Stage(t.Context(), key, strings.NewReader(key), &blobtx.PutOptions{If: blobtx.Always()})
		require.NoError(t, err)
		t.Cleanup(up.Release)
		ups = append(ups, up)
	}
	return ups
}

func coordinator(t *testing.T, s *sqlstore.Store) *blobtx.Coordinator {
	t.Helper()
	files, err := blobtx.New(s, memstore.NewBlobs(nil), nil)
	require.NoError(t, err)
	return files
}

// Two handlers change each other's rows and objects in opposite orders, and meet
// in the middle. CommitWith runs the one that lost again, and both end well.
func TestCommitWithRunsTheVictimOfADeadlockAgain(t *testing.T) {
	each(t, withLocks, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		things(t, db)
		files := coordinator(t, s)
		ups := [2][]*blobtx.Upload{stage(t, files, "a"), stage(t, files, "b")}
		var runs [2]int
		var met [2]chan struct{}
		for i := range met {
			met[i] = make(chan struct{})
		}
		require.NoError(t, together(2, func(i int) error {
			_, err := files.CommitWith(t.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
				runs[i]++
				return s.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
					if err := change(ctx, tx, i+1); err != nil {
						return err
					}
					if runs[i] == 1 { // both have the lock that the other wants
						close(met[i])
						<-met[1-i]
					}
					if err := change(ctx, tx, 2-i); err != nil {
						return err
					}
					_, err := commit(s.Tx(tx))
					return err
				})
			}, ups[i]...)
			return err
		}))
		require.Equal(t, 3, runs[0]+runs[1], "one of them ran once more")
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT sum(n) FROM things").Scan(&n))
		require.Equal(t, 4, n, "each change was made once")
		for _, key := range []string{"a", "b"} {
			_, err := files.Get(t.Context(), key)
			require.NoError(t, err)
		}
	})
}

// The same row changes after the snapshot of every run: each is a serialization
// failure. CommitWith pauses longer each time, stops after the fourth, and hands
// on what the server said. The upload is as it was.
func TestCommitWithStopsTryingAgain(t *testing.T) {
	snapshots := database{"mysql", sqlstore.MySQL, "mysql", mariadb("innodb_snapshot_isolation=ON")}
	each(t, append(servers[:len(servers):len(servers)], snapshots), func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		things(t, db)
		files := coordinator(t, s)
		up := stage(t, files, "k")
		var began []time.Time
		run := func(spoil bool) error {
			_, err := files.CommitWith(t.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
				began = append(began, time.Now())
				return s.InTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(ctx context.Context, tx *sql.Tx) error {
					var n int
					if err := tx.QueryRowContext(ctx, "SELECT n FROM things WHERE id = 1").Scan(&n); err != nil {
						return err
					}
					if _, err := commit(s.Tx(tx)); err != nil {
						return err
					}
					if spoil {
						if _, err := db.ExecContext(ctx, "UPDATE things SET n = n + 100 WHERE id = 1"); err != nil {
							return err
						}
					}
					return change(ctx, tx, 1)
				})
			}, up...)
			return err
		}
		err := run(true)
		require.Error(t, err)
		require.True(t, sqlstore.IsRetryable(err), "%v", err)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		require.Equal(t, map[sqlstore.Dialect]string{sqlstore.Postgres: "40001", sqlstore.MySQL: "1020"}[d.dialect], code(t, err))
		require.Len(t, began, 4)
		for i := range 3 { // 40, 80, 160 ms, plus or minus a quarter
			require.GreaterOrEqual(t, began[i+1].Sub(began[i]), 30*time.Millisecond<<i, "before run %d", i+2)
		}
		_, err = files.Get(t.Context(), "k")
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.NoError(t, run(false), "after the others have gone")
		_, err = files.Get(t.Context(), "k")
		require.NoError(t, err)
	})
}
