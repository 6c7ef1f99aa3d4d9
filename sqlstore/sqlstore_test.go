package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// sources is this package.
var sources = os.DirFS(".")

// nowhere is a database that cannot be reached: New does no I/O.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("unreachable") }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestNewRefusesWhatCannotWork(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	for name, c := range map[string]struct {
		db   *sql.DB
		d    Dialect
		opts *Options
		says string
	}{
		"nil database":          {nil, SQLite, nil, "db is nil"},
		"zero dialect":          {db, Dialect{}, nil, "zero Dialect"},
		"prefix with a quote":   {db, SQLite, &Options{Prefix: `a"b`}, "prefix"},
		"prefix in upper case":  {db, SQLite, &Options{Prefix: "Blob_"}, "prefix"},
		"prefix that is long":   {db, Postgres, &Options{Prefix: strings.Repeat("a", 21)}, "prefix"},
		"prefix of a digit":     {db, Postgres, &Options{Prefix: "1_"}, "prefix"},
		"prefix of SQLite's":    {db, SQLite, &Options{Prefix: "sqlite_x"}, "prefix"},
		"schema on SQLite":      {db, SQLite, &Options{Schema: "x"}, "schema"},
		"schema with a tick":    {db, MySQL, &Options{Schema: "a`b"}, "schema"},
		"schema with a dot":     {db, Postgres, &Options{Schema: "a.b"}, "schema"},
		"negative wait":         {db, Postgres, &Options{ConnWait: -1}, "negative"},
		"negative wait of lock": {db, Postgres, &Options{LockWait: -1}, "negative"},
	} {
		_, err := New(c.db, c.d, c.opts)
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.ErrorContains(t, err, c.says, name)
	}
	for _, d := range []Dialect{SQLite, Postgres, MySQL} {
		s, err := New(db, d, nil)
		require.NoError(t, err)
		require.Error(t, s.Check(t.Context()))
	}
}

func TestDialectsHaveNames(t *testing.T) {
	require.Equal(t, "sqlite", SQLite.String())
	require.Equal(t, "postgres", Postgres.String())
	require.Equal(t, "mysql", MySQL.String())
	require.Empty(t, Dialect{}.String())
}

func TestMigrationsAreNumberedAndRunAsTheyAre(t *testing.T) {
	require.Nil(t, Migrations(Dialect{}))
	for _, d := range []Dialect{SQLite, Postgres, MySQL} {
		files := Migrations(d)
		names, err := fs.Glob(files, "*.sql")
		require.NoError(t, err)
		require.Len(t, names, schemaVersion)
		for i, name := range names {
			require.True(t, strings.HasPrefix(name, fmt.Sprintf("%05d_", i+1)) && strings.HasSuffix(name, ".up.sql"), name)
			text, err := fs.ReadFile(files, name)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "-- +goose Up\n"))
			require.Contains(t, string(text), "'schema_version', '"+fmt.Sprint(i+1)+"'")
			require.NotContains(t, string(text), "published", "comes with its own migration")
			for _, statement := range statements(string(text), "own_") {
				require.NotContains(t, statement, "blobtx_")
				require.NotContains(t, statement, "--")
				require.Contains(t, statement, "own_")
			}
		}
	}
}

// Drivers keep statements prepared by their text.
func TestStatementsAreTheSameForTheLifeOfAStore(t *testing.T) {
	for _, d := range []Dialect{SQLite, Postgres, MySQL, SQLServer} {
		o := &Options{Prefix: "p_", LockWait: time.Second}
		names, err := d.d.names(o)
		require.NoError(t, err)
		text := fmt.Sprintf("%+v", d.d.engine(names))
		require.NotContains(t, text, offsetToken)
		require.NotRegexp(t, `\{[a-z]+\}`, text)
	}
}

func TestAfterIsTheLeastTextBeyondAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "az": "a{", "a\U0010ffff": "b", "\U0010ffff": "", "\ud7ff": "\ue000", "a\x7f": "a\u0080", "ä": "å", "%": "&",
	} {
		require.Equal(t, want, after(prefix), "%q", prefix)
	}
}

