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

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// snapshot begins a transaction that has read: at REPEATABLE READ and above it
// sees nothing newer from here on.
func snapshot(t *testing.T, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // an error where the case has ended it
	var n int
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM blobtx_objects").Scan(&n))
	return tx
}

func onEachLevel(t *testing.T, fn func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel)) {
	each(t, servers, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) { fn(t, s, db, level) })
		}
	})
}

// raced is the only answer to a lost race when the snapshot is old: roll back
// and run the same transaction again.
func raced(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrTxUnusable)
	require.True(t, sqlstore.IsRetryable(err), "%v", err)
	var state interface{ SQLState() string }
	require.True(t, errors.As(err, &state), "the driver's error is out of reach")
	require.Equal(t, "40001", state.SQLState())
}

func commitTx(t *testing.T, s *sqlstore.Store, tx *sql.Tx, ins ...store.Intent) ([]store.Object, error) {
	t.Helper()
	var p []store.CommitParams
	for _, in := range ins {
		p = append(p, commit(in, 1))
	}
	return s.Tx(tx).CommitObjects(t.Context(), p)
}

func TestAnUploadYoungerThanTheSnapshot(t *testing.T) {
	onEachLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel) {
		tx := snapshot(t, db, level)
		_, err := commitTx(t, s, tx, upload(t, s, level.String(), store.IfAbsent()))
		if level == sql.LevelReadCommitted {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.NotErrorIs(t, err, store.ErrIntentLost)
		require.ErrorContains(t, err, "begin it after the upload")
	})
}

func TestAHeartbeatBetweenSnapshotAndCommit(t *testing.T) {
	onEachLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel) {
		in := upload(t, s, level.String(), store.IfAbsent())
		tx := snapshot(t, db, level)
		beaten, err := s.Heartbeat(t.Context(), store.HeartbeatParams{ID: in.ID, Version: 1, TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, int64(1), beaten.Beats)
		_, err = commitTx(t, s, tx, in)
		if level == sql.LevelReadCommitted {
			require.NoError(t, err)
			return
		}
		raced(t, err)
		require.NoError(t, tx.Rollback())
		tx = snapshot(t, db, level)
		_, err = commitTx(t, s, tx, in)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
	})
}

// Whatever was committed after the snapshot, the answer is right: a conflict,
// a lost race, or a success at READ COMMITTED where the condition holds.
func TestTheObjectChangesBetweenSnapshotAndCommit(t *testing.T) {
	onEachLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel) {
		for name, c := range map[string]struct {
			before bool
			want   func(o store.Object) store.Condition
			holds  bool // at READ COMMITTED
		}{
			"created, IfAbsent":   {false, func(store.Object) store.Condition { return store.IfAbsent() }, false},
			"created, Always":     {false, func(store.Object) store.Condition { return store.Always() }, true},
			"replaced, IfVersion": {true, func(o store.Object) store.Condition { return store.IfVersion(o.Version) }, false},
			"replaced, IfExists":  {true, func(store.Object) store.Condition { return store.IfExists() }, true},
			"replaced, Always":    {true, func(store.Object) store.Condition { return store.Always() }, true},
		} {
			t.Run(name, func(t *testing.T) {
				key := level.String() + name
				var o store.Object
				if c.before {
					objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, store.IfAbsent()), 1)})
					require.NoError(t, err)
					o = objects[0]
				}
				in, other := upload(t, s, key, c.want(o)), upload(t, s, key, store.Always())
				tx := snapshot(t, db, level)
				objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(other, 2)})
				require.NoError(t, err)
				_, err = commitTx(t, s, tx, in)
				switch {
				case level != sql.LevelReadCommitted:
					raced(t, err)
					require.NoError(t, tx.Rollback())
				case c.holds:
					require.NoError(t, err)
					require.NoError(t, tx.Commit())
					return
				default:
					require.ErrorIs(t, err, store.ErrConflict)
					require.NoError(t, tx.Commit())
				}
				got, err := s.GetObject(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, objects[0], got)
			})
		}
	})
}

func TestADeleteOrChangeOfMetadataAfterTheSnapshot(t *testing.T) {
	onEachLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel) {
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
			tx := snapshot(t, db, level)
			changed, err := s.SetObjectMetadata(t.Context(), store.MetadataParams{Key: key, If: store.Always(), Random: 5})
			require.NoError(t, err)
			err = step(s.Tx(tx), key, store.IfVersion(objects[0].Version))
			if level == sql.LevelReadCommitted {
				require.ErrorIs(t, err, store.ErrConflict)
				require.NoError(t, step(s.Tx(tx), key, store.IfVersion(changed.Version)))
				require.NoError(t, tx.Commit())
				continue
			}
			// The old version may be what the snapshot shows, and then it is a
			// lost race; it may also be seen to differ, and then a conflict.
			raced(t, err)
		}
	})
}

func TestAConflictThatTheCallerCommitsLeavesNothing(t *testing.T) {
	onEachLevel(t, func(t *testing.T, s *sqlstore.Store, db *sql.DB, level sql.IsolationLevel) {
		key := level.String()
		late := upload(t, s, key+"/z", store.IfAbsent())
		objects, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key+"/z", store.IfAbsent()), 1)})
		require.NoError(t, err)
		a, b := upload(t, s, key+"/a", store.IfAbsent()), upload(t, s, key+"/b", store.IfAbsent())
		for _, batch := range [][]store.Intent{{late}, {late, a, b}} {
			tx := snapshot(t, db, level)
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
