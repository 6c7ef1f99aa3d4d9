package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/blobtx/blobtx/store"
)

// mysql is MySQL 8.0.1 or later and MariaDB 10.6 or later, for SKIP LOCKED.
//
// Neither has RETURNING on UPDATE, so a step is a locking read, which decides,
// and writes of what the read found. Locking reads and writes see the newest
// committed row at every isolation level (MySQL, "Locking Reads"); plain reads
// in a caller's transaction may be older. No write takes the lock of a gap
// unless a row that was seen has gone: two transactions that hold the lock of
// one gap and both insert into it are a deadlock.
//
// Rows are named by key in every write, and FORCE INDEX keeps a small table
// from being read, and locked, whole.
//
// RowsAffected counts found rows or changed rows, as clientFoundRows in the DSN
// says: every update that is counted changes a version.
var mysql = dialect{
	name:    "mysql",
	quote:   "`",
	schemas: true,
	// The time at which the statement began, whatever the session's time zone:
	// UNIX_TIMESTAMP(NOW()) is an hour off when clocks are set back (MySQL,
	// "Date and Time Functions").
	now:    `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)){offset})`,
	engine: func(names *strings.Replacer) engine { return newMySQLEngine(names.Replace) },
}

// mysqlEngine knows from the check of the schema, which comes before every step
// of our own, which of the two servers it is.
type mysqlEngine struct {
	migrateLock string // an expression
	isMariaDB   atomic.Bool

	lockIntentText, lockObjectText         text
	lookText, lookAbsentText               text
	createText, replaceText, retireText    text
	createdText, deleteText, metadataText  string
	lookToInsertText, insertIntentText     string
	intentByIDText, intentByKeyText        string
	blobNameText                           string
	freeIntentText                         string
	takeOverText, beatText, abandonText    string
	getIntentsText                         string
	getObjectText, listText, listBelowText string
	clockText                              string
	dueIntentsText, takeIntentsText        string
	dueRetiredText, takeRetiredText        string
	freeIntentsText, intentsKeptText       string
	freeRetiredText, retiredKeptText       string
	dueDoneText                            string
	intentsGoneText, retiredGoneText       string
	boundText                              string
	serverText, versionRowsText            string
}

// mysqlWait and mysqlForUpdate bound the waits of one statement. Only MariaDB
// reads this kind of comment (MariaDB, "Comment Syntax", "SET STATEMENT", "WAIT
// and NOWAIT"); for MySQL, begin sets the session's bounds and restores them.
// Statements on rows that are locked already have none.
const (
	mysqlWait      = `/*M!100600 SET STATEMENT innodb_lock_wait_timeout={seconds}, lock_wait_timeout={seconds} FOR */ `
	mysqlForUpdate = ` FOR UPDATE`
	mysqlForWait   = ` FOR UPDATE /*M!100600 WAIT {seconds} */`
)

