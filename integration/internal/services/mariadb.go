package services

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// MariaDB returns the DSN of a new, empty database on a real MariaDB, for
// go-sql-driver/mysql. It is dropped when the test ends, open connections
// notwithstanding.
func MariaDB(t testing.TB) string {
	t.Helper()
	server := testenv.Lookup(t, "MariaDB", MariaDBEnv)
	db, err := sql.Open("mysql", server)
	require.NoError(t, err)
	// The test's context is cancelled before its cleanups run.
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { require.NoError(t, db.Close()) })

	var version string
	require.NoError(t, db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version))
	version, _, _ = strings.Cut(version, "-") // the rest names the packager
	tookPart(t, "mariadb", version)

	name := "test_" + strings.ToLower(rand.Text())
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		disconnect(ctx, t, db, name)
		_, err := db.ExecContext(ctx, "DROP DATABASE "+name)
		require.NoError(t, err)
	})

	config, err := mysql.ParseDSN(server)
	require.NoError(t, err)
	config.DBName = name
	return config.FormatDSN()
}

// disconnect ends the connections to the database: a transaction left open on
// one would keep the tables from being dropped.
func disconnect(ctx context.Context, t testing.TB, db *sql.DB, name string) {
	t.Helper()
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
	require.NoError(t, err)
	defer rows.Close() // read to the end below
	var ids []int64
	for rows.Next() {
		var id int64
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	for _, id := range ids {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)) // an error where it has just ended
	}
}
