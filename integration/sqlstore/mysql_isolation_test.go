package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// How MySQL and MariaDB keep a transaction from what came after its snapshot.
// A locking read sees the newest row at every level, so a step of ours does not
// lose a race; MariaDB's innodb_snapshot_isolation, the default from 11.6 on,
// makes it error 1020. At SERIALIZABLE whatever was read is locked, so nothing
// comes after it.
type mysqlLevel struct {
	sql.IsolationLevel
	snapshots bool // innodb_snapshot_isolation
}

// races reports whether a row that changed after the snapshot is a lost race.
func (l mysqlLevel) races() bool { return l.snapshots && l.IsolationLevel != sql.LevelReadCommitted }

// locks reports whether the reads of the transaction keep others from writing.
func (l mysqlLevel) locks() bool { return l.IsolationLevel == sql.LevelSerializable }

// begin begins a transaction that has read every object, and not only an index.
func (l mysqlLevel) begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx := begin(t, db, &sql.TxOptions{Isolation: l.IsolationLevel})
	var n int
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(metadata) FROM blobtx_objects").Scan(&n))
	return tx
}

func onEachMySQLLevel(t *testing.T, fn func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel)) {
	for name, snapshots := range map[string]bool{"OFF": false, "ON": true} {
		d := database{"snapshot isolation " + name, sqlstore.MySQL, "mysql", mariadb("innodb_snapshot_isolation=" + name)}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s, db := d.migrated(t, &sqlstore.Options{LockWait: short})
			for _, level := range levels {
				t.Run(level.String(), func(t *testing.T) { fn(t, s, db, mysqlLevel{level, snapshots}) })
			}
		})
	}
}

// outraced is the answer to a lost race: roll back and run the same transaction
// again.
func outraced(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrTxUnusable)
	require.True(t, sqlstore.IsRetryable(err), "%v", err)
	require.Equal(t, 1020, mysqlNumber(t, err))
}

func TestMySQLAnUploadYoungerThanTheSnapshot(t *testing.T) {
	onEachMySQLLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel) {
		tx := level.begin(t, db)
		in := upload(t, s, level.String(), store.IfAbsent())
		objects, err := commitTx(t, s, tx, in)
		if level.races() {
			outraced(t, err)
			require.NoError(t, tx.Rollback())
			return
		}
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		got, err := s.GetObject(t.Context(), level.String())
		require.NoError(t, err)
		require.Equal(t, objects[0], got)
	})
}

func TestMySQLAHeartbeatBetweenSnapshotAndCommit(t *testing.T) {
	onEachMySQLLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel) {
		in := upload(t, s, level.String(), store.IfAbsent())
		tx := level.begin(t, db)
		beaten, err := s.Heartbeat(t.Context(), store.HeartbeatParams{ID: in.ID, Version: 1, TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, int64(1), beaten.Beats)
		_, err = commitTx(t, s, tx, in)
		if level.races() {
			outraced(t, err)
			require.NoError(t, tx.Rollback())
			tx = level.begin(t, db)
			_, err = commitTx(t, s, tx, in)
		}
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		_, err = s.GetObject(t.Context(), level.String())
		require.NoError(t, err)
	})
}

// Whatever was committed after the snapshot, the answer is right: a conflict
// where the condition does not hold for the object as it is, a success where it
// does, and otherwise a lost race.
func TestMySQLTheObjectChangesBetweenSnapshotAndCommit(t *testing.T) {
	onEachMySQLLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel) {
		for name, c := range map[string]struct {
			before bool
			delete bool // what the other does; else it puts
			want   func(o store.Object) store.Condition
			holds  bool
		}{
			"created, IfAbsent":   {false, false, func(store.Object) store.Condition { return store.IfAbsent() }, false},
			"created, Always":     {false, false, func(store.Object) store.Condition { return store.Always() }, true},
			"replaced, IfVersion": {true, false, func(o store.Object) store.Condition { return store.IfVersion(o.Version) }, false},
			"replaced, IfExists":  {true, false, func(store.Object) store.Condition { return store.IfExists() }, true},
			"replaced, Always":    {true, false, func(store.Object) store.Condition { return store.Always() }, true},
			"deleted, IfVersion":  {true, true, func(o store.Object) store.Condition { return store.IfVersion(o.Version) }, false},
			"deleted, IfExists":   {true, true, func(store.Object) store.Condition { return store.IfExists() }, false},
			"deleted, Always":     {true, true, func(store.Object) store.Condition { return store.Always() }, true},
		} {
			t.Run(name, func(t *testing.T) {
				key := level.String() + name
				var before store.Object
				if c.before {
					objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, store.IfAbsent()), 1)})
					require.NoError(t, err)
					before = objects[0]
				}
				in := upload(t, s, key, c.want(before))
				tx := level.begin(t, db)
				now, err := meddle(t, s, key, c.delete)
				if level.locks() {
					require.ErrorIs(t, err, store.ErrBusy, "it came between")
					_, err = commitTx(t, s, tx, in)
					require.NoError(t, err)
					require.NoError(t, tx.Commit())
					return
				}
				require.NoError(t, err)
				objects, err := commitTx(t, s, tx, in)
				switch {
				case level.races():
					outraced(t, err)
					require.NoError(t, tx.Rollback())
				case c.holds:
					require.NoError(t, err)
					require.NoError(t, tx.Commit())
					now = &objects[0]
				default:
					var conflict *store.ConflictError
					require.ErrorAs(t, err, &conflict)
					require.Equal(t, now, conflict.Current)
					require.Equal(t, now == nil, conflict.Deleted)
					require.False(t, conflict.Retryable)
					require.NoError(t, tx.Commit())
				}
				got, err := s.GetObject(t.Context(), key)
				if now == nil {
					require.ErrorIs(t, err, store.ErrNotFound)
					return
				}
				require.NoError(t, err)
				require.Equal(t, *now, got)
			})
		}
	})
}

