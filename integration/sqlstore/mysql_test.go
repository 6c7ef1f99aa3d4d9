package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

func mysqlNumber(t *testing.T, err error) int {
	t.Helper()
	var e *mysql.MySQLError
	require.True(t, errors.As(err, &e), "the driver's error is out of reach: %v", err)
	return int(e.Number)
}

// asMySQL is MariaDB in the place of MySQL: it says that it is MySQL, and what
// only MariaDB reads never reaches it. What is left is what MySQL is sent.
var asMySQL = database{"as MySQL", sqlstore.MySQL, "mysql 8.0.11", mariadb("interpolateParams=true")}

func init() {
	for _, version := range []string{"8.0.11", "5.7.44"} {
		sql.Register("mysql "+version, disguised{version})
	}
}

type disguised struct{ version string }

func (d disguised) Open(dsn string) (driver.Conn, error) {
	c, err := mysql.MySQLDriver{}.Open(dsn)
	if err != nil {
		return nil, err
	}
	return disguisedConn{watchedConn{c, &wire{}}, d}, nil
}

// disguisedConn changes texts on their way.
type disguisedConn struct {
	watchedConn
	disguised
}

var onlyMariaDB = regexp.MustCompile(`/\*M!.*?\*/ ?`)

func (d disguised) text(query string) string {
	return strings.Replace(onlyMariaDB.ReplaceAllString(query, ""), "VERSION()", "'"+d.version+"'", 1)
}

func (c disguisedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.watchedConn.ExecContext(ctx, c.text(query), args)
}

func (c disguisedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.watchedConn.QueryContext(ctx, c.text(query), args)
}

func (c disguisedConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// What users have in their DSNs changes no answer. The old character set and the
// mode without strictness are those that cut and replace what they cannot hold.
func TestRowStoreOnMySQLHoweverTheSessionIsSetUp(t *testing.T) {
	each(t, []database{
		asMySQL,
		{"snapshot isolation", sqlstore.MySQL, "mysql", mariadb("innodb_snapshot_isolation=ON&interpolateParams=true")},
		{"latin1 and lax", sqlstore.MySQL, "mysql", mariadb("charset=latin1&sql_mode=''&time_zone='-11:00'")},
		{"serializable", sqlstore.MySQL, "mysql", mariadb("tx_isolation='SERIALIZABLE'&interpolateParams=true")},
		{"read committed", sqlstore.MySQL, "mysql", mariadb("tx_isolation='READ-COMMITTED'&interpolateParams=true")},
	}, func(t *testing.T, d database) { d.suite(t) })
}

// Another prefix, in a database of its own that the DSN does not name.
func TestRowStoreInAnotherMySQLDatabase(t *testing.T) {
	each(t, mariadbs, func(t *testing.T, d database) {
		dsn := d.dsn(t)
		config, err := mysql.ParseDSN(dsn)
		require.NoError(t, err)
		schema := "b_" + config.DBName[len(config.DBName)-10:]
		config.DBName = ""
		db := open(t, d.driver, config.FormatDSN())
		t.Cleanup(func() {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+schema)
			require.NoError(t, err)
		})
		s, err := sqlstore.New(db, d.dialect, &sqlstore.Options{Prefix: "order_", Schema: schema})
		require.NoError(t, err)
		require.ErrorIs(t, s.Check(t.Context()), store.ErrSetup)
		storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness {
			return d.harnessIn(t, db, sqlstore.Options{Prefix: "order_", Schema: schema}, schema+".order_")
		})
	})
}

// The database's clock is universal time, and stands still within a statement.
func TestTheClockOnMySQLIgnoresTimeZones(t *testing.T) {
	dsn := services.MariaDB(t)
	stores := map[string]*sqlstore.Store{}
	for _, zone := range []string{"-11:00", "%2B13:00"} {
		d := mariadbs[0]
		stores[zone] = d.store(t, open(t, d.driver, dsn+"?time_zone='"+zone+"'"), nil)
	}
	a := upload(t, stores["-11:00"], "k", store.Always())
	b := upload(t, stores["%2B13:00"], "k", store.Always())
	require.False(t, b.CreatedAt.Before(a.CreatedAt))
	require.Less(t, b.CreatedAt.Sub(a.CreatedAt).Minutes(), 5.0)
}

func TestMySQLRefusesWhatItsColumnsWouldCut(t *testing.T) {
	each(t, []database{
		mariadbs[0],
		{"lax", sqlstore.MySQL, "mysql", mariadb("sql_mode=''")},
	}, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		long := strings.Repeat("x", 256)
		for _, p := range []store.InsertParams{
			{ID: long, Holder: "h", BlobName: "b"},
			{ID: "i", Holder: long, BlobName: "b"},
			{ID: "i", Holder: "h", BlobName: strings.Repeat("中", store.MaxBlobNameBytes/3+1)},
		} {
			p.Key = "k"
			_, err := s.InsertIntent(t.Context(), p)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
		in := upload(t, s, "k", store.Always())
		_, err := s.TakeOver(t.Context(), store.TakeOverParams{ID: in.ID, Version: 1, Holder: long})
		require.ErrorIs(t, err, store.ErrInvalid)
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM blobtx_intents WHERE version = 1").Scan(&n))
		require.Equal(t, 1, n)

		// The longest that fits comes back whole: a key of 700 bytes, 16 versions,
		// 16 KiB of metadata that JSON writes six times as long.
		versions := make([]store.Version, store.MaxVersions)
		for i := range versions {
			versions[i] = 1<<62 + store.Version(i)
		}
		p := store.InsertParams{
			ID: long[1:], Holder: long[1:], IdempotencyKey: long[1:], Key: strings.Repeat("é", 350), Expect: store.Always(),
			BlobName: strings.Repeat("中", store.MaxBlobNameBytes/3), Metadata: map[string]string{"m": strings.Repeat("\x01", store.MaxMetadata-1)},
			TTL: 1 << 40, MaxPending: 1 << 41,
		}
		in, err = s.InsertIntent(t.Context(), p)
		require.NoError(t, err)
		now, err := s.GetIntents(t.Context(), []string{in.ID})
		require.NoError(t, err)
		require.Equal(t, []store.Intent{in}, now)
		one := commit(in, 1)
		one.Blob.ETag = strings.Repeat("e", 70_000)
		objects, err := s.CommitObjects(t.Context(), []store.CommitParams{one})
		require.NoError(t, err)
		got, err := s.GetObject(t.Context(), p.Key)
		require.NoError(t, err)
		require.Equal(t, objects[0], got)
		p.ID, p.IdempotencyKey, p.BlobName, p.Expect = "other", "", "other", store.IfVersion(versions...)
		_, err = s.InsertIntent(t.Context(), p)
		require.ErrorIs(t, err, store.ErrConflict)
		p.Expect = store.IfVersion(append(versions[1:], got.Version)...)
		in, err = s.InsertIntent(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, p.Expect, in.Expect)
	})
}
