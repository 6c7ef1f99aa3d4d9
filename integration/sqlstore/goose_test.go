package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

var gooseDialects = map[sqlstore.Dialect]goose.Dialect{
	sqlstore.SQLite: goose.DialectSQLite3, sqlstore.Postgres: goose.DialectPostgres, sqlstore.MySQL: goose.DialectMySQL,
}

// goose is that tool over the files as they are.
func (d database) goose(t testing.TB, db *sql.DB) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(gooseDialects[d.dialect], db, sqlstore.Migrations(d.dialect))
	require.NoError(t, err)
	return p
}

// versions are the schema versions that there are files for.
func (d database) versions(t testing.TB) []int64 {
	t.Helper()
	names, err := fs.Glob(sqlstore.Migrations(d.dialect), "*.up.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	all := make([]int64, len(names))
	for i := range all {
		all[i] = int64(i + 1)
	}
	return all
}

// schema describes every table and index of a store with the default prefix, as
// the database itself does.
func (d database) schema(t testing.TB, db *sql.DB) []string {
	t.Helper()
	queries := map[sqlstore.Dialect]string{
		sqlstore.SQLite: `SELECT coalesce(sql, name) FROM sqlite_master WHERE tbl_name LIKE 'blobtx\_%' ESCAPE '\'`,
		sqlstore.Postgres: `SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default, collation_name)
			FROM information_schema.columns WHERE table_name LIKE 'blobtx\_%'
			UNION ALL SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'blobtx\_%'`,
		sqlstore.MySQL: `SELECT concat_ws(' ', table_name, column_name, column_type, is_nullable, column_default, collation_name)
			FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name LIKE 'blobtx\_%'
			UNION ALL SELECT concat_ws(' ', table_name, index_name, non_unique, seq_in_index, column_name, sub_part)
			FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name LIKE 'blobtx\_%'`,
	}
	lines := query(t, db, queries[d.dialect]+" ORDER BY 1")
	require.Greater(t, len(lines), 7)
	return lines
}

// query returns the only column of a query.
func query(t testing.TB, db *sql.DB, text string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(context.WithoutCancel(t.Context()), text)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var one string
		require.NoError(t, rows.Scan(&one))
		all = append(all, one)
	}
	require.NoError(t, rows.Err())
	return all
}

// works: the tables take a commit.
func works(t testing.TB, s *sqlstore.Store, key string) {
	t.Helper()
	require.NoError(t, s.Check(t.Context()))
	_, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, key, store.IfAbsent()), 1)})
	require.NoError(t, err)
}

// The files under goose make what Migrate makes, and Migrate knows it.
func TestMigrateAfterGooseDoesNothing(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db, w := d.openCounted(t)
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		results, err := d.goose(t, db).Up(t.Context())
		require.NoError(t, err)
		require.Len(t, results, len(d.versions(t)))
		for _, r := range results {
			require.False(t, r.Empty, r.String())
		}
		require.NoError(t, s.Check(t.Context()))
		w.take()
		require.NoError(t, s.Migrate(t.Context()))
		for _, sent := range w.take() {
			require.NotRegexp(t, `\b(CREATE|ALTER|DROP|INSERT|UPDATE|DELETE)\b`, sent)
		}
		works(t, s, "k")

		other := d.open(t)
		d.store(t, other, nil)
		require.Equal(t, d.schema(t, other), d.schema(t, db))
	})
}

// A database that Migrate has made is not goose's yet: where DDL is transactional
// goose stops at a table that is there, and nothing has changed. Its own list of
// versions has to be told what was applied; from then on either may go on.
func TestGooseAfterMigrateMustBeTold(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		works(t, s, "before")
		was := d.schema(t, db)
		p := d.goose(t, db)
		if _, err := p.Up(t.Context()); d.dialect != sqlstore.MySQL { // whose files can be run again
			var partial *goose.PartialError
			require.ErrorAs(t, err, &partial)
			require.Empty(t, partial.Applied)
			require.ErrorContains(t, err, "already exists")
		}
		works(t, s, "between")
		known, err := p.GetDBVersion(t.Context())
		require.NoError(t, err)
		for _, v := range d.versions(t)[known:] { // the recipe
			_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)", v))
			require.NoError(t, err)
		}
		pending, err := p.HasPending(t.Context())
		require.NoError(t, err)
		require.False(t, pending)
		results, err := p.Up(t.Context())
		require.NoError(t, err)
		require.Empty(t, results)
		require.NoError(t, s.Migrate(t.Context()))
		works(t, s, "after")
		require.Equal(t, was, d.schema(t, db))
		_, err = s.GetObject(t.Context(), "before")
		require.NoError(t, err)
	})
}

// The files have no way down: what names blobs is not dropped by a tool's
// "down", which only forgets that it was applied.
func TestGooseDownDropsNothing(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		p := d.goose(t, db)
		_, err := p.Up(t.Context())
		require.NoError(t, err)
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		works(t, s, "k")
		was := d.schema(t, db)
		results, err := p.DownTo(t.Context(), 0)
		require.NoError(t, err)
		for _, r := range results {
			require.True(t, r.Empty, r.String())
		}
		require.Equal(t, was, d.schema(t, db))
		require.NoError(t, s.Migrate(t.Context()))
		_, err = s.GetObject(t.Context(), "k")
		require.NoError(t, err)
	})
}

// With another prefix or schema the files must be rewritten, which is Migrate's
// work: both may live in one database with those that goose has made.
func TestGooseAndMigrateUnderAnotherPrefixShareADatabase(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		_, err := d.goose(t, db).Up(t.Context())
		require.NoError(t, err)
		was := d.schema(t, db)
		own := d.store(t, db, &sqlstore.Options{Prefix: "own_"})
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		works(t, own, "k")
		_, err = s.GetObject(t.Context(), "k")
		require.ErrorIs(t, err, store.ErrNotFound)
		works(t, s, "k")
		require.Equal(t, was, d.schema(t, db))
		require.NotContains(t, strings.Join(was, "\n"), "own_")
	})
}
