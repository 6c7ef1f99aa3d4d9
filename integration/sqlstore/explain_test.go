package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
)

// statement is one as it was sent, and what its transaction had set before.
type statement struct {
	text     string
	args     []any
	settings []string
}

// recorded is a pool whose statements are kept, with their arguments.
type recorded struct {
	*sql.DB
	plain *sql.DB // the same database, and nothing is kept

	mu       sync.Mutex
	sent     []statement
	settings []string
}

func (d database) record(t *testing.T) *recorded {
	t.Helper()
	dsn := d.dsn(t)
	x := &recorded{plain: open(t, d.driver, dsn)}
	x.DB = sql.OpenDB(keptConnector{dsnConnector{dsn, x.plain.Driver()}, x})
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

func (x *recorded) keep(text string, args []driver.NamedValue) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case text == "BEGIN":
		x.settings = nil
	case strings.HasPrefix(text, "SELECT set_config("):
		x.settings = append(x.settings, text)
	}
	one := statement{text: text, settings: slices.Clone(x.settings)}
	for _, a := range args {
		one.args = append(one.args, a.Value)
	}
	x.sent = append(x.sent, one)
}

// take returns what was sent since the last time.
func (x *recorded) take() []statement {
	x.mu.Lock()
	defer x.mu.Unlock()
	sent := x.sent
	x.sent = nil
	return sent
}

type keptConnector struct {
	driver.Connector
	to *recorded
}

func (c keptConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return keptConn{watchedConn{conn, &wire{}}, c.to}, nil
}

type keptConn struct {
	watchedConn
	to *recorded
}

func (c keptConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.to.keep(query, args)
	return c.watchedConn.ExecContext(ctx, query, args)
}

func (c keptConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.to.keep(query, args)
	return c.watchedConn.QueryContext(ctx, query, args)
}

func (c keptConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.to.keep("BEGIN", nil)
	return c.watchedConn.BeginTx(ctx, opts)
}

// plan is what matters of a statement's.
type plan struct {
	reads []read
	sorts bool   // the rows that it takes; PostgreSQL: those that are due
	text  string // for people
}

type read struct {
	how, index string
	whole      bool
}

func (p plan) whole() bool { return slices.ContainsFunc(p.reads, func(r read) bool { return r.whole }) }

// by reports whether rows come by an index whose name ends like this.
func (p plan) by(index string) bool {
	return slices.ContainsFunc(p.reads, func(r read) bool { return strings.HasSuffix(r.index, index) })
}

// explain has the statement planned, on a connection that knows nothing of it.
func (x *plans) explain(one statement) plan {
	x.Helper()
	tx, err := x.sent.plain.BeginTx(x.Context(), nil)
	require.NoError(x, err)
	defer tx.Rollback() //nolint:errcheck // nothing was done
	for _, s := range one.settings {
		_, err := tx.ExecContext(x.Context(), s)
		require.NoError(x, err)
	}
	command := map[sqlstore.Dialect]string{sqlstore.Postgres: "EXPLAIN (FORMAT JSON) ", sqlstore.MySQL: "EXPLAIN FORMAT=JSON ", sqlstore.SQLite: "EXPLAIN QUERY PLAN "}[x.dialect]
	rows, err := tx.QueryContext(x.Context(), command+onlyMariaDB.ReplaceAllString(one.text, ""), one.args...)
	require.NoError(x, err, one.text)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(x, err)
	var lines []string
	for rows.Next() {
		row := make([]sql.RawBytes, len(columns))
		dest := make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		require.NoError(x, rows.Scan(dest...))
		lines = append(lines, string(row[len(row)-1])) // the plan is last, on each
	}
	require.NoError(x, rows.Err())
	text := strings.Join(lines, "\n")
	switch x.dialect {
	case sqlstore.Postgres:
		return postgresPlan(x.T, text)
	case sqlstore.MySQL:
		return mariaDBPlan(x.T, text)
	}
	return sqlitePlan(text)
}

// postgresPlan reads a plan as PostgreSQL, "EXPLAIN" has it.
func postgresPlan(t *testing.T, text string) plan {
	t.Helper()
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	p := plan{text: text}
	var walk func(node map[string]any, due bool)
	walk = func(node map[string]any, due bool) {
		word := func(key string) string { s, _ := node[key].(string); return s }
		due = due || word("Subplan Name") == "CTE due"
		how := word("Node Type")
		if strings.HasSuffix(how, "Scan") && (word("Relation Name") != "" || word("Index Name") != "") {
			p.reads = append(p.reads, read{how, word("Index Name"), how == "Seq Scan"})
		}
		// A bitmap is of every row that is due, and loses their order.
		p.sorts = p.sorts || due && (strings.HasSuffix(how, "Sort") || strings.HasPrefix(how, "Bitmap"))
		nodes, _ := node["Plans"].([]any)
		for _, n := range nodes {
			walk(n.(map[string]any), due)
		}
	}
	for _, one := range all {
		walk(one["Plan"].(map[string]any), false)
	}
	return p
}

// mariaDBPlan reads a plan as MariaDB, "EXPLAIN FORMAT=JSON" has it.
func mariaDBPlan(t *testing.T, text string) plan {
	t.Helper()
	var all any
	require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	p := plan{text: text}
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				walk(n)
			}
		case map[string]any:
			if how, ok := node["access_type"].(string); ok {
				index, _ := node["key"].(string)
				p.reads = append(p.reads, read{how, index, how == "ALL" || how == "index"})
			}
			for key, n := range node {
				p.sorts = p.sorts || key == "filesort"
				walk(n)
			}
		}
	}
	walk(all)
	return p
}

var (
	sqliteRead  = regexp.MustCompile(`^(SEARCH|SCAN) (t|r|blobtx_\w+)(?: USING (?:COVERING )?(?:INDEX (\w+)|INTEGER PRIMARY KEY))?`)
	sqliteSorts = regexp.MustCompile(`USE TEMP B-TREE FOR .*ORDER BY`)
)

// sqlitePlan reads a plan as SQLite, "EXPLAIN QUERY PLAN" has it.
func sqlitePlan(text string) plan {
	p := plan{text: text, sorts: sqliteSorts.MatchString(text)}
	for line := range strings.Lines(text) {
		if m := sqliteRead.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			p.reads = append(p.reads, read{m[1], m[3], m[1] == "SCAN"})
		}
	}
	return p
}
