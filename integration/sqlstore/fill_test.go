package sqlstore_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
)

// never is a deadline of the far future, in µs.
const never = 4_000_000_000_000_000

// series are, per dialect, rows n from 1 to a count, and n as a name that
// sorts as n does.
var series = map[sqlstore.Dialect]struct{ rows, name string }{
	sqlstore.Postgres: {`SELECT n FROM generate_series(1, COUNT) AS s(n)`, `'PREFIX' || lpad(n::text, 9, '0')`},
	sqlstore.MySQL:    {`SELECT seq AS n FROM seq_1_to_COUNT`, `concat('PREFIX', CAST(lpad(n, 9, '0') AS BINARY))`},
	sqlstore.SQLite:   {`WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < COUNT) SELECT n FROM s`, `'PREFIX' || printf('%09d', n)`},
}

// fill makes n intents and n retired names whose names begin with the prefix.
// State and due, in µs, are expressions of n.
func (d database) fill(t testing.TB, db *sql.DB, prefix string, n int, state, due string) {
	t.Helper()
	d.fillIntents(t, db, prefix, n, state, due)
	d.insert(t, db, prefix, n, `INSERT INTO blobtx_retired (blob_name, intent_id, due_at) SELECT NAME, NAME, `+due)
}

func (d database) fillIntents(t testing.TB, db *sql.DB, prefix string, n int, state, due string) {
	t.Helper()
	d.insert(t, db, prefix, n, `INSERT INTO blobtx_intents (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at)`+
		fmt.Sprintf(` SELECT NAME, NAME, 'always', NAME, 0, '{}', %s, 1, 'h', %s, %d, 1, 1`, state, due, int64(never)))
}

func (d database) insert(t testing.TB, db *sql.DB, prefix string, n int, statement string) {
	t.Helper()
	as := series[d.dialect]
	name := strings.ReplaceAll(as.name, "PREFIX", prefix)
	statement = strings.ReplaceAll(statement, "NAME", name) + " FROM (" + strings.ReplaceAll(as.rows, "COUNT", fmt.Sprint(n)) + ") numbers"
	_, err := db.ExecContext(t.Context(), statement)
	require.NoError(t, err, statement)
}
