package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/sqlstore"
)

// server is a database to measure rows on.
type server struct {
	name    string
	dialect sqlstore.Dialect
	driver  string
	workers int     // how many use it at once
	pairs   float64 // the least ratio of commit pairs
	// numbers is a query whose rows are 1 to the count given as text.
	numbers string
	// refresh tells the planner how large a table has become.
	refresh string
	// fresh returns the DSN of a new database and what removes it.
	fresh func(ctx context.Context) (dsn string, remove func(), err error)
}

var servers = []server{
	{
		name: "postgres", dialect: sqlstore.Postgres, driver: "pgx", workers: goroutines, pairs: 1.1,
		numbers: `SELECT n FROM generate_series(1, COUNT) AS s(n)`, refresh: `ANALYZE TABLE_`, fresh: freshPostgres,
	},
	{
		name: "mariadb", dialect: sqlstore.MySQL, driver: "mysql", workers: goroutines, pairs: 1.0,
		numbers: `SELECT seq AS n FROM seq_1_to_COUNT`, refresh: `ANALYZE TABLE TABLE_`, fresh: freshMariaDB,
	},
	{
		name: "sqlite", dialect: sqlstore.SQLite, driver: "sqlite", workers: 1, pairs: 1.0,
		numbers: `WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < COUNT) SELECT n FROM s`,
		refresh: `ANALYZE TABLE_`, fresh: freshSQLite,
	},
}

func databaseName() string { return fmt.Sprintf("bench_%d", time.Now().UnixNano()) }

func freshPostgres(ctx context.Context) (string, func(), error) {
	url := os.Getenv(services.PostgresEnv)
	base, options, _ := strings.Cut(url, "?")
	i := strings.LastIndex(base, "/")
	if i < 0 {
		return "", nil, fmt.Errorf("%s is not set: run it with make bench", services.PostgresEnv)
	}
	name := databaseName()
	remove, err := create(ctx, "pgx", url, name, " WITH (FORCE)")
	return base[:i+1] + name + "?" + options, remove, err
}

func freshMariaDB(ctx context.Context) (string, func(), error) {
	dsn := os.Getenv(services.MariaDBEnv)
	i := strings.LastIndex(dsn, "/")
	if i < 0 {
		return "", nil, fmt.Errorf("%s is not set: run it with make bench", services.MariaDBEnv)
	}
	name := databaseName()
	_, options, _ := strings.Cut(dsn[i+1:], "?")
	remove, err := create(ctx, "mysql", dsn, name, "")
	return dsn[:i+1] + name + "?interpolateParams=true&" + options, remove, err
}

func create(ctx context.Context, driver, dsn, name, force string) (remove func(), err error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		_ = db.Close()
		return nil, err
	}
	return func() {
		_, _ = db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name+force)
		_ = db.Close()
	}, nil
}

func freshSQLite(context.Context) (string, func(), error) {
	dir, err := os.MkdirTemp("", "blobtx-bench-")
	return "file:" + filepath.Join(dir, "rows.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate",
		func() { _ = os.RemoveAll(dir) }, err
}

// measured opens a new database for the measure and removes it.
func (s server) measured(ctx context.Context, measure func(db *sql.DB, rows *sqlstore.Store) error) error {
	dsn, remove, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	defer remove()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(s.workers + 4)
	db.SetMaxIdleConns(s.workers + 4)
	if s.workers == 1 {
		db.SetMaxOpenConns(1)
	}
	rows, err := sqlstore.New(db, s.dialect, nil)
	if err != nil {
		return err
	}
	if err := rows.Migrate(ctx); err != nil {
		return err
	}
	return measure(db, rows)
}

// text puts the server's placeholders in the place of question marks.
func (s server) text(query string) string {
	if s.driver != "pgx" {
		return query
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}
