package blobtxtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
	"github.com/blobtx/blobtx/store/memstore"
)

// SQL is the world of package sqlstore on a real SQLite database, and of blobs
// in memory: for handlers that have tables of their own. Every statement, BEGIN,
// COMMIT and ROLLBACK of a process's whole *sql.DB (Process.DB), the
// application's own included, is a step. Its executions are slower than
// Memory's: thousands.
//
// The dialect must be sqlstore.SQLite: a server is reached by sockets, which do
// not work inside a bubble. Open returns a connector for the database file; for
// modernc.org/sqlite:
//
//	func(file string) (driver.Connector, error) {
//		return sqlite.NewConnector("file:" + file + "?_pragma=foreign_keys(1)")
//	}
//
// Schema makes the application's tables, after blobtx's own, with any number of
// statements; empty: none.
//
// Each process opens a *sql.DB of its own. The database is in WAL mode. A
// statement that finds another writer waits for it, for 5 s of the bubble's
// time as busy_timeout(5000) would, and of several who wait the schedule chooses
// the first; a busy_timeout of the connector's is overruled, since it would wait
// in real time. The literal 'now' is the bubble's time, as moved by
// Scenario.Passes; CURRENT_TIMESTAMP and a default of a column still read
// SQLite's own clock, so that fewer states are merged. The rows of a query are
// read when it runs. A transaction and a *sql.Conn are for one goroutine at a
// time.
func SQL(d sqlstore.Dialect, open func(file string) (driver.Connector, error), schema string) World {
	return &sqlWorld{d, open, schema}
}

type sqlWorld struct {
	dialect   sqlstore.Dialect
	connector func(file string) (driver.Connector, error)
	schema    string
}

// open gives every execution a copy of one database that has all tables.
func (w *sqlWorld) open(e *execution) (place, error) {
	if w.dialect != sqlstore.SQLite {
		return nil, errors.New("blobtxtest: only SQLite runs inside a bubble")
	}
	if e.x.pool == nil {
		if err := w.make(e.x); err != nil {
			return nil, err
		}
	}
	if err := e.x.pool.begin(); err != nil {
		return nil, err
	}
	p := &sqlPlace{w: w, e: e, pool: e.x.pool, blobs: memstore.NewBlobs(nil), freed: make(chan struct{}), inTx: make(map[*sqlConn]bool)}
	return p, p.openCalm()
}

// make makes a database with all tables and no rows of blobtx's.
func (w *sqlWorld) make(x *explorer) error {
	folder, err := x.folder()
	if err != nil {
		return err
	}
	p := &sqlPool{folder: folder}
	c, err := w.connector(p.firstFile())
	if err != nil {
		return fmt.Errorf("connector: %w", err)
	}
	if err := w.fill(c); err != nil {
		return err
	}
	if p.first, err = os.ReadFile(p.firstFile()); err != nil {
		return err
	}
	if p.connector, err = w.connector(p.file()); err != nil {
		return fmt.Errorf("connector: %w", err)
	}
	x.pool = p
	return nil
}

func (w *sqlWorld) fill(c driver.Connector) (err error) {
	db := sql.OpenDB(c)
	// The last connection that closes puts everything into the one file.
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	s, err := sqlstore.New(db, w.dialect, nil)
	if err != nil {
		return err
	}
	if err := s.Migrate(context.Background()); err != nil {
		return err
	}
	if _, err := db.Exec(w.schema); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// sqlPlace is one execution's database and container.
type sqlPlace struct {
	w      *sqlWorld
	e      *execution
	pool   *sqlPool
	db     *sql.DB // past every fault
	rows   *sqlstore.Store
	blobs  *memstore.Blobs
	offset atomic.Int64
	opened []*sql.DB
	looker looker

	mu    sync.Mutex // held for a few assignments, never across a wait
	freed chan struct{}
	inTx  map[*sqlConn]bool
}

func (p *sqlPlace) openCalm() (err error) {
	p.db = p.open(&sqlConnector{p: p})
	if p.rows, err = sqlstore.New(p.db, p.w.dialect, nil); err != nil {
		return err
	}
	return p.looker.open(p)
}

func (p *sqlPlace) open(c driver.Connector) *sql.DB {
	db := sql.OpenDB(c)
	p.opened = append(p.opened, db)
	return db
}

func (p *sqlPlace) calm() (store.RowStore, store.BlobStore) { return p.rows, p.blobs }
func (p *sqlPlace) pass(d time.Duration)                    { p.offset.Add(int64(d)) }
func (p *sqlPlace) clock() time.Duration                    { return time.Duration(p.offset.Load()) }
func (p *sqlPlace) contents() (map[string][]byte, error)    { return p.blobs.Snapshot(), nil }
func (p *sqlPlace) view(v *View)                            { v.DB = p.db }

func (p *sqlPlace) join(public *Process, r *running) (err error) {
	public.DB = p.open(faultstore.Connector(&sqlConnector{p, r}, r.faulty))
	if public.SQL, err = sqlstore.New(public.DB, p.w.dialect, nil); err != nil {
		return err
	}
	public.Rows = public.SQL
	public.Blobs = faultstore.Blobs(p.blobs, r.faulty)
	return nil
}

// locked reports whether a transaction on its way to the database is the one
// writer.
func (p *sqlPlace) locked() bool {
	c, err := p.db.Conn(context.Background())
	if err != nil {
		return true
	}
	defer c.Close() // it only gives the connection back
	if _, err := c.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		return true
	}
	_, err = c.ExecContext(context.Background(), "ROLLBACK")
	return err != nil
}

func (p *sqlPlace) close() {
	p.looker.close()
	for _, db := range p.opened {
		_ = db.Close()
	}
}

// writerWait is how long a statement waits for another writer.
const writerWait = 5 * time.Second

// whenFreed is closed when the next transaction ends.
func (p *sqlPlace) whenFreed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

// began notes that a transaction is open on c, and ended that none is.
func (p *sqlPlace) began(c *sqlConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inTx[c] = true
	c.base, c.times = digest{}, digest{}
}

func (p *sqlPlace) ended(c *sqlConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inTx[c] {
		delete(p.inTx, c)
		close(p.freed)
		p.freed = make(chan struct{})
	}
}
