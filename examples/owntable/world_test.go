package owntable_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/examples/owntable"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/testenv"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// world is one database with the application's table, one container, and one
// library over them.
type world struct {
	t     *testing.T
	table owntable.Table
	db    *sql.DB
	rows  *sqlstore.Store
	blobs *azstore.Store
	clock atomic.Int64
	*blobtx.Coordinator
}

// each runs the test with every library on every database that it has.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	for name, open := range map[string]func(t *testing.T) *world{
		"SQLite/database-sql":     func(t *testing.T) *world { return onSQLite(t).withDatabaseSQL("") },
		"SQLite/sqlx":             func(t *testing.T) *world { return onSQLite(t).withSQLX("sqlite3", "") },
		"SQLite/gorm":             func(t *testing.T) *world { w := onSQLite(t); return w.withGORM(gormsqlite.Dialector{Conn: w.db}) },
		"PostgreSQL/database-sql": func(t *testing.T) *world { w, _ := onPostgres(t); return w.withDatabaseSQL(owntable.ForUpdate) },
		"PostgreSQL/sqlx":         func(t *testing.T) *world { w, _ := onPostgres(t); return w.withSQLX("pgx", owntable.ForUpdate) },
		"PostgreSQL/gorm": func(t *testing.T) *world {
			w, _ := onPostgres(t)
			return w.withGORM(gormpostgres.New(gormpostgres.Config{Conn: w.db}))
		},
		"PostgreSQL/pgx": func(t *testing.T) *world { w, dsn := onPostgres(t); return w.withPGX(dsn) },
		"MariaDB/sqlx":   func(t *testing.T) *world { return onMariaDB(t).withSQLX("mysql", owntable.ForUpdate) },
		"MariaDB/gorm": func(t *testing.T) *world {
			w := onMariaDB(t)
			return w.withGORM(gormmysql.New(gormmysql.Config{Conn: w.db}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, open(t))
		})
	}
}

func (w *world) withDatabaseSQL(lock string) *world {
	w.table = owntable.DatabaseSQL{Files: w.Coordinator, Rows: w.rows, Lock: lock}
	return w
}

func (w *world) withSQLX(driver, lock string) *world {
	w.table = owntable.SQLX{Files: w.Coordinator, Rows: w.rows, DB: sqlx.NewDb(w.db, driver), Lock: lock}
	return w
}

func (w *world) withGORM(d gorm.Dialector) *world {
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard})
	require.NoError(w.t, err)
	w.table = owntable.GORM{Files: w.Coordinator, Rows: w.rows, DB: db}
	return w
}

func (w *world) withPGX(dsn string) *world {
	pool, err := pgxpool.New(context.WithoutCancel(w.t.Context()), dsn)
	require.NoError(w.t, err)
	w.t.Cleanup(pool.Close)
	w.table = owntable.PGX{Files: w.Coordinator, Rows: w.rows, Pool: pool}
	return w
}

const pragmas = "&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"

func onSQLite(t *testing.T) *world {
	file := "file:" + filepath.Join(t.TempDir(), "app.db")
	return open(t, sqlstore.SQLite, "sqlite", file+"?_pragma=foreign_keys(1)"+pragmas, owntable.Schema)
}

// own makes a schema (PostgreSQL) or database (MariaDB) that ends with the test.
func own(t *testing.T, driver, server, what, drop string) string {
	db, err := sql.Open(driver, server)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	name := "owntable_" + strings.ToLower(rand.Text())
	ctx := context.WithoutCancel(t.Context())
	_, err = db.ExecContext(ctx, "CREATE "+what+" "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.ExecContext(ctx, "DROP "+what+" "+name+drop)
		require.NoError(t, err)
	})
	return name
}

func onPostgres(t *testing.T) (w *world, dsn string) {
	server := testenv.Lookup(t, "PostgreSQL", testenv.PostgresEnv)
	u, err := url.Parse(server)
	require.NoError(t, err)
	query := u.Query()
	query.Set("search_path", own(t, "pgx", server, "SCHEMA", " CASCADE"))
	u.RawQuery = query.Encode()
	return open(t, sqlstore.Postgres, "pgx", u.String(), owntable.Schema), u.String()
}

func onMariaDB(t *testing.T) *world {
	server := testenv.Lookup(t, "MariaDB", testenv.MariaDBEnv)
	config, err := mysql.ParseDSN(server)
	require.NoError(t, err)
	config.DBName = own(t, "mysql", server, "DATABASE", "")
	config.InterpolateParams = true
	return open(t, sqlstore.MySQL, "mysql", config.FormatDSN(), owntable.SchemaMySQL)
}

func open(t *testing.T, d sqlstore.Dialect, driver, dsn, schema string) *world {
	w := &world{t: t}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	w.db = db
	w.rows, err = sqlstore.New(db, d, &sqlstore.Options{TestClockOffset: func() time.Duration { return time.Duration(w.clock.Load()) }})
	require.NoError(t, err)
	require.NoError(t, w.rows.Migrate(t.Context()))
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)
	client, err := azfake.New(nil).ContainerClient("invoices", nil)
	require.NoError(t, err)
	w.blobs, err = azstore.New(client, nil)
	require.NoError(t, err)
	w.Coordinator, err = blobtx.New(w.rows, w.blobs, nil)
	require.NoError(t, err)
	return w
}

// stage uploads what a change brings; nothing shows it yet.
func (w *world) stage(key, body string, condition blobtx.Condition) *blobtx.Upload {
	up, err := w.Stage(w.t.Context(), key, strings.NewReader(body), &blobtx.PutOptions{If: condition})
	require.NoError(w.t, err)
	w.t.Cleanup(up.Release)
	return up
}

// invoices is the business table.
func (w *world) invoices() []owntable.Invoice {
	rows, err := w.db.QueryContext(w.t.Context(), "SELECT id, cents, version, file FROM invoices ORDER BY id")
	require.NoError(w.t, err)
	defer rows.Close()
	var all []owntable.Invoice
	for rows.Next() {
		var row owntable.Invoice
		require.NoError(w.t, rows.Scan(&row.ID, &row.Cents, &row.Version, &row.File))
		all = append(all, row)
	}
	require.NoError(w.t, rows.Err())
	return all
}

// files is what readers see: "key: bytes".
func (w *world) files() []string {
	var all []string
	for o, err := range w.List(w.t.Context(), nil) {
		require.NoError(w.t, err)
		all = append(all, o.Key+": "+read(w.Coordinator, o.Key))
	}
	return all
}

// container is the names of all blobs, listed; named are those of objects.
func (w *world) container() (listed, named []string) {
	for info, err := range w.blobs.List(w.t.Context(), store.ListBlobsParams{}) {
		require.NoError(w.t, err)
		listed = append(listed, info.Name)
	}
	for o, err := range w.List(w.t.Context(), nil) {
		require.NoError(w.t, err)
		named = append(named, o.Blob.Name)
	}
	slices.Sort(named)
	slices.Sort(listed)
	return listed, named
}

// swept lets every deadline pass; then there is no blob but the objects'.
func (w *world) swept() {
	for range 3 {
		w.clock.Add(int64(49 * time.Hour))
		_, err := w.Sweep(w.t.Context(), nil)
		require.NoError(w.t, err)
	}
	listed, named := w.container()
	require.Equal(w.t, named, listed)
}
