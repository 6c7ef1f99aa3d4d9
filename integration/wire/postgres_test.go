package wire

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/sqlstore"
)

func newPostgres(t *testing.T) *database {
	dsn := services.Postgres(t)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	p := &database{
		dialect: sqlstore.Postgres, drivers: postgresDrivers, proxy: wire.New(t, u.Host, wire.Postgres), direct: openSQL(t, "pgx", dsn),
		barrier: []string{"BEGIN", "LOCK TABLE " + tables + " IN ACCESS EXCLUSIVE MODE", "ROLLBACK"},
	}
	// No server dies here: nothing is shown by waiting for a disk. It holds for
	// new sessions, so the one that said it must go.
	_, err = p.direct.ExecContext(t.Context(), "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET synchronous_commit = off")
	require.NoError(t, err)
	p.direct.SetMaxIdleConns(0)
	p.direct.SetMaxIdleConns(2)
	u.Host = p.proxy.Addr()
	p.through = u.String()
	p.migrate(t)
	return p
}

var postgresDrivers = map[string]driver{
	"pgx stdlib": func(t testing.TB, p *database) (*sqlstore.Store, transactions) {
		db := pgxSQL(t, p)
		s := p.store(t, db)
		return s, sqlTransactions(db, s)
	},
	"pq": func(t testing.TB, p *database) (*sqlstore.Store, transactions) {
		db := openSQL(t, "postgres", p.through)
		s := p.store(t, db)
		return s, sqlTransactions(db, s)
	},
	"native pgx": func(t testing.TB, p *database) (*sqlstore.Store, transactions) {
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
func pgxSQL(t testing.TB, p *database) *sql.DB {
	config, err := pgx.ParseConfig(p.through)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func pgxTransactions(pool *pgxpool.Pool, s *sqlstore.Store) transactions {
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

// TestEveryLostMessageToPostgres: each request of each operation is lost, or its
// reply is, and once more with the server out of reach from then on. The
// operation ends as committed exactly once or not at all, and says so truthfully.
func TestEveryLostMessageToPostgres(t *testing.T) {
	for driver := range postgresDrivers {
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
				p.loseEach(t, driver, op, faults)
			}
		})
	}
}
