package sqlstore_test

import (
	"database/sql"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/blobtx/blobtx/store/storetest"
)

// A driver in a wrapper, as metrics and traces come: other types of connection,
// and the errors inside.
func TestRowStoreInsideAWrapper(t *testing.T) {
	for _, c := range []struct {
		database
		open func(t testing.TB) *sql.DB
	}{
		{embedded[0], func(t testing.TB) *sql.DB {
			return otelsql.OpenDB(dsnConnector{embedded[0].dsn(t), &sqlite.Driver{}})
		}},
		{servers[0], func(t testing.TB) *sql.DB {
			connector, err := stdlib.GetDefaultDriver().(*stdlib.Driver).OpenConnector(servers[0].dsn(t))
			require.NoError(t, err)
			return otelsql.OpenDB(connector)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := c.open(t)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness { return c.harness(t, db) })
		})
	}
}