// meddle puts or deletes the object and returns it as it is then.
func meddle(t *testing.T, s *sqlstore.Store, key string, remove bool) (*store.Object, error) {
	t.Helper()
	if remove {
		_, err := s.DeleteObject(t.Context(), store.DeleteParams{Key: key, If: store.Always()})
		return nil, err
	}
	objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, store.Always()), 2)})
	if err != nil {
		return nil, err
	}
	return &objects[0], nil
}

func TestMySQLADeleteOrChangeOfMetadataAfterTheSnapshot(t *testing.T) {
	onEachMySQLLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel) {
		for name, step := range map[string]func(tx store.RowTx, key string, want store.Condition) error{
			"delete": func(tx store.RowTx, key string, want store.Condition) error {
				_, err := tx.DeleteObject(t.Context(), store.DeleteParams{Key: key, If: want})
				return err
			},
			"metadata": func(tx store.RowTx, key string, want store.Condition) error {
				_, err := tx.SetObjectMetadata(t.Context(), store.MetadataParams{Key: key, If: want})
				return err
			},
		} {
			key := level.String() + name
			objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, store.IfAbsent()), 1)})
			require.NoError(t, err)
			tx := level.begin(t, db)
			changed, err := s.SetObjectMetadata(t.Context(), store.MetadataParams{Key: key, If: store.Always(), Random: 5})
			if level.locks() {
				require.ErrorIs(t, err, store.ErrBusy)
				require.NoError(t, step(s.Tx(tx), key, store.IfVersion(objects[0].Version)))
				require.NoError(t, tx.Commit())
				continue
			}
			require.NoError(t, err)
			bound := s.Tx(tx)
			err = step(bound, key, store.IfVersion(objects[0].Version))
			if level.races() {
				outraced(t, err)
				require.NoError(t, tx.Rollback())
				continue
			}
			require.ErrorIs(t, err, store.ErrConflict)
			require.NoError(t, step(bound, key, store.IfVersion(changed.Version)))
			require.NoError(t, tx.Commit())
		}
	})
}

func TestMySQLAConflictThatTheCallerCommitsLeavesNothing(t *testing.T) {
	onEachMySQLLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level mysqlLevel) {
		key := level.String()
		late := upload(t, s, key+"/z", store.IfAbsent())
		objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key+"/z", store.IfAbsent()), 1)})
		require.NoError(t, err)
		a, b := upload(t, s, key+"/a", store.IfAbsent()), upload(t, s, key+"/b", store.IfAbsent())
		for _, batch := range [][]store.Intent{{late}, {late, a, b}} {
			tx := level.begin(t, db)
			_, err := commitTx(t, s, tx, batch...)
			var conflict *store.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, &objects[0], conflict.Current)
			require.NotErrorIs(t, err, store.ErrTxUnusable)
			require.NoError(t, tx.Commit())
		}
		for _, in := range []store.Intent{a, b, late} {
			now, err := s.GetIntents(t.Context(), []string{in.ID})
			require.NoError(t, err)
			require.Equal(t, []store.Intent{in}, now)
		}
		page, err := s.ListObjects(t.Context(), store.ListParams{Prefix: key, Limit: 9})
		require.NoError(t, err)
		require.Equal(t, objects, page)
	})
}
