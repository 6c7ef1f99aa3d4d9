package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// errBroken is what a broken connection says.
var errBroken = errors.New("the wire broke")

// wire is what goes to a database: every statement, and every begin, commit
// and rollback.
type wire struct {
	mu   sync.Mutex
	sent []string
	fail func(what string) error // fails a statement before it is sent
}

func (w *wire) send(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, what)
	if w.fail != nil {
		return w.fail(what)
	}
	return nil
}

// take returns what was sent since the last time.
func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return slices.Clone(sent)
}

// openCounted opens a fresh database whose driver is watched.
func (d database) openCounted(t testing.TB) (*sql.DB, *wire) {
	t.Helper()
	dsn := d.dsn(t)
	plain := open(t, d.driver, dsn)
	var inner driver.Connector = dsnConnector{dsn, plain.Driver()}
	if dc, ok := plain.Driver().(driver.DriverContext); ok {
		var err error
		inner, err = dc.OpenConnector(dsn)
		require.NoError(t, err)
	}
	w := &wire{}
	db := sql.OpenDB(watchedConnector{inner, w})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, w
}

type dsnConnector struct {
	dsn string
	d   driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.d }

type watchedConnector struct {
	driver.Connector
	wire *wire
}

func (c watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return watchedConn{conn, c.wire}, nil
}

// watchedConn wraps a driver as a tracing wrapper does.
type watchedConn struct {
	driver.Conn
	wire *wire
}

func (c watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	inner, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.wire.send(query); err != nil {
		return nil, err
	}
	return inner.ExecContext(ctx, query, args)
}

func (c watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	inner, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.wire.send(query); err != nil {
		return nil, err
	}
	return inner.QueryContext(ctx, query, args)
}

func (c watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	inner, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("the driver has no BeginTx")
	}
	if err := c.wire.send("BEGIN"); err != nil {
		return nil, err
	}
	tx, err := inner.BeginTx(ctx, opts)
	return watchedTx{tx, c.wire}, err
}

func (c watchedConn) CheckNamedValue(v *driver.NamedValue) error {
	if inner, ok := c.Conn.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c watchedConn) ResetSession(ctx context.Context) error {
	if inner, ok := c.Conn.(driver.SessionResetter); ok {
		return inner.ResetSession(ctx)
	}
	return nil
}

type watchedTx struct {
	driver.Tx
	wire *wire
}

func (t watchedTx) Commit() error {
	if err := t.wire.send("COMMIT"); err != nil {
		return err
	}
	return t.Tx.Commit()
}

func (t watchedTx) Rollback() error {
	_ = t.wire.send("ROLLBACK")
	return t.Tx.Rollback()
}
