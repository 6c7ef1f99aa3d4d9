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
// # SQLite
//
// Version 3.35 or later with JSON; tested with modernc.org/sqlite and
// mattn/go-sqlite3. Recommended DSNs:
//
//	modernc: file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate
//	mattn:   file:app.db?_busy_timeout=5000&_journal_mode=WAL&_synchronous=FULL&_txlock=immediate
//
// With synchronous(NORMAL) the last commits may be lost with the power, the
// promise of an upload among them, and then nobody knows the blob's name. One
// writer connection (db.SetMaxOpenConns(1), or a second *sql.DB for readers)
// is faster and fairer than waiting for the file's lock. An in-memory database
// needs MaxOpenConns(1), because each connection would have its own.
package sqlstore
