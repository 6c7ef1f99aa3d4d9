package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"modernc.org/sqlite"
)

// standIn takes the statements for SQL Server and does on a SQLite database what
// they say: their conditions, their parameters and their columns are then put to
// the test, though not their locks, and not SQL Server's own reading of them. It
// knows only the forms that the dialect uses.
type standIn struct {
	sqlite   *sql.DB
	settings string // of the database, as columns

	mu     sync.Mutex
	seen   map[string][]any // the statements, without offsets of the clock, and the last arguments of each
	broken map[string]bool  // rules
	// answer, if it is not nil, may answer in the place of the database.
	answer func(query string) (answered bool, err error)
}

var (
	ownPrefix  = regexp.MustCompile(`^SET NOCOUNT OFF; SET LOCK_TIMEOUT \d+; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; `)
	parameters = regexp.MustCompile(`@p\d+`)
	offsets    = regexp.MustCompile(`(SYSUTCDATETIME\(\)\))\+\(-?\d+\)`)
)

func (s *standIn) Driver() driver.Driver { return nil }

func (s *standIn) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.sqlite.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &standInConn{s: s, sqlite: c}, nil
}

// look notes a statement, and whether it keeps the rules: its parameters are
// those that are given, of types that the driver takes as they are; and a bound
// is set in every statement of a step of our own that could wait, in no other.
func (s *standIn) look(query string, args []driver.NamedValue, callers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query = offsets.ReplaceAllString(query, "$1")
	s.seen[query] = nil
	used := map[string]bool{}
	for _, p := range parameters.FindAllString(query, -1) {
		used[p] = true
	}
	given := map[string]bool{}
	for _, a := range args {
		given[fmt.Sprintf("@p%d", a.Ordinal)] = true
		value := a.Value
		s.seen[query] = append(s.seen[query], value)
		if err := new(mssql.Conn).CheckNamedValue(&a); err != nil {
			s.broken[fmt.Sprintf("%v of %T: %s", err, value, query)] = true
		}
		switch v := value.(type) {
		case int64, string:
		case []byte:
			if v == nil {
				s.broken["NULL is passed: "+query] = true
			}
		default:
			s.broken[fmt.Sprintf("%T is passed: %s", value, query)] = true
		}
	}
	if !maps.Equal(used, given) {
		s.broken[fmt.Sprintf("given %d parameters: %s", len(args), query)] = true
	}
	if bound := ownPrefix.MatchString(query); bound && callers || !bound && !callers && len(args) > 0 && strings.Contains(query, `"blobtx_`) {
		s.broken[fmt.Sprintf("bound in a caller's transaction, or not in our own (%v): %s", callers, query)] = true
	}
}

// standInConn is a connection. It has what database/sql asks of one.
type standInConn struct {
	s       *standIn
	sqlite  *sql.Conn
	open    bool // a transaction is
	callers bool // it is not one of ours, which say at what level they are
}

func (c *standInConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *standInConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c *standInConn) Close() error                        { return c.sqlite.Close() }

func (c *standInConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	c.open, c.callers = true, sql.IsolationLevel(opts.Isolation) == sql.LevelDefault
	return c, nil
}

func (c *standInConn) Commit() error   { return c.end("COMMIT") }
func (c *standInConn) Rollback() error { return c.end("ROLLBACK") }

func (c *standInConn) end(statement string) error {
	c.open, c.callers = false, false
	return c.exec(context.Background(), statement)
}

func (c *standInConn) exec(ctx context.Context, statement string, args ...any) error {
	_, err := c.sqlite.ExecContext(ctx, statement, args...)
	return numbered(err)
}

// numbered makes the error that go-mssqldb would give.
func numbered(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	number := int32(50000)
	switch {
	case e.Code() == 1555 || e.Code() == 2067: // SQLITE_CONSTRAINT_PRIMARYKEY, _UNIQUE
		number = 2627
	case e.Code()&0xff == 5: // SQLITE_BUSY
		number = 1205
	case strings.Contains(e.Error(), "no such table"):
		number = 208
	}
	return mssql.Error{Number: number, Message: e.Error()}
}

func (c *standInConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, n, err := c.run(ctx, query, args)
	return driver.RowsAffected(n), err
}

func (c *standInConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, _, err := c.run(ctx, query, args)
	return &standInRows{rows}, err
}

type standInRows struct{ rows [][]any }

func (r *standInRows) Close() error { return nil }

func (r *standInRows) Columns() []string {
	if len(r.rows) == 0 {
		return nil
	}
	return slices.Repeat([]string{""}, len(r.rows[0]))
}

func (r *standInRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	for i, v := range r.rows[0] {
		dest[i] = v
	}
	r.rows = r.rows[1:]
	return nil
}

// run does what a statement says.
func (c *standInConn) run(ctx context.Context, query string, named []driver.NamedValue) (rows [][]any, n int64, err error) {
	c.s.look(query, named, c.callers)
	if c.s.answer != nil {
		if answered, err := c.s.answer(query); answered {
			return nil, 0, err
		}
	}
	args := make([]any, len(named))
	for i, a := range named {
		args[i] = a.Value
	}
	query = translated(ownPrefix.ReplaceAllString(query, ""), time.Now().UnixMicro(), c.s.settings)
	switch verb, _, _ := strings.Cut(query, " "); verb {
	case "SAVE":
		return nil, 0, c.exec(ctx, strings.Replace(query, "SAVE TRANSACTION", "SAVEPOINT", 1))
	case "ROLLBACK":
		return nil, 0, c.exec(ctx, strings.Replace(query, "TRANSACTION", "TO", 1))
	case "DECLARE": // sp_getapplock
		return [][]any{{int64(0)}}, 0, nil
	case "CREATE":
		if query = translatedDDL(query); query == "" {
			return nil, 0, nil
		}
		return nil, 0, c.exec(ctx, query)
	case "SELECT":
		rows, err = c.query(ctx, query, args)
		return rows, 0, err
	case "SET": // XACT_ABORT OFF; BEGIN TRY INSERT ...
		insert, _, _ := strings.Cut(query[strings.Index(query, "INSERT"):], ";")
		n, err = c.insert(ctx, insert, args)
		return [][]any{{n}}, 0, err
	case "INSERT":
		if strings.Contains(query, " OUTPUT inserted.created_at SELECT ") {
			rows, err = c.query(ctx, strings.Replace(query, " OUTPUT inserted.created_at", "", 1)+" RETURNING created_at", args)
			return rows, 0, err
		}
		n, err = c.insert(ctx, query, args)
		return nil, n, err
	default:
		return c.change(ctx, query, args)
	}
}

func (c *standInConn) insert(ctx context.Context, query string, args []any) (int64, error) {
	res, err := c.sqlite.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, numbered(err)
	}
	return res.RowsAffected()
}

func (c *standInConn) query(ctx context.Context, query string, args []any) (all [][]any, err error) {
	rows, err := c.sqlite.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", numbered(err), query)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, numbered(rows.Err())
}
