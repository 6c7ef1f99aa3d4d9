package blobtxtest

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"
	"strings"
	"time"
)

// sqlConnector opens the connections of one process, below the faults: they
// see the bubble's time, wait for another writer in it, and their replies can
// be digested.
type sqlConnector struct {
	p *sqlPlace
	r *running // nil: past every fault
}

func (c *sqlConnector) Driver() driver.Driver { return c.p.pool.connector.Driver() }

// Connect does not wait for anybody: what it runs are no writes.
func (c *sqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	under, err := c.p.pool.take(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	conn := &sqlConn{under: under, p: c.p}
	if c.r != nil {
		conn.died = c.r.faulty.Context().Done()
		conn.owner = uint64(c.r.index+2)<<32 | uint64(c.r.life)
	}
	return conn, nil
}

// sqlConn is one connection. It leaves out what database/sql can do without.
type sqlConn struct {
	under *rawConn
	p     *sqlPlace
	died  <-chan struct{} // its process; nil: past every fault
	owner uint64          // which incarnation

	// Of the transaction that is open on it.

	txDone <-chan struct{} // of the context it was begun with
	base   digest          // what the database held at its first statement; guarded by p.mu
	times  digest          // of the clock at each of its statements; guarded by p.mu
}

// again runs do, and again as long as another is writing: whenever a
// transaction ends, and for so long as busy_timeout would.
func (c *sqlConn) again(ctx context.Context, do func(ctx context.Context) error) error {
	died := c.died
	if l, ok := ctx.(*lockContext); ok && l.c.late {
		died = nil // it is on its way, whatever becomes of its sender
	}
	var timeout <-chan time.Time
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		freed := c.p.whenFreed()
		// A statement takes no time here, so nothing can interrupt it.
		err := do(context.WithoutCancel(ctx))
		if !isBusy(err) || c.died == nil {
			return err
		}
		if timeout == nil {
			timer := time.NewTimer(writerWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-freed:
		case <-ctx.Done():
		case <-timeout:
			return err
		case <-died:
			return err
		case <-c.txDone:
			return err
		}
	}
}

// isBusy: another connection is writing, and waiting helps; SQLITE_BUSY_SNAPSHOT
// is not meant. Modernc has a method Code, mattn a field ExtendedCode.
func isBusy(err error) bool {
	const busy = 5 // SQLite, "Result and Error Codes"
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(interface{ Code() int }); ok { // one link of the chain
			return e.Code() == busy
		}
		if v := reflect.ValueOf(err); v.Kind() == reflect.Struct {
			if f := v.FieldByName("ExtendedCode"); f.IsValid() && f.CanInt() {
				return f.Int() == busy
			}
		}
	}
	return false
}

// now puts the bubble's time into a statement.
func (c *sqlConn) now(query string) string {
	if !strings.Contains(query, "'now'") {
		return query
	}
	now := time.Now().Add(c.p.clock()).UTC().Format("'2006-01-02 15:04:05.000'")
	return strings.ReplaceAll(query, "'now'", now)
}

// inTx notes a statement of a transaction.
func (c *sqlConn) inTx() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.inTx[c] {
		return
	}
	if c.base == (digest{}) {
		c.base = c.p.digest()
	}
	c.times.time(time.Now().Add(c.p.clock()))
}

func (c *sqlConn) began(done <-chan struct{}) {
	c.txDone = done
	c.p.began(c)
}

func (c *sqlConn) ended() {
	c.txDone = nil
	c.p.ended(c)
}

// ran keeps track of transactions that are begun and ended by statements.
func (c *sqlConn) ran(query string) {
	switch firstWord(query) {
	case "BEGIN":
		c.began(nil)
	case "COMMIT", "END":
		c.ended()
	case "ROLLBACK":
		if !strings.Contains(strings.ToUpper(query), " TO ") {
			c.ended()
		}
	}
}

func (c *sqlConn) exec(ctx context.Context, query string, args []driver.NamedValue) (result sqlResult, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		c.inTx()
		under, err := c.under.exec(ctx, c.now(query), args)
		if err == nil {
			c.ran(query)
			result, err = readResult(query, under)
		}
		return err
	})
	return result, err
}

// ExecContext implements driver.ExecerContext.
func (c *sqlConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.exec(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return result, nil
}

// QueryContext implements driver.QueryerContext.
func (c *sqlConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	var rows *sqlRows
	err := c.again(ctx, func(ctx context.Context) error {
		c.inTx()
		under, err := c.under.query(ctx, c.now(query), args)
		if err == nil {
			rows, err = readRows(under)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Prepare implements driver.Conn.
func (c *sqlConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext. It only finds out
// whether the statement is one: what 'now' stands for is not known yet.
func (c *sqlConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	under, err := c.under.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &sqlStmt{c, query}, under.Close()
}

// Begin implements driver.Conn; database/sql calls BeginTx.
func (c *sqlConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (c *sqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var tx driver.Tx
	err := c.again(ctx, func(ctx context.Context) (err error) {
		tx, err = c.under.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.began(ctx.Done())
	return &sqlTx{tx, c}, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *sqlConn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.under.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements driver.SessionResetter.
func (c *sqlConn) ResetSession(ctx context.Context) error {
	if r, ok := c.under.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *sqlConn) IsValid() bool {
	v, ok := c.under.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

// Close implements driver.Conn. It rolls back.
func (c *sqlConn) Close() error {
	defer c.ended()
	c.p.mu.Lock()
	inTx := c.p.inTx[c]
	c.p.mu.Unlock()
	return c.p.pool.giveBack(c.under, inTx)
}

type sqlTx struct {
	driver.Tx
	c *sqlConn
}

// Commit implements driver.Tx.
func (t *sqlTx) Commit() error {
	defer t.c.ended()
	return t.Tx.Commit()
}

// Rollback implements driver.Tx.
func (t *sqlTx) Rollback() error {
	defer t.c.ended()
	return t.Tx.Rollback()
}

// sqlStmt is a prepared statement, which is sent anew each time.
type sqlStmt struct {
	c     *sqlConn
	query string
}

func (s *sqlStmt) Close() error                               { return nil }
func (s *sqlStmt) NumInput() int                              { return -1 }
func (s *sqlStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errNoContext }
func (s *sqlStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errNoContext }
func (s *sqlStmt) CheckNamedValue(v *driver.NamedValue) error { return s.c.CheckNamedValue(v) }

var errNoContext = errors.New("blobtxtest: database/sql gives a context")

// ExecContext implements driver.StmtExecContext.
func (s *sqlStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.query, args)
}

// QueryContext implements driver.StmtQueryContext.
func (s *sqlStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.query, args)
}
