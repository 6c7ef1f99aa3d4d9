package services

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // creates and drops the tests' databases
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// Postgres returns the URL of a new, empty database on a real PostgreSQL. It is
// dropped when the test ends, open connections notwithstanding. The URL suits
// pgx and lib/pq.
func Postgres(t testing.TB) string {
	t.Helper()
	server := testenv.Lookup(t, "PostgreSQL", PostgresEnv)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	// The test's context is cancelled before its cleanups run.
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { require.NoError(t, db.Close()) })

	var version string
	require.NoError(t, db.QueryRowContext(ctx, "SHOW server_version").Scan(&version))
	version, _, _ = strings.Cut(version, " ") // the rest names the packager
	tookPart(t, "postgresql", version)

	name := "test_" + strings.ToLower(rand.Text())
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})

	dsn, err := url.Parse(server)
	require.NoError(t, err)
	dsn.Path = "/" + name
	return dsn.String()
}
