package sqlstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

func mysqlFile(t *testing.T) string {
	t.Helper()
	files := sqlstore.Migrations(sqlstore.MySQL)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	require.Len(t, names, 1)
	text, err := fs.ReadFile(files, names[0])
	require.NoError(t, err)
	return string(text)
}

// Every statement commits by itself: whichever was the last before a crash, the
// next Migrate finishes.
func TestMySQLMigrateFinishesWhatACrashInterrupted(t *testing.T) {
	statements := strings.Split(mysqlFile(t), ";\n")
	for n := range statements {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := mariadbs[0]
			db := d.open(t)
			for _, statement := range statements[:n] {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			s, err := sqlstore.New(db, d.dialect, nil)
			require.NoError(t, err)
			if n < len(statements)-1 {
				require.ErrorIs(t, s.Check(t.Context()), store.ErrSetup)
			}
			require.NoError(t, s.Migrate(t.Context()))
			require.NoError(t, s.Check(t.Context()))
			upload(t, s, "k", store.Always())
		})
	}
}

// Another tool runs the file as it is.
func TestMySQLFilesRunAsTheyAre(t *testing.T) {
	d := database{"multi", sqlstore.MySQL, "mysql", mariadb("multiStatements=true")}
	db := d.open(t)
	_, err := db.ExecContext(t.Context(), mysqlFile(t))
	require.NoError(t, err)
	s, err := sqlstore.New(db, d.dialect, nil)
	require.NoError(t, err)
	require.NoError(t, s.Check(t.Context()))
	require.NoError(t, s.Migrate(t.Context()))
}

func TestMySQLMigrateWaitsItsTurnAndGivesItBack(t *testing.T) {
	d := mariadbs[0]
	db := d.open(t)
	db.SetMaxOpenConns(2)
	other, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer other.Close()
	// In one process with other tests that migrate, it is waited for.
	var got int
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT GET_LOCK(CONCAT('blobtx migrate ', MD5(DATABASE())), 60)").Scan(&got))
	require.Equal(t, 1, got)
	s, err := sqlstore.New(db, d.dialect, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, s.Migrate(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, s.Check(t.Context()), store.ErrSetup)
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT RELEASE_LOCK(CONCAT('blobtx migrate ', MD5(DATABASE())))").Scan(&got))
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT IS_FREE_LOCK(CONCAT('blobtx migrate ', MD5(DATABASE())))").Scan(&got))
	require.Equal(t, 1, got)
}

func TestMySQLServersAndSessionsThatCannotWork(t *testing.T) {
	for name, d := range map[string]database{
		"8.0.1 or":   {"old", sqlstore.MySQL, "mysql 5.7.44", mariadb("")},
		"autocommit": {"autocommit", sqlstore.MySQL, "mysql", mariadb("autocommit=0")},
	} {
		dsn := d.dsn(t)
		db := open(t, d.driver, dsn)
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		if d.name == "old" {
			require.NoError(t, s.Migrate(t.Context()))
		} else {
			require.ErrorContains(t, s.Migrate(t.Context()), name)
			plain, _, _ := strings.Cut(dsn, "?")
			mariadbs[0].store(t, open(t, "mysql", plain), nil)
		}
		_, err = s.InsertIntent(t.Context(), store.InsertParams{ID: "i", Holder: "h", Key: "k", BlobName: "b"})
		for _, err := range []error{err, s.Check(t.Context())} {
			require.ErrorIs(t, err, store.ErrSetup)
			require.ErrorContains(t, err, name)
		}
	}
}
