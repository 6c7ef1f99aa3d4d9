package integration

import (
	"bytes"
	"database/sql"
	"io"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
)

func TestPostgresAnswersEveryDriver(t *testing.T) {
	dsn := services.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			db, err := sql.Open(driver, dsn)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			var version, database string
			require.NoError(t, db.QueryRowContext(t.Context(),
				"SELECT version(), current_database()").Scan(&version, &database))
			require.Contains(t, version, "PostgreSQL")
			require.Contains(t, database, "test_")
		})
	}
}

// Durable commits and a default collation that is not byte order are what make
// a green run on this server mean something.
func TestPostgresIsSetUpToFindMistakes(t *testing.T) {
	db, err := sql.Open("pgx", services.Postgres(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var fsync string
	require.NoError(t, db.QueryRowContext(t.Context(), "SHOW fsync").Scan(&fsync))
	require.Equal(t, "on", fsync)
	var linguistic, bytewise bool
	require.NoError(t, db.QueryRowContext(t.Context(),
		`SELECT 'a' < 'B', 'a' COLLATE "C" < 'B' COLLATE "C"`).Scan(&linguistic, &bytewise))
	require.True(t, linguistic)
	require.False(t, bytewise)
}

func TestAzuriteStoresABlob(t *testing.T) {
	client := services.AzuriteContainer(t)
	body := []byte("written through the real SDK")
	blob := client.NewBlockBlobClient("folder/name with space")
	_, err := blob.UploadBuffer(t.Context(), body, nil)
	require.NoError(t, err)
	response, err := blob.DownloadStream(t.Context(), nil)
	require.NoError(t, err)
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.True(t, bytes.Equal(body, got))
}
