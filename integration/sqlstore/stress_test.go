package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// stress is many writers on few keys, each told what became of its commits.
type stress struct {
	t    *testing.T
	s    *sqlstore.Store
	db   *sql.DB
	keys []string

	mu        sync.Mutex
	committed map[string]bool // blob names
	abandoned map[string]bool
	lost      int // every race, or the time
}

func (x *stress) told(in store.Intent, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var conflict *store.ConflictError
	switch {
	case err == nil:
		x.committed[in.BlobName] = true
	case errors.As(err, &conflict):
		if conflict.Retryable {
			x.lost++
		} else if in.Expect == store.Always() {
			return fmt.Errorf("Always was refused: %w", err)
		}
	case errors.Is(err, store.ErrBusy), sqlstore.IsRetryable(err):
		x.lost++
	default:
		return err
	}
	return nil
}

func (x *stress) insert(ctx context.Context, key string, expect store.Condition) (store.Intent, bool, error) {
	id := fmt.Sprintf("s%d", serial.Add(1))
	in, err := x.s.InsertIntent(ctx, store.InsertParams{
		ID: id, Holder: "h", Key: key, Expect: expect, BlobName: "blob/" + id, TTL: time.Hour, MaxPending: time.Hour,
	})
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
		return in, false, nil
	}
	return in, err == nil, err
}

// put commits one upload, or three in a transaction of ours or the caller's.
func (x *stress) put(ctx context.Context, r *rand.Rand) error {
	n := 1
	if r.IntN(4) == 0 {
		n = len(x.keys)
	}
	var ins []store.Intent
	var p []store.CommitParams
	for _, at := range r.Perm(len(x.keys))[:n] {
		expect := store.Always()
		if o, err := x.s.GetObject(ctx, x.keys[at]); err == nil && n == 1 && r.IntN(2) == 0 {
			expect = store.IfVersion(o.Version)
		} else if n == 1 && r.IntN(3) == 0 {
			expect = store.IfAbsent()
		}
		in, ok, err := x.insert(ctx, x.keys[at], expect)
		if err != nil || !ok {
			return err
		}
		if r.IntN(2) == 0 { // the keep-alive
			if _, err := x.s.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: 1, TTL: time.Hour}); err != nil && !errors.Is(err, store.ErrBusy) {
				return err
			}
		}
		ins = append(ins, in)
		one := commit(in, 1)
		one.Random = r.Uint32()
		p = append(p, one)
	}
	var err error
	if r.IntN(2) == 0 {
		_, err = x.s.CommitObjects(ctx, p)
	} else {
		err = x.s.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := x.s.Tx(tx).CommitObjects(ctx, p)
			if errors.Is(err, store.ErrConflict) && r.IntN(2) == 0 {
				return errors.Join(err, tx.Commit()) // as a caller does who swallows it
			}
			return err
		})
	}
	for _, in := range ins {
		if err := x.told(in, err); err != nil {
			return err
		}
	}
	return nil
}

func (x *stress) other(ctx context.Context, r *rand.Rand) error {
	key := x.keys[r.IntN(len(x.keys))]
	var err error
	switch r.IntN(5) {
	case 0, 1:
		_, err = x.s.DeleteObject(ctx, store.DeleteParams{Key: key, If: store.Always()})
	case 2:
		_, err = x.s.SetObjectMetadata(ctx, store.MetadataParams{Key: key, If: store.Always(), Random: r.Uint32()})
	case 3:
		var in store.Intent
		var ok bool
		if in, ok, err = x.insert(ctx, key, store.Always()); err == nil && ok {
			in, err = x.s.Abandon(ctx, store.AbandonParams{ID: in.ID, Version: 1})
			if err == nil && in.State == store.Abandoned {
				x.mu.Lock()
				x.abandoned[in.BlobName] = true
				x.mu.Unlock()
			}
		}
	case 4: // a sweeper that seals, and leaves what is retired to be counted
		var c store.Claimed
		if c, err = x.s.Claim(ctx, store.ClaimParams{Limit: 5, Lease: time.Millisecond}); err == nil {
			var all []store.IntentSettlement
			for _, in := range c.Intents {
				if in.State == store.Sealing {
					all = append(all, store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToDone})
				}
			}
			_, err = x.s.SettleIntents(ctx, all)
		}
	}
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.Retryable || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBusy) {
		return nil
	}
	return err
}

func (x *stress) names(query string) map[string]bool {
	rows, err := x.db.QueryContext(x.t.Context(), query)
	require.NoError(x.t, err)
	defer rows.Close()
	names := map[string]bool{}
	for rows.Next() {
		var name string
		require.NoError(x.t, rows.Scan(&name))
		require.False(x.t, names[name], "%s twice", name)
		names[name] = true
	}
	require.NoError(x.t, rows.Err())
	return names
}

// Every upload that was told "committed" is an object or was retired, once;
// every other is neither.
func (x *stress) run(workers, rounds int) {
	seed := rand.Uint64()
	err := together(workers, func(i int) error {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for range rounds {
			step := x.put
			if r.IntN(3) == 0 {
				step = x.other
			}
			if err := step(x.t.Context(), r); err != nil {
				return fmt.Errorf("seed %d, worker %d: %w", seed, i, err)
			}
		}
		return nil
	})
	require.NoError(x.t, err)
	got := x.names("SELECT blob_name FROM blobtx_objects UNION ALL SELECT blob_name FROM blobtx_retired")
	require.Equal(x.t, x.committed, got)
	sealed := x.names("SELECT blob_name FROM blobtx_intents WHERE state IN ('sealing', 'done')")
	require.Equal(x.t, x.committed, sealed)
	for name := range x.abandoned {
		require.False(x.t, got[name])
	}
	x.t.Logf("%d committed, %d lost", len(x.committed), x.lost)
}

func TestManyWritersOnFewKeys(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			s, db := d.migrated(t, nil)
			workers := 16
			if d.dialect == sqlstore.SQLite {
				db.SetMaxOpenConns(2)
				workers = 4
			}
			x := &stress{t: t, s: s, db: db, keys: []string{"a", "b", "c"}, committed: map[string]bool{}, abandoned: map[string]bool{}}
			x.run(workers, 60)
			require.NotEmpty(t, x.committed)
		})
	}
}

// The same where every statement is SERIALIZABLE unless it says otherwise.
func TestManyWritersWhereSerializableIsTheDefault(t *testing.T) {
	for _, d := range servers {
		t.Run(d.name, func(t *testing.T) {
			dsn := d.dsn(t)
			var name string
			admin := open(t, d.driver, dsn)
			require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
			_, err := admin.ExecContext(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_isolation = 'serializable'")
			require.NoError(t, err)
			db := open(t, d.driver, dsn)
			x := &stress{t: t, s: d.store(t, db, nil), db: db, keys: []string{"a", "b", "c"}, committed: map[string]bool{}, abandoned: map[string]bool{}}
			x.run(8, 25)
			require.NotEmpty(t, x.committed)
		})
	}
}
