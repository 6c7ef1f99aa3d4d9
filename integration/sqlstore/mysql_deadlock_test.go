package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// Two callers meet each other's objects in opposite orders. The one that loses
// has no transaction any more while its *sql.Tx goes on taking statements, each
// of which would stand alone: none of ours is sent.
func TestMySQLADeadlockOfCallersIsRetryable(t *testing.T) {
	each(t, mariadbs, func(t *testing.T, d database) {
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
			_, errs[i] = steps[i].CommitObjects(t.Context(), []store.CommitParams{commit(uploads[i][1], 1)})
			return nil
		}))
		lost := 0
		if errs[0] == nil {
			lost = 1
		}
		require.NoError(t, errs[1-lost])
		require.ErrorIs(t, errs[lost], store.ErrTxUnusable)
		require.True(t, sqlstore.IsRetryable(errs[lost]))
		require.Equal(t, 1213, mysqlNumber(t, errs[lost]))
		w.take()
		_, err := steps[lost].DeleteObject(t.Context(), store.DeleteParams{Key: "a", If: store.Always()})
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.Empty(t, w.take())
		require.NoError(t, txs[lost].Rollback())
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

// When the first to insert a row rolls back, those who waited for it deadlock.
// In transactions of our own nobody hears of it.
func TestMySQLTheFirstCreatorRollsBack(t *testing.T) {
	const waiters = 6
	each(t, append(mariadbs[:len(mariadbs):len(mariadbs)], asMySQL), func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		for _, want := range []store.Condition{store.IfAbsent(), store.Always()} {
			key := want.String()
			tx := begin(t, db, nil)
			_, err := s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, want), 1)})
			require.NoError(t, err)
			var p []store.CommitParams
			for range waiters {
				one := commit(upload(t, s, key, want), 1)
				one.Creates = want == store.IfAbsent()
				p = append(p, one)
			}
			errs := make([]error, waiters)
			require.NoError(t, together(waiters+1, func(i int) error {
				if i < waiters {
					_, errs[i] = s.CommitObjects(t.Context(), p[i:i+1])
					return nil
				}
				return errors.Join(untilWaiting(t.Context(), db, waiters), tx.Rollback())
			}))
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				} else {
					require.ErrorIs(t, err, store.ErrExists)
				}
			}
			if want == store.Always() {
				require.Equal(t, waiters, won)
			} else {
				require.Equal(t, 1, won)
			}
		}
	})
}

// untilWaiting returns when this many inserts of objects have been under way for
// so long that they must be waiting. (innodb_trx, which would say so, is not
// made anew for those who look at it often.)
func untilWaiting(ctx context.Context, db *sql.DB, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for waiting := 0; waiting < n; {
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM information_schema.processlist
			WHERE db = DATABASE() AND info LIKE '%INSERT INTO%_objects%' AND time_ms > 100 AND id <> CONNECTION_ID()`).Scan(&waiting)
		if err != nil {
			return err
		}
	}
	return nil
}

// A caller's transaction commits many uploads in the order that suits it least,
// and after each the sweeper does all it ever does, at the same rows, in the
// order of their ids. It neither waits for the caller nor keeps it waiting.
func TestMySQLSweepersAndACallersTransaction(t *testing.T) {
	each(t, append(mariadbs[:len(mariadbs):len(mariadbs)], asMySQL), func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
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
				require.NoError(t, together(3, func(int) error { return sweepAll(t.Context(), s, ins, nil) }))
			}
			_, err := bound.DeleteObject(t.Context(), store.DeleteParams{Key: "e", If: store.Always()})
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			require.NoError(t, sweepAll(t.Context(), s, ins, &settled))
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

// Writers on few keys, where every transaction is SERIALIZABLE unless it says
// otherwise, where a row that changed after a snapshot is an error, and on MySQL.
func TestMySQLManyWritersHoweverTheSessionIsSetUp(t *testing.T) {
	for _, d := range []database{
		{"serializable", sqlstore.MySQL, "mysql", mariadb("tx_isolation='SERIALIZABLE'&interpolateParams=true")},
		{"snapshot isolation", sqlstore.MySQL, "mysql", mariadb("innodb_snapshot_isolation=ON&interpolateParams=true")},
		asMySQL,
	} {
		t.Run(d.name, func(t *testing.T) {
			s, db := d.migrated(t, nil)
			x := &stress{t: t, s: s, db: db, keys: []string{"a", "b", "c"}, committed: map[string]bool{}, abandoned: map[string]bool{}}
			x.run(8, 25)
			require.NotEmpty(t, x.committed)
		})
	}
}
