package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// sqlServer is SQL Server 2016 or later, and Azure SQL. It is experimental: no
// server was to be had, the statements were checked as text alone. Needed are
// compatibility level 130, for OPENJSON, and READ_COMMITTED_SNAPSHOT, without
// which every reader, and a heartbeat that finds out why it met no row, would
// wait for open transactions. 2016 is also the first with DATEDIFF_BIG and with
// 1,700 bytes in an index key (SQL Server, "What's New in SQL Server 2016" and
// "Maximum capacity specifications").
//
// Writes, and reads with UPDLOCK, wait for the row and see its newest form; at
// SNAPSHOT a row that has changed since fails with 3960 (SQL Server,
// "Transaction locking and row versioning guide"). HOLDLOCK, and so a safe MERGE,
// is not used: to keep a key from being inserted it locks the next one, which
// some open transaction may have changed. FORCESEEK keeps a small table from
// being read, and locked, whole.
//
// Each text but one does one thing: where XACT_ABORT is off, as it is by default,
// a batch goes on after an error. What an error left of a transaction, all of it
// or, if the server found it uncommittable (XACT_STATE() is -1), nothing, its
// number does not say; so after one nothing more is issued.
//
// What is looked up is VARBINARY, and its parameters []byte: a string would
// arrive as UTF-16. Of bytes, = ignores only trailing zeros, and no name has a
// NUL. An empty parameter is a varbinary(max), which no seek can use.
var sqlServer = dialect{
	name:    "sqlserver",
	schemas: true,
	// The time of the statement, in UTC (SQL Server, "SYSUTCDATETIME"). An
	// offset that is no INT would make the whole a NUMERIC.
	now:    `CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()){offset} AS BIGINT)`,
	engine: func(names *strings.Replacer) engine { return newSQLServerEngine(names.Replace) },
}

type sqlServerEngine struct {
	lookText, createText, replaceText text
	committedText                     text
	deleteText, retireText            text
	metadataText                      text
	lockIntentText, lockObjectText    text
	getObjectText                     string
	listText, listBelowText           string

	insertText, insertKeyedText       string
	intentByIDText, intentByKeyText   string
	blobNameText                      string
	takeOverText, beatText            string
	abandonText, getIntentsText       string
	clockText                         string
	claimIntentsText                  string
	claimRetiredText                  string
	intentsGoneText, intentsKeptText  string
	retiredGoneText, retiredKeptText  string
	forgetText                        string
	schemaVersionText, settingsText   string
	lockText, schemaText, schemasText string
	tableText                         string
}

const (
	// sqlServerOwn begins the statements of our own steps. A statement with
	// parameters is sent to sp_executesql, which restores what was set in it
	// (SQL Server, "SET Statements"); drivers reset the session, too, before it
	// is used again. A transaction of the caller's may have left its isolation
	// level on the connection, and READPAST is not for every level.
	sqlServerOwn = `SET NOCOUNT OFF; SET LOCK_TIMEOUT {milliseconds}; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; `

	// sqlServerRow locks a row until the transaction ends. sqlServerNewest waits
	// for it and reads what is committed, at SNAPSHOT, too; with UPDLOCK it would
	// be ignored (SQL Server, "Table hints").
	sqlServerRow    = ` WITH (ROWLOCK, UPDLOCK, FORCESEEK)`
	sqlServerNewest = ` WITH (READCOMMITTEDLOCK, FORCESEEK)`
	// sqlServerFree passes over the rows that others have locked. READPAST needs
	// READCOMMITTEDLOCK where READ_COMMITTED_SNAPSHOT is on (SQL Server, "Table
	// hints", which lists it with ROWLOCK as one or the other; queues over SQL
	// Server, NServiceBus's among them, send both).
	sqlServerFree = ` WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)`
)

// sqlServerIntent is intentColumns with an empty text that is bytes.
var sqlServerIntent = strings.Replace(intentColumns, "coalesce(t.idempotency_key, '')", "coalesce(t.idempotency_key, 0x)", 1)

// changed names columns as OUTPUT does: inserted is a row as it became, deleted
// as it was.
func changed(row, alias, columns string) string { return strings.ReplaceAll(columns, alias, row+".") }

func newSQLServerEngine(replace func(string) string) *sqlServerEngine {
	x := func(s string) string { return replace(strings.ReplaceAll(s, "{intent}", sqlServerIntent)) }
	own := func(s string) string { return x(sqlServerOwn + s) }
	both := func(s string) text { return text{own(s), x(s)} }
	e := &sqlServerEngine{
		schemaVersionText: x(`SELECT m.value, ` + sqlServerSettings + ` FROM {meta} m CROSS JOIN sys.databases d` +
			` WHERE m.name = 'schema_version' AND d.name = DB_NAME()`),
		settingsText: `SELECT ` + sqlServerSettings + ` FROM sys.databases d WHERE d.name = DB_NAME()`,
		lockText: `DECLARE @got INT; EXEC @got = sp_getapplock @Resource = 'blobtx migrate', @LockMode = 'Exclusive',` +
			` @LockOwner = 'Transaction', @LockTimeout = @p1; SELECT CAST(@got AS BIGINT)`,
		schemasText: `SELECT COUNT_BIG(*) FROM sys.schemas WHERE name = @p1`,
		schemaText:  `CREATE SCHEMA `,
		tableText:   `SELECT COUNT_BIG(*) FROM sys.tables WHERE object_id = OBJECT_ID(@p1)`,
	}
	e.objectTexts(x, own, both)
	e.intentTexts(x, own)
	e.sweepTexts(own)
	return e
}

func (e *sqlServerEngine) begin(ctx context.Context, c *sql.Conn) (ownTx, error) {
	tx, err := beginSQL(ctx, c, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	return driverTx{sqlQuerier{tx}, tx}, nil
}

// detach: a statement that is cancelled leaves its transaction open, to be
// rolled back.
func (e *sqlServerEngine) detach(ctx context.Context) context.Context { return ctx }

// savepoint: a savepoint is not released (SQL Server, "SAVE TRANSACTION"). The
// latest of several with one name is the one that is meant.
func (e *sqlServerEngine) savepoint() (set, back, release string) {
	return "SAVE TRANSACTION blobtx_commit", "ROLLBACK TRANSACTION blobtx_commit", ""
}

const sqlServerSettings = `CAST(d.compatibility_level AS BIGINT), CAST(d.is_read_committed_snapshot_on AS BIGINT)`

// schemaVersion also looks at the database's settings.
func (e *sqlServerEngine) schemaVersion(ctx context.Context, s session) (string, error) {
	var value string
	var level, snapshot int64
	err := s.Query(ctx, e.schemaVersionText, nil, func(scan func(dest ...any) error) error { return scan(&value, &level, &snapshot) })
	if err != nil || value == "" {
		return value, err
	}
	return value, checkSettings(level, snapshot)
}

func checkSettings(level, snapshot int64) error {
	if level < 130 {
		return fmt.Errorf("%w: the database has compatibility level %d; 130 is needed (SQL Server 2016): ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 130", store.ErrSetup, level)
	}
	if snapshot == 0 {
		return fmt.Errorf("%w: readers would wait for writers: ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON", store.ErrSetup)
	}
	return nil
}

// tooLong refuses what the columns would refuse with an error that ends a
// transaction.
func tooLong(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s has %d bytes, at most %d fit: %w", what, len(s), limit, store.ErrInvalid)
	}
	return nil
}
