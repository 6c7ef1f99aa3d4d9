package wire

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// postgres is a database and a proxy before it.
type postgres struct {
	proxy   *wire.Proxy
	direct  *sql.DB
	through string // the URL through the proxy
	clock   atomic.Int64
	calm    *sqlstore.Store
}

func newPostgres(t *testing.T) *postgres {
	dsn := services.Postgres(t)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	p := &postgres{proxy: wire.New(t, u.Host, wire.Postgres), direct: openSQL(t, "pgx", dsn)}
	// No server dies here: nothing is shown by waiting for a disk. It holds for
	// new sessions, so the one that said it must go.
	_, err = p.direct.ExecContext(t.Context(), "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET synchronous_commit = off")
	require.NoError(t, err)
	p.direct.SetMaxIdleConns(0)
	p.direct.SetMaxIdleConns(2)
	u.Host = p.proxy.Addr()
	p.through = u.String()
	p.calm = p.store(t, p.direct)
	require.NoError(t, p.calm.Migrate(t.Context()))
	_, err = p.direct.ExecContext(t.Context(), "CREATE TABLE notes (id TEXT PRIMARY KEY)")
	require.NoError(t, err)
	return p
}

func (p *postgres) store(t testing.TB, db *sql.DB) *sqlstore.Store {
	s, err := sqlstore.New(db, sqlstore.Postgres, &sqlstore.Options{
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

// drivers are the ways to a PostgreSQL. Each returns what the library runs on,
// and how the application opens its own transactions.
var drivers = map[string]func(t testing.TB, p *postgres) (*sqlstore.Store, func(context.Context, func(transaction) error) error){
	"pgx stdlib": func(t testing.TB, p *postgres) (*sqlstore.Store, func(context.Context, func(transaction) error) error) {
		db := pgxSQL(t, p)
		s := p.store(t, db)
		return s, sqlTransactions(db, s)
	},
	"pq": func(t testing.TB, p *postgres) (*sqlstore.Store, func(context.Context, func(transaction) error) error) {
		db := openSQL(t, "postgres", p.through)
		s := p.store(t, db)
		return s, sqlTransactions(db, s)
	},
	"native pgx": func(t testing.TB, p *postgres) (*sqlstore.Store, func(context.Context, func(transaction) error) error) {
		config, err := pgxpool.ParseConfig(p.through)
		require.NoError(t, err)
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		s := p.store(t, pgxSQL(t, p))
		return s, pgxTransactions(pool, s)
	},
}

// pgxSQL never pings, which it would do when a machine is slow: the requests of
// an operation must be the same every time.
func pgxSQL(t testing.TB, p *postgres) *sql.DB {
	config, err := pgx.ParseConfig(p.through)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func pgxTransactions(pool *pgxpool.Pool, s *sqlstore.Store) func(context.Context, func(transaction) error) error {
	return func(ctx context.Context, fn func(transaction) error) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) //nolint:errcheck // nothing after a commit, and an error after a cut
		return fn(transaction{
			rows:   s.TxOf(pgxQuerier{tx}),
			exec:   func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err },
			commit: func() error { return tx.Commit(ctx) },
		})
	}
}

// pgxQuerier is all that native pgx needs.
type pgxQuerier struct{ pgx.Tx }

func (q pgxQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := q.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (q pgxQuerier) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := q.Tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// inMemory is a container of package memstore.
type inMemory struct{ *memstore.Blobs }

func (m inMemory) contents(testing.TB) map[string][]byte { return m.Snapshot() }

func (m inMemory) sealed(_ testing.TB, name string) bool {
	info, ok := m.Get(name)
	return ok && info.Sealed
}

// world makes a new one, in empty tables, over connections of its own.
func (p *postgres) world(t testing.TB, driver string) *world {
	s, tx := drivers[driver](t, p)
	blobs := memstore.NewBlobs(nil)
	w := &world{t: t, tx: tx, direct: p.direct, container: inMemory{blobs}, clock: &p.clock, land: p.proxy.Land}
	p.coordinators(t, w, s, blobs, blobs)
	return w
}

// coordinators makes the processes of a world: over the rows and the blobs that
// fail, and over calm ones.
func (p *postgres) coordinators(t testing.TB, w *world, rows store.RowStore, blobs, calm store.BlobStore) {
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

// TestEveryLostMessageToPostgres: each request of each operation is lost, or its
// reply is, and once more with the server out of reach from then on. The
// operation ends as committed exactly once or not at all, and says so truthfully.
func TestEveryLostMessageToPostgres(t *testing.T) {
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := newPostgres(t)
			for _, op := range operations() {
				if driver == "native pgx" && !op.ownTx {
					continue // pgx stdlib's
				}
				faults := wire.Faults
				if driver != "pgx stdlib" || op.commits == 0 {
					faults = faults[:3] // the others ask of what is unknown, are no driver's doing, and slow for the pauses between tries
				}
				t.Run(op.name, func(t *testing.T) {
					loseEach(t, &p.proxy.Fate, faults, op, func(t testing.TB) *world { return p.world(t, driver) })
				})
			}
		})
	}
}
