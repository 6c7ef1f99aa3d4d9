package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/sqlstore"
)

// database is one database/sql driver; dsn makes a fresh database.
type database struct {
	name    string
	dialect sqlstore.Dialect
	driver  string
	dsn     func(t testing.TB) string
}

func sqliteFile(options string) func(t testing.TB) string {
	return func(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "test.db") + "?" + options }
}

// mariadb makes DSNs with these parameters.
func mariadb(params string) func(t testing.TB) string {
	return func(t testing.TB) string { return services.MariaDB(t) + "?" + params }
}

var (
	databases = []database{
		{"modernc", sqlstore.SQLite, "sqlite", sqliteFile("_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")},
		{"mattn", sqlstore.SQLite, "sqlite3", sqliteFile("_busy_timeout=5000&_journal_mode=WAL&_synchronous=FULL&_txlock=immediate")},
		{"pgx", sqlstore.Postgres, "pgx", services.Postgres},
		{"pq", sqlstore.Postgres, "postgres", services.Postgres},
		{"mysql", sqlstore.MySQL, "mysql", mariadb("")},
		{"mysql, interpolating", sqlstore.MySQL, "mysql", mariadb("interpolateParams=true&clientFoundRows=true&parseTime=true")},
	}
	embedded = databases[:2]
	servers  = databases[2:4] // PostgreSQL
	mariadbs = databases[4:]
	// deferred are SQLite databases whose transactions take no lock at first,
	// and whose driver does not wait for one.
	deferred = []database{
		{"modernc", sqlstore.SQLite, "sqlite", sqliteFile("_pragma=journal_mode(WAL)")},
		{"mattn", sqlstore.SQLite, "sqlite3", sqliteFile("_busy_timeout=0&_journal_mode=WAL")},
	}
)

// each runs the test on every driver.
func each(t *testing.T, on []database, fn func(t *testing.T, d database)) {
	t.Helper()
	for _, d := range on {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			fn(t, d)
		})
	}
}

func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (d database) open(t testing.TB) *sql.DB { return open(t, d.driver, d.dsn(t)) }

// migrated opens a database and makes a store in it.
func (d database) migrated(t testing.TB, opts *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := d.open(t)
	return d.store(t, db, opts), db
}

func (d database) store(t testing.TB, db *sql.DB, opts *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(db, d.dialect, opts)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(context.WithoutCancel(t.Context())))
	return s
}

// together runs fn n times at once and joins the errors.
func together(n int, fn func(i int) error) error {
	begin := make(chan struct{})
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			errs[i] = fn(i)
		})
	}
	close(begin)
	all.Wait()
	return errors.Join(errs...)
}
