package wire

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// database is one on a real server, and a proxy before it.
type database struct {
	dialect sqlstore.Dialect
	drivers map[string]driver
	proxy   *wire.Proxy
	direct  *sql.DB
	through string   // the URL through the proxy
	barrier []string // what waits, on one connection, for every transaction to end
	clock   atomic.Int64
	calm    *sqlstore.Store
}

const tables = "notes, blobtx_objects, blobtx_intents, blobtx_retired"

// transactions is how the application opens its own.
type transactions func(ctx context.Context, fn func(tx transaction) error) error

// driver is one way to a server. It returns what the library runs on, and how
// the application opens its own transactions.
type driver func(t testing.TB, p *database) (*sqlstore.Store, transactions)

// migrate makes the tables, the application's own included.
func (p *database) migrate(t testing.TB) {
	p.calm = p.store(t, p.direct)
	require.NoError(t, p.calm.Migrate(t.Context()))
	_, err := p.direct.ExecContext(t.Context(), "CREATE TABLE notes (id VARCHAR(40) PRIMARY KEY)")
	require.NoError(t, err)
}

func (p *database) store(t testing.TB, db *sql.DB) *sqlstore.Store {
	s, err := sqlstore.New(db, p.dialect, &sqlstore.Options{
		LockWait:        200 * time.Millisecond, // a late COMMIT holds its locks until it lands
		TestClockOffset: func() time.Duration { return time.Duration(p.clock.Load()) },
	})
	require.NoError(t, err)
	return s
}

func openSQL(t testing.TB, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// inMemory is a container of package memstore.
type inMemory struct{ *memstore.Blobs }

func (m inMemory) contents(testing.TB) map[string][]byte { return m.Snapshot() }

func (m inMemory) sealed(_ testing.TB, name string) bool {
	info, ok := m.Get(name)
	return ok && info.Sealed
}

// world makes a new one, in empty tables, over connections of its own.
func (p *database) world(t testing.TB, driver string) *world {
	s, tx := p.drivers[driver](t, p)
	blobs := memstore.NewBlobs(nil)
	w := &world{t: t, tx: tx, direct: p.direct, barrier: p.barrier, container: inMemory{blobs}, clock: &p.clock, land: p.proxy.Land}
	p.coordinators(t, w, s, blobs, blobs)
	return w
}

// coordinators makes the processes of a world: over the rows and the blobs that
// fail, and over calm ones.
func (p *database) coordinators(t testing.TB, w *world, rows store.RowStore, blobs, calm store.BlobStore) {
	for _, c := range []struct {
		at    **blobtx.Coordinator
		rows  store.RowStore
		blobs store.BlobStore
		later bool
	}{{&w.Coordinator, rows, blobs, false}, {&w.calm, p.calm, calm, false}, {&w.sealsLater, p.calm, calm, true}} {
		var err error
		*c.at, err = blobtx.New(c.rows, c.blobs, &blobtx.Options{SealLater: c.later})
		require.NoError(t, err)
	}
	p.clock.Store(0) // statements have it in their text
	w.clear()
}

// loseEach runs the operation through the driver with each of the faults.
func (p *database) loseEach(t *testing.T, driver string, op operation, faults []wire.Fault) {
	t.Run(op.name, func(t *testing.T) {
		loseEach(t, &p.proxy.Fate, faults, op, func(t testing.TB) *world { return p.world(t, driver) })
	})
}
