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
