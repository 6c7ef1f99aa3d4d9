package integration

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

// Both drivers, the one in Go and the one in C, must bring a SQLite that has
// what the statements need.
func TestSQLiteDriversHaveReturning(t *testing.T) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		t.Run(driver, func(t *testing.T) {
			db, err := sql.Open(driver, filepath.Join(t.TempDir(), "test.db"))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			_, err = db.ExecContext(t.Context(), "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
			require.NoError(t, err)
			var id int64
			require.NoError(t, db.QueryRowContext(t.Context(),
				"INSERT INTO things (name) VALUES ('a') ON CONFLICT DO NOTHING RETURNING id").Scan(&id))
			err = db.QueryRowContext(t.Context(),
				"INSERT INTO things (name) VALUES ('a') ON CONFLICT DO NOTHING RETURNING id").Scan(&id)
			require.ErrorIs(t, err, sql.ErrNoRows)
		})
	}
}
