package sqlstore

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/sqlserver.sql anew")

// statement is one text of the SQL Server engine.
type statement struct {
	name, sql string
	inCallers bool // sent in a transaction of the caller's
}

// sqlServerStatements is every statement that the engine can issue.
func sqlServerStatements(t *testing.T) []statement {
	t.Helper()
	o := Options{Prefix: defaultPrefix, LockWait: 5 * time.Second}
	names, err := sqlServer.names(&o)
	require.NoError(t, err)
	e := newSQLServerEngine(names.Replace)
	set, back, release := e.savepoint()
	require.Empty(t, release)
	all := []statement{{"savepoint", set, true}, {"back to savepoint", back, true}}
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		name := strings.TrimSuffix(v.Type().Field(i).Name, "Text")
		switch f := v.Field(i); f.Type() {
		case reflect.TypeFor[string]():
			all = append(all, statement{name, f.String(), false})
		case reflect.TypeFor[text]():
			all = append(all, statement{name, f.Field(0).String(), false}, statement{name + ", caller's transaction", f.Field(1).String(), true})
		default:
			t.Fatalf("%s has the type %s, which this test does not know", name, f.Type())
		}
	}
	files := Migrations(SQLServer)
	paths, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	for _, path := range paths {
		file, err := fs.ReadFile(files, path)
		require.NoError(t, err)
		for i, sql := range statements(string(file), e.tables("app", "my_")) {
			all = append(all, statement{fmt.Sprintf("%s, %d", path, i+1), sql, false})
		}
	}
	return all
}

// Nobody has a server to run these on, so a change must show in a review. The
// file is also what integration/tsql parses.
func TestSQLServerStatementsAreAsReviewed(t *testing.T) {
	var b strings.Builder
	for _, s := range sqlServerStatements(t) {
		sql := s.sql
		if s.name == "schema" {
			sql += `"app"`
		}
		fmt.Fprintf(&b, "-- %s\n%s\n;\n", s.name, sql)
	}
	const golden = "testdata/sqlserver.sql"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run with -update, and review the difference")
}

func TestSQLServerStatementsKeepTheirRules(t *testing.T) {
	parameter := regexp.MustCompile(`@p(\d+)`)
	hints := regexp.MustCompile(`WITH \([A-Z_, ]+\)`)
	for _, s := range sqlServerStatements(t) {
		t.Run(s.name, func(t *testing.T) {
			require.NotContains(t, s.sql, "{")
			require.NotRegexp(t, `(?i)\b(merge|nolock|holdlock|getdate)\b`, s.sql)
			var used []int
			for _, m := range parameter.FindAllStringSubmatch(s.sql, -1) {
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				used = append(used, n)
			}
			slices.Sort(used)
			used = slices.Compact(used)
			for i, n := range used {
				require.Equal(t, i+1, n, "a parameter is not used")
			}
			// Only with parameters does a setting end with its statement, and
			// in a transaction of the caller's nothing is set at all.
			sets := strings.Contains(s.sql, "SET LOCK_TIMEOUT 5000; ")
			require.False(t, sets && (len(used) == 0 || s.inCallers))
			waits := strings.Contains(s.sql, `"blobtx_`)
			require.Equal(t, waits && len(used) > 0 && !s.inCallers, sets)
			for _, hint := range hints.FindAllString(s.sql, -1) {
				require.Contains(t, []string{
					`WITH (FORCESEEK)`,
					`WITH (ROWLOCK, UPDLOCK, FORCESEEK)`,
					`WITH (READCOMMITTEDLOCK, FORCESEEK)`,
					`WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)`,
				}, hint)
			}
			require.False(t, s.inCallers && strings.Contains(s.sql, "READPAST"), "not for every isolation level")
		})
	}
}

func TestSQLServerNeedsItsSettings(t *testing.T) {
	require.NoError(t, checkSettings(130, 1))
	require.NoError(t, checkSettings(160, 1))
	require.ErrorContains(t, checkSettings(120, 1), "COMPATIBILITY_LEVEL")
	require.ErrorContains(t, checkSettings(150, 0), "READ_COMMITTED_SNAPSHOT")
}

// OUTPUT returns rows in any order.
func TestClaimsAreInTheOrderInWhichTheyWereDue(t *testing.T) {
	rows := []claimed[int]{{4, "a", 9}, {3, "c", 5}, {2, "b", 5}, {1, "z", 1}}
	require.Equal(t, []int{1, 2, 3, 4}, byDue(rows))
}
