package sqlstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func mysqlEngineWith(t *testing.T, o *Options) *mysqlEngine {
	t.Helper()
	names, err := mysql.names(o)
	require.NoError(t, err)
	return newMySQLEngine(names.Replace)
}

func TestMySQLServersAreKnownByTheirVersion(t *testing.T) {
	for version, want := range map[string]string{
		"8.0.1": "MySQL", "8.0.46": "MySQL", "8.4.0-log": "MySQL", "9.5.0": "MySQL", "8.0.mysql_aurora.3.04.0": "MySQL",
		"10.6.0-MariaDB": "MariaDB", "10.11.19-MariaDB-0+deb12u1": "MariaDB", "11.8.3-MariaDB-ubu2404": "MariaDB",
		"5.7.44": "", "8.0.0": "", "5.7.12-log": "", "10.5.29-MariaDB": "", "10.5.99-MariaDB-log": "", "5.5.68-MariaDB": "",
	} {
		e := &mysqlEngine{}
		err := e.knowServer(version)
		if want == "" {
			require.ErrorIs(t, err, store.ErrSetup, version)
			require.ErrorContains(t, err, version)
			continue
		}
		require.NoError(t, err, version)
		require.Equal(t, want == "MariaDB", e.isMariaDB.Load(), version)
	}
}

// Reserved words are quoted as this server quotes, in every text.
func TestMySQLNamesAreQuoted(t *testing.T) {
	e := mysqlEngineWith(t, &Options{Schema: "order", Prefix: "select_", LockWait: 1500 * time.Millisecond})
	require.Contains(t, e.retireText.tx, "INTO `order`.`select_retired` (")
	require.Equal(t, "`order`.select_", e.tables("order", "select_"))
	require.Equal(t, "select_", e.tables("", "select_"))
	require.Contains(t, e.retireText.own, "innodb_lock_wait_timeout=2,", "seconds are rounded up")
	require.Contains(t, e.boundText, "SESSION lock_wait_timeout = 2")
}

// In a transaction of the caller's nothing is set, not even for a statement.
func TestMySQLSetsNothingInACallersTransaction(t *testing.T) {
	e := mysqlEngineWith(t, &Options{Prefix: "p_", LockWait: time.Second})
	for _, one := range []text{
		e.lockIntentText, e.lockObjectText, e.lookText, e.lookAbsentText, e.createText, e.replaceText, e.retireText,
	} {
		require.NotContains(t, one.tx, "/*M!")
		require.Regexp(t, `^/\*M!100600 SET STATEMENT innodb_lock_wait_timeout=1, lock_wait_timeout=1 FOR \*/ | /\*M!100600 WAIT 1 \*/$`, one.own)
	}
	for _, alone := range []string{e.createdText, e.deleteText, e.metadataText} {
		require.NotContains(t, alone, "/*M!")
	}
}

func TestMySQLListsHaveAPlaceholderForEach(t *testing.T) {
	query, args := inList("DELETE WHERE a = ? AND id IN "+list, []string{"x", "y"}, int64(7))
	require.Equal(t, "DELETE WHERE a = ? AND id IN (?, ?)", query)
	require.Equal(t, []any{int64(7), "x", "y"}, args)
}

func TestMySQLAnObjectInOneColumn(t *testing.T) {
	o, err := parseSeen("12,34,5,a,b,cblob,name")
	require.NoError(t, err)
	require.Equal(t, store.Object{Version: 12, CreatedAt: fromMicros(34), IntentID: "a,b,c", Blob: store.Blob{Name: "blob,name"}}, o)
	for _, text := range []string{"12", "12,34,5", "12,x,1,ab", "12,34,5,abcd"} {
		_, err := parseSeen(text)
		require.Error(t, err, text)
	}
}
