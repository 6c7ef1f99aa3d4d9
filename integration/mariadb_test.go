package integration

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
)

// Durable commits, a default collation that is not byte order and a time zone
// that is not universal time are what make a green run on this server mean
// something.
func TestMariaDBIsSetUpToFindMistakes(t *testing.T) {
	db, err := sql.Open("mysql", services.MariaDB(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var version, database string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT VERSION(), DATABASE()").Scan(&version, &database))
	require.Contains(t, version, "MariaDB")
	require.Contains(t, database, "test_")
	var durable, hours int
	require.NoError(t, db.QueryRowContext(t.Context(),
		"SELECT @@innodb_flush_log_at_trx_commit, TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), NOW())").Scan(&durable, &hours))
	require.Equal(t, 1, durable)
	require.NotZero(t, hours)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE words (word VARCHAR(9) PRIMARY KEY)")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO words VALUES ('é'), ('E ')")
	require.ErrorContains(t, err, "Duplicate")
}
