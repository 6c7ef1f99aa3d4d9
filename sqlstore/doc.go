// Package sqlstore keeps blobtx's rows in a SQL database: a store.RowStore over
// database/sql. It imports no driver.
//
//	db, err := sql.Open("pgx", dsn)
//	rows, err := sqlstore.New(db, sqlstore.Postgres, nil)
//	err = rows.Migrate(ctx) // or the same SQL by your own tool: Migrations
//
// Steps inside a transaction of the caller's are bound to it by Tx, or by TxOf
// where the transaction is not database/sql's. InTx runs one for those who
// have no helper of their own.
//
// # Connections
//
// Every statement runs on a *sql.Conn or in a transaction, never on the
// *sql.DB: what goes through the pool is sent again by database/sql when a
// driver says ErrBadConn, also when it had been applied. Every wait for a
// connection and for a lock is bounded, and ends in store.ErrBusy with nothing
// changed. A pool of one connection works; a step of the store's own cannot
// run then while the caller has a transaction open.
//
// All deadlines are set and compared on the database's clock, at the time of
// the statement.
//
// # PostgreSQL
//
// Version 12 or later; tested with pgx (database/sql and native) and lib/pq.
// Nothing in the DSN matters. The default isolation level may be any: at
// REPEATABLE READ and above, races are serialization failures, which IsRetryable
// recognises.
//
// # MySQL and MariaDB
//
// One dialect for MySQL 8.0.1 or later and MariaDB 10.6 or later: the steps need
// SKIP LOCKED (MySQL, "Locking Reads"; MariaDB, "SELECT"). Tested with
// go-sql-driver/mysql on MariaDB 10.11; what MySQL is sent in its place was run
// there too. Recommended DSN:
//
//	user:password@tcp(db.example:3306)/app?interpolateParams=true
//
// interpolateParams spares each statement a round trip. clientFoundRows,
// parseTime, charset, time_zone and sql_mode may be anything: text is kept as
// bytes, and times are numbers. autocommit must be on. The default isolation
// level may be any. Locking reads see the newest row at each of them, so a step
// in a transaction of the caller's does not lose a race to what was committed
// after the snapshot; with MariaDB's innodb_snapshot_isolation, the default from
// 11.6 on, it does (error 1020). That one and a deadlock (1213) are recognised
// by IsRetryable; after a deadlock the server has ended the transaction, while
// *sql.Tx goes on taking statements, which then stand alone.
//
// Steps of the store's own wait for locks at most LockWait in whole seconds. On
// MySQL that takes two statements more, which set innodb_lock_wait_timeout and
// lock_wait_timeout for the session and give them back; MariaDB has SET
// STATEMENT. Binary logs must not be in the STATEMENT format (InnoDB refuses it
// at READ COMMITTED). An id or a holder has at most 255 bytes here, a blob name
// 3,000. mysql, the program, shows text kept as bytes with
// --skip-binary-as-hex.
//
// # SQLite
//
// Version 3.35 or later with JSON; tested with modernc.org/sqlite,
// mattn/go-sqlite3 and ncruces/go-sqlite3. Recommended DSNs:
//
//	modernc: file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate
//	mattn:   file:app.db?_busy_timeout=5000&_journal_mode=WAL&_synchronous=FULL&_txlock=immediate
//	ncruces: as modernc's
//
// With synchronous(NORMAL) the last commits may be lost with the power, the
// promise of an upload among them, and then nobody knows the blob's name. One
// writer connection (db.SetMaxOpenConns(1), or a second *sql.DB for readers)
// is faster and fairer than waiting for the file's lock. An in-memory database
// needs MaxOpenConns(1), because each connection would have its own.
//
// # SQL Server
//
// Experimental: compiled with go-mssqldb, its statements checked as text and by
// a T-SQL grammar, and their meaning on a stand-in; never run on a server. SQL
// Server 2016 or later, or Azure SQL, with
//
//	ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 130      -- or higher, for OPENJSON
//	ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON     -- as Azure SQL has it
//
// Without the second a reader, and so a heartbeat, waits for every transaction
// that has written. Check and Migrate look at both and end in store.ErrSetup.
// Nothing in the DSN matters but that QUOTED_IDENTIFIER and the other ANSI
// settings stay on, as drivers leave them: the index of idempotency keys is a
// filtered one.
//
// Keys are VARBINARY(700), the bytes of their UTF-8: so is a column of yours that
// refers to an object. CAST(object_key AS VARCHAR(700)) shows them to people.
// Put no triggers on these tables: OUTPUT does not go with them. Any isolation
// level will do for a transaction of yours, SNAPSHOT too, where races are error
// 3960, which IsRetryable recognises. Leave XACT_ABORT off: with it an error
// ends the transaction at once, and older drivers run what follows outside it.
package sqlstore
