package wire

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/sqlstore"
)

func newMariaDB(t *testing.T) *database {
	config, err := mysql.ParseDSN(services.MariaDB(t))
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{} // it would report every cut
	p := &database{
		dialect: sqlstore.MySQL, drivers: mariaDBDrivers, proxy: wire.New(t, config.Addr, wire.MySQL), direct: openSQL(t, "mysql", config.FormatDSN()),
		barrier: []string{"LOCK TABLES " + strings.ReplaceAll(tables, ",", " WRITE,") + " WRITE", "UNLOCK TABLES"},
	}
	config.Addr = p.proxy.Addr()
	p.through = config.FormatDSN()
	p.migrate(t)
	return p
}

// mariaDBDrivers: a statement with parameters is one request, or is prepared
// first and executed then.
var mariaDBDrivers = map[string]driver{
	"mysql":                overMySQL(false),
	"mysql, interpolating": overMySQL(true),
}

func overMySQL(interpolates bool) driver {
	return func(t testing.TB, p *database) (*sqlstore.Store, transactions) {
		db := mysqlPool(interpolates)(t, p)
		s := p.store(t, db)
		return s, sqlTransactions(db, s)
	}
}

func mysqlPool(interpolates bool) func(t testing.TB, p *database) *sql.DB {
	return func(t testing.TB, p *database) *sql.DB {
		config, err := mysql.ParseDSN(p.through)
		require.NoError(t, err)
		config.InterpolateParams = interpolates
		config.Logger = &mysql.NopLogger{} // it would report every cut
		connector, err := mysql.NewConnector(config)
		require.NoError(t, err)
		db := sql.OpenDB(connector)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
}

// TestEveryLostMessageToMariaDB is TestEveryLostMessageToPostgres's. A request
// that is lost in a transaction ends it; one that comes late keeps its locks.
func TestEveryLostMessageToMariaDB(t *testing.T) {
	for driver := range mariaDBDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := newMariaDB(t)
			for _, op := range operations() {
				faults := wire.Faults
				if driver == "mysql" || op.commits == 0 {
					faults = faults[:3] // as on PostgreSQL
				}
				p.loseEach(t, driver, op, faults)
			}
		})
	}
}