func TestErrorTextFitsAColumn(t *testing.T) {
	require.Equal(t, "a?b?", errorText("a\x00b\xff"))
	require.Len(t, errorText(strings.Repeat("ä", 999)), 1000)
	require.Len(t, errorText("a"+strings.Repeat("ä", 999)), 999)
}

type (
	stateError  struct{ code string }
	serverError struct{ number int32 }
	mysqlError  struct{ Number uint16 }
	wrapTwo     struct{ one, two error }
)

func (e *stateError) Error() string         { return "state " + e.code }
func (e *stateError) SQLState() string      { return e.code }
func (e serverError) Error() string         { return "server" }
func (e serverError) SQLErrorNumber() int32 { return e.number }
func (e *mysqlError) Error() string         { return "mysql" }
func (e wrapTwo) Error() string             { return "two" }
func (e wrapTwo) Unwrap() []error           { return []error{e.one, e.two} }

func TestErrorsAreKnownByTheirCodes(t *testing.T) {
	deep := func(err error) error {
		return fmt.Errorf("a: %w", wrapTwo{errors.New("b"), fmt.Errorf("c: %w", err)})
	}
	for _, c := range []struct {
		err  error
		want class
	}{
		{nil, 0},
		{errors.New("40001"), 0},
		{&stateError{"40001"}, retryable},
		{&stateError{"40P01"}, retryable},
		{&stateError{"55P03"}, locked},
		{&stateError{"42P01"}, noTable},
		{&stateError{"23505"}, 0},
		{&stateError{"57014"}, 0},
		{serverError{1205}, retryable},
		{serverError{3960}, retryable},
		{serverError{1222}, locked},
		{serverError{208}, noTable},
		{serverError{3961}, retryable},
		{serverError{2601}, duplicate},
		{serverError{2627}, duplicate},
		{serverError{3930}, 0},
		{&mysqlError{1213}, retryable},
		{&mysqlError{1020}, retryable},
		{&mysqlError{3101}, retryable},
		{&mysqlError{1205}, retryable | locked},
		{&mysqlError{3572}, locked},
		{&mysqlError{1146}, noTable},
		{&mysqlError{1049}, noTable},
		{&mysqlError{1046}, noTable},
		{&mysqlError{1062}, 0},
		{context.Canceled, 0},
		{driver.ErrBadConn, 0},
		{store.ErrBusy, 0},
	} {
		require.Equal(t, c.want, classify(c.err), "%v", c.err)
		require.Equal(t, c.want&retryable != 0, IsRetryable(c.err))
		if c.err != nil {
			require.Equal(t, c.want, classify(deep(c.err)), "%v", c.err)
		}
	}
}

func TestDescribeNamesTheRemedyAndKeepsTheDriversError(t *testing.T) {
	missing := &stateError{"42P01"}
	err := describe("get object", missing)
	require.ErrorIs(t, err, store.ErrSetup)
	require.ErrorContains(t, err, "run Migrate")
	require.ErrorIs(t, err, error(missing))
	err = describe("take over", &stateError{"55P03"})
	require.ErrorIs(t, err, store.ErrBusy)
	require.False(t, IsRetryable(err))
	require.NoError(t, describe("anything", nil))
}

// What goes through the pool may be applied twice: no method of *sql.DB that
// sends a statement is called in this package.
func TestNoStatementGoesThroughThePool(t *testing.T) {
	files, err := fs.Glob(sources, "*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	used := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(sources, name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			method, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch on := method.X.(type) {
			case *ast.SelectorExpr: // s.db.Conn
				if on.Sel.Name == "db" {
					used[method.Sel.Name] = true
				}
			case *ast.Ident: // db.Conn
				if on.Name == "db" {
					used[method.Sel.Name] = true
				}
			}
			require.NotEqual(t, "QueryRowContext", method.Sel.Name, name)
			require.NotEqual(t, "QueryRow", method.Sel.Name, name)
			return true
		})
	}
	require.Equal(t, map[string]bool{"Conn": true, "Stats": true}, used)
}
