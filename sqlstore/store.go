package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Options configures a Store. The zero value is right for most services.
type Options struct {
	// Prefix begins the names of the tables: a-z, 0-9 and _, at most 20.
	// Defaults to "blobtx_".
	Prefix string
	// Schema is the PostgreSQL or SQL Server schema or the MySQL database of the
	// tables, made by Migrate when it is not there: a-z, 0-9 and _, at most 20.
	// Defaults to the connection's search path, schema or database.
	Schema string

	// ConnWait bounds the wait for a connection of the pool. Defaults to 10 s.
	ConnWait time.Duration
	// LockWait bounds the wait for locks that other transactions hold, and the
	// repetition of steps that lost a deadlock or a race. It is for steps in
	// transactions of their own; the caller's transactions are the caller's.
	// MySQL counts whole seconds. Defaults to 5 s.
	LockWait time.Duration

	// TestClockOffset is for tests only: it is added to the database's clock.
	TestClockOffset func() time.Duration
}

// Store is a store.RowStore over database/sql. It is safe for concurrent use
// and needs no Close: the *sql.DB is the caller's. Make one with New: every step
// of the zero Store is ErrInvalid.
type Store struct {
	db      *sql.DB
	dialect *dialect
	opts    Options
	engine  engine
	ready   atomic.Bool // the schema was found to be the one this code speaks
}

var _ store.RowStore = (*Store)(nil)

// New makes a Store. It does no I/O. ErrInvalid: db is nil, d is the zero
// Dialect, or an option cannot be used. Opts may be nil.
func New(db *sql.DB, d Dialect, opts *Options) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("new sqlstore: db is nil: %w", store.ErrInvalid)
	}
	if d.d == nil {
		return nil, fmt.Errorf("new sqlstore: the zero Dialect: name one, such as sqlstore.Postgres: %w", store.ErrInvalid)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.ConnWait < 0 || o.LockWait < 0 {
		return nil, fmt.Errorf("new sqlstore: negative ConnWait or LockWait: %w", store.ErrInvalid)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.ConnWait == 0 {
		o.ConnWait = 10 * time.Second
	}
	if o.LockWait == 0 {
		o.LockWait = 5 * time.Second
	}
	names, err := d.d.names(&o)
	if err != nil {
		return nil, fmt.Errorf("new sqlstore: %w", err)
	}
	return &Store{db: db, dialect: d.d, opts: o, engine: d.d.engine(names)}, nil
}

// usable returns ErrInvalid for a Store that New did not make.
func (s *Store) usable() error {
	if s == nil || s.db == nil {
		return fmt.Errorf("the sqlstore.Store is not one that New made: %w", store.ErrInvalid)
	}
	return nil
}

// Retryable is IsRetryable.
func (s *Store) Retryable(err error) bool { return IsRetryable(err) }

// session makes q the place where a step runs.
func (s *Store) session(q Querier, own bool) session {
	if s.opts.TestClockOffset != nil {
		q = clockQuerier{q, s.opts.TestClockOffset}
	}
	return session{Querier: q, own: own}
}

// Check returns ErrSetup when the tables are not there or older than this
// code, and ErrNewerSchema when they are newer. It writes nothing.
func (s *Store) Check(ctx context.Context) error {
	return s.onConn(ctx, "check schema", func(ctx context.Context, c *sql.Conn) error {
		return s.checkSchema(ctx, s.session(sqlQuerier{c}, true))
	})
}