func newMySQLEngine(x func(string) string) *mysqlEngine {
	own := func(s string) string { return x(mysqlWait + s) }
	both := func(s string) text { return text{own(s), x(s)} }
	locking := func(s string) text { return text{x(s + mysqlForWait), x(s + mysqlForUpdate)} }
	e := &mysqlEngine{
		migrateLock: mysqlMigrateLock(x(`{meta}`)),

		lockIntentText: locking(`SELECT {intent}, {now} FROM {intents} t WHERE t.id = ?`),
		lockObjectText: locking(`SELECT {object}, {now} FROM {objects} o WHERE o.object_key = ?`),

		// The intent is locked. A subquery is a plain read, which locks no gap
		// where the object will be (MySQL, "Locking Reads").
		lookText: locking(`SELECT t.object_key, t.expect, t.blob_name, t.metadata, {now},` +
			` coalesce((SELECT concat_ws(',', o.version, o.created_at, length(o.intent_id), concat(o.intent_id, o.blob_name))` +
			` FROM {objects} o WHERE o.object_key = t.object_key), '')` + mysqlUploading),
		lookAbsentText: locking(`SELECT t.object_key, t.expect, t.blob_name, t.metadata, {now}, ''` + mysqlUploading + ` AND t.expect = 'absent'`),
		// An object that is there stays as it is, and locked: INSERT IGNORE would
		// share its lock, and of two who share one neither can change the row.
		createText: both(`INSERT INTO {objects} (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)` +
			` VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE version = version`),
		createdText: x(`UPDATE {intents} t JOIN {objects} o ON o.object_key = ? AND o.intent_id = t.id SET ` + mysqlCommitted + ` WHERE t.id = ?`),
		replaceText: both(`UPDATE {intents} t JOIN {objects} o ON o.object_key = ? AND o.version = ? SET ` + mysqlCommitted +
			`, o.version = ?, o.blob_name = ?, o.intent_id = ?, o.etag = ?, o.size = ?, o.sha256 = ?, o.content_type = ?, o.metadata = ?, o.updated_at = ?` +
			` WHERE t.id = ?`),
		retireText:   both(`INSERT IGNORE INTO {retired} (blob_name, intent_id, due_at) VALUES (?, ?, ?)`),
		deleteText:   x(`DELETE FROM {objects} WHERE object_key = ?`),
		metadataText: x(`UPDATE {objects} SET version = ?, metadata = ?, updated_at = ? WHERE object_key = ?`),

		lookToInsertText: x(`SELECT {now}, coalesce((SELECT o.version FROM {objects} o WHERE o.object_key = ?), 0),` +
			` (SELECT count(*) FROM {objects} o WHERE o.blob_name = ?) + (SELECT count(*) FROM {retired} r WHERE r.blob_name = ?)`),
		insertIntentText: own(`INSERT IGNORE INTO {intents} (id, idempotency_key, object_key, expect, blob_name, direct, metadata,` +
			` state, version, holder, due_at, expires_at, created_at, updated_at)` +
			` VALUES (?, nullif(?, ''), ?, ?, ?, ?, ?, 'uploading', 1, ?, ?, ?, ?, ?)`),
		intentByIDText:  x(`SELECT {intent} FROM {intents} t WHERE t.id = ?`),
		intentByKeyText: x(`SELECT {intent} FROM {intents} t WHERE t.idempotency_key = ?`),
		blobNameText: x(`SELECT (SELECT count(*) FROM {intents} t WHERE t.blob_name = ?) + (SELECT count(*) FROM {objects} o WHERE o.blob_name = ?)` +
			` + (SELECT count(*) FROM {retired} r WHERE r.blob_name = ?)`),
		takeOverText:   x(`UPDATE {intents} SET version = version + 1, holder = ?, due_at = ?, updated_at = ? WHERE id = ?`),
		freeIntentText: own(`SELECT {intent}, {now} FROM {intents} t WHERE t.id = ? AND t.state = 'uploading' AND t.version = ? FOR UPDATE SKIP LOCKED`),
		beatText:       x(`UPDATE {intents} SET due_at = ?, beats = beats + 1 WHERE id = ?`),
		abandonText: x(`UPDATE {intents} SET state = 'abandoned', version = version + 1, watched = 0, idempotency_key = NULL, due_at = ?, updated_at = ?` +
			` WHERE id = ?`),
		getIntentsText: x(`SELECT {intent} FROM {intents} t WHERE t.id IN ` + list),
		getObjectText:  x(`SELECT {object} FROM {objects} o WHERE o.object_key = ?`),
		listText:       x(`SELECT {object} FROM {objects} o WHERE o.object_key >= ? AND o.object_key > ? ORDER BY o.object_key LIMIT ?`),
		listBelowText:  x(`SELECT {object} FROM {objects} o WHERE o.object_key >= ? AND o.object_key > ? AND o.object_key < ? ORDER BY o.object_key LIMIT ?`),

		clockText: x(`SELECT {now}`),
		boundText: x(`SET @blobtx_row_wait = @@SESSION.innodb_lock_wait_timeout, @blobtx_table_wait = @@SESSION.lock_wait_timeout,` +
			` SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}`),
		serverText:      x(`SELECT value, VERSION(), @@autocommit FROM {meta} WHERE name = 'schema_version'`),
		versionRowsText: x(`SELECT count(*) FROM {meta} WHERE name = 'schema_version'`),
	}
	e.sweepTexts(x, own)
	return e
}

const (
	mysqlUploading = ` FROM {intents} t WHERE t.id = ? AND t.version = ? AND t.state = 'uploading' AND t.expires_at > {now}`
	mysqlCommitted = `t.state = 'sealing', t.version = t.version + 1, t.attempts = 0, t.due_at = ?, t.updated_at = ?, t.result = ?,` +
		` t.object_version = ?, t.object_created_at = ?, t.object_updated_at = ?`
	// mysqlRestore follows boundText.
	mysqlRestore = `SET SESSION innodb_lock_wait_timeout = @blobtx_row_wait, SESSION lock_wait_timeout = @blobtx_table_wait`
)

// list stands for the placeholders of an IN list.
const list = `(/*list*/)`

// mysqlMaxList is how many ids one statement names: a prepared one has at most
// 65,535 placeholders (MySQL, "Server Error Message Reference", 1390).
const mysqlMaxList = 10_000

// inList returns the query with a placeholder for each, and the arguments: the
// ids come after the others.
func inList(query string, ids []string, args ...any) (string, []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return strings.Replace(query, list, "(?"+strings.Repeat(", ?", len(ids)-1)+")", 1), args
}

func (e *mysqlEngine) begin(ctx context.Context, c *sql.Conn) (ownTx, error) {
	return e.beginWith(ctx, c, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION")
}

func (e *mysqlEngine) beginWith(ctx context.Context, c *sql.Conn, statements ...string) (ownTx, error) {
	tx := &mysqlTx{rawTx: rawTx{sqlQuerier: sqlQuerier{c}, conn: c, ctx: ctx}, restores: !e.isMariaDB.Load()}
	if tx.restores {
		statements = append([]string{e.boundText}, statements...)
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			tx.giveUp()
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
	return tx, nil
}

// mysqlTx is a transaction of our own. On MySQL it gives the session its bounds
// back.
type mysqlTx struct {
	rawTx
	restores bool
}

func (t *mysqlTx) commit() error {
	if err := t.rawTx.commit(); err != nil {
		return err
	}
	t.restore()
	return nil
}

func (t *mysqlTx) rollback() {
	if t.ended {
		return
	}
	t.rawTx.rollback()
	t.restore()
}

func (t *mysqlTx) restore() {
	if t.restores && t.end(mysqlRestore) != nil {
		t.giveUp()
	}
}

// giveUp closes a connection that may be left with a setting of ours.
func (t *mysqlTx) giveUp() { _ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) }

// detach: a statement that is cancelled costs the connection, and with it the
// transaction.
func (e *mysqlEngine) detach(ctx context.Context) context.Context { return ctx }

func (e *mysqlEngine) savepoint() (set, back, release string) {
	return "SAVEPOINT blobtx_commit", "ROLLBACK TO SAVEPOINT blobtx_commit", "RELEASE SAVEPOINT blobtx_commit"
}

func (e *mysqlEngine) settlesAtOnce() bool { return false }

// inTx runs a step of several statements in a transaction of our own, or in
// the one that is open.
func (e *mysqlEngine) inTx(ctx context.Context, s session, fn func(ctx context.Context, s session) error) error {
	if s.alone == nil {
		return fn(ctx, s)
	}
	tx, err := e.begin(ctx, s.alone)
	if err != nil {
		return err
	}
	defer tx.rollback() // nothing after a commit
	if err := fn(ctx, s.within(tx)); err != nil {
		return err
	}
	return tx.commit()
}

// schemaVersion also looks at the server: without autocommit nothing that
// stands alone would be durable.
func (e *mysqlEngine) schemaVersion(ctx context.Context, s session) (string, error) {
	var value, server string
	var autocommit int64
	err := s.Query(ctx, e.serverText, nil, func(scan func(dest ...any) error) error { return scan(&value, &server, &autocommit) })
	if err != nil || value == "" {
		return value, err
	}
	if autocommit == 0 {
		return "", errAutocommit
	}
	return value, e.knowServer(server)
}

var errAutocommit = fmt.Errorf("%w: autocommit is off: leave it on in the DSN", store.ErrSetup)

// knowServer refuses servers without SKIP LOCKED.
func (e *mysqlEngine) knowServer(version string) error {
	mariaDB := strings.Contains(version, "MariaDB")
	oldest := [3]int{8, 0, 1}
	if mariaDB {
		oldest = [3]int{10, 6, 0}
	}
	var has [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &has[0], &has[1], &has[2]); n == 3 {
		for i := range has {
			if has[i] > oldest[i] {
				break
			}
			if has[i] < oldest[i] {
				return fmt.Errorf("%w: server version %s: MySQL 8.0.1 or MariaDB 10.6 is needed, for SKIP LOCKED", store.ErrSetup, version)
			}
		}
	}
	e.isMariaDB.Store(mariaDB)
	return nil
}
