package faultstore

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
	"unicode"
)

// conn is one connection. database/sql uses it from one goroutine at a time;
// only a death comes from another.
type conn struct {
	under  driver.Conn
	in     Injector
	forget func()

	mu     sync.Mutex // held for a few assignments, never across a call
	broken error      // why nothing more is sent
	busy   bool       // a call is in the driver's hands
	lent   bool       // a late message has the connection now
	closed bool
	inTx   bool
	txDone <-chan struct{} // of the context that the transaction was begun with
	open   map[*sqlRows]bool
}

// enter takes the connection for one call into the driver.
func (c *conn) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	c.busy = true
	return nil
}

// leave gives it back, and closes it if it broke meanwhile.
func (c *conn) leave() {
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	c.closeIfBroken()
}

// breaks ends the connection: at once, or when the call in hand returns.
func (c *conn) breaks(why error) {
	c.mu.Lock()
	if c.broken == nil {
		c.broken = why
	}
	c.mu.Unlock()
	c.closeIfBroken()
}

func (c *conn) closeIfBroken() {
	c.mu.Lock()
	now := c.broken != nil && !c.busy && !c.lent && !c.closed
	c.closed = c.closed || now
	c.mu.Unlock()
	if now {
		_ = c.closeUnder()
	}
}

// closeUnder closes the driver's connection, which rolls back, and before it
// what is still being read from it.
func (c *conn) closeUnder() error {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for r := range open {
		_ = r.under.Close()
	}
	return c.under.Close()
}

// lend gives the connection to a late message. To the caller it is broken.
func (c *conn) lend() (giveBack func()) {
	c.mu.Lock()
	c.lent = true
	if c.broken == nil {
		c.broken = ErrLost
	}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.lent = false
		c.mu.Unlock()
		c.closeIfBroken()
	}
}

func (c *conn) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func (c *conn) setTx(in bool, done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inTx, c.txDone = in, done
}

// sqlStep takes one step on the connection.
func sqlStep[T any](ctx context.Context, c *conn, op Op, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if err := c.usable(); err != nil {
		return none, err
	}
	f, waited, unheard := begin(ctx, c.in, op)
	inside := func(ctx context.Context) (T, error) {
		if err := c.enter(); err != nil { // it died while it was held
			return none, err
		}
		defer c.leave()
		return do(ctx)
	}
	switch f.Kind {
	case Proceed:
		v, err := inside(waited)
		if f.Told != nil {
			f.Told(bare(v), err)
		}
		return v, err
	case Die:
		c.breaks(ErrDead)
		return none, f.tell(nil, ErrDead)
	case LoseReply:
		if op.Write {
			_, _ = inside(unheard)
		}
	case Late:
		if op.Write && f.Late != nil {
			giveBack := c.lend()
			f.Late(Message{Op: op, Drop: giveBack, Apply: func() { defer giveBack(); _, _ = do(unheard) }})
		}
	}
	c.breaks(ErrLost)
	return none, f.tell(nil, ErrLost)
}

// bare is what the driver itself replied.
func bare(reply any) any {
	switch v := reply.(type) {
	case *sqlRows:
		return v.under
	case *sqlTx:
		return v.under
	}
	return reply
}

// statementOp describes a statement. Inside a transaction a broken connection
// takes its effect back, so it is no Write there.
func (c *conn) statementOp(query string, write bool) Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch word(query) {
	case "BEGIN", "START":
		write = false
	case "COMMIT", "END":
		return Op{Store: "sql", Name: query, Write: true}
	}
	return Op{Store: "sql", Name: query, Write: write && !c.inTx, TxDone: c.txDone}
}

// ran keeps track of transactions that the application begins and ends by
// statements of its own.
func (c *conn) ran(query string, run func() (driver.Result, error)) (driver.Result, error) {
	result, err := run()
	switch first := word(query); {
	case err != nil:
	case first == "BEGIN", first == "START":
		c.setTx(true, nil)
	case first == "COMMIT", first == "END", first == "ROLLBACK" && !strings.Contains(strings.ToUpper(query), " TO "):
		c.setTx(false, nil)
	}
	return result, err
}

// word is the first word of a statement, in capitals.
func word(query string) string {
	query = strings.TrimLeft(query, " \t\r\n(")
	end := strings.IndexFunc(query, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(query)
	}
	return strings.ToUpper(query[:end])
}

// reads reports whether a statement is a plain SELECT.
func reads(query string) bool {
	return word(query) == "SELECT" && !strings.Contains(strings.ToUpper(query), " INTO ")
}

// Prepare implements driver.Conn. Preparing is no step; running is.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	var under driver.Stmt
	var err error
	if p, ok := c.under.(driver.ConnPrepareContext); ok {
		under, err = p.PrepareContext(ctx, query)
	} else {
		under, err = c.under.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{under: under, c: c, query: query}, nil
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	c.forget()
	c.mu.Lock()
	now := !c.busy && !c.lent && !c.closed
	c.closed = c.closed || now
	if c.broken == nil {
		c.broken = driver.ErrBadConn
	}
	c.mu.Unlock()
	if now {
		return c.closeUnder()
	}
	return nil
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx. BEGIN is a step.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	done := ctx.Done()
	return sqlStep(ctx, c, Op{Store: "sql", Name: "BEGIN"}, func(ctx context.Context) (driver.Tx, error) {
		var under driver.Tx
		var err error
		if b, ok := c.under.(driver.ConnBeginTx); ok {
			under, err = b.BeginTx(ctx, opts)
		} else {
			under, err = c.under.Begin() //nolint:staticcheck // what a driver without BeginTx has
		}
		if err != nil {
			return nil, err
		}
		c.setTx(true, done)
		return &sqlTx{under: under, c: c}, nil
	})
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	x, ok := c.under.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // database/sql prepares
	}
	return sqlStep(ctx, c, c.statementOp(query, true), func(ctx context.Context) (driver.Result, error) {
		return c.ran(query, func() (driver.Result, error) { return x.ExecContext(ctx, query, args) })
	})
}

// QueryContext implements driver.QueryerContext. A query may write: INSERT ...
// RETURNING is one.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.under.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return sqlStep(ctx, c, c.statementOp(query, !reads(query)), func(ctx context.Context) (driver.Rows, error) {
		return c.reading(q.QueryContext(ctx, query, args))
	})
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	if err := c.usable(); err != nil {
		return driver.ErrBadConn
	}
	if p, ok := c.under.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession implements driver.SessionResetter: a broken connection is not
// used again. Nothing was sent on it then, so a second try is harmless.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.usable() != nil {
		return driver.ErrBadConn
	}
	if r, ok := c.under.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	if c.usable() != nil {
		return false
	}
	if v, ok := c.under.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.under.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// sqlTx is a transaction on a connection.
type sqlTx struct {
	under driver.Tx
	c     *conn
}

// Commit implements driver.Tx. It is a step.
func (t *sqlTx) Commit() error {
	_, err := sqlStep(context.Background(), t.c, Op{Store: "sql", Name: "COMMIT", Write: true}, func(context.Context) (struct{}, error) {
		t.c.setTx(false, nil)
		return struct{}{}, t.under.Commit()
	})
	return err
}

// Rollback implements driver.Tx. It is a step.
func (t *sqlTx) Rollback() error {
	_, err := sqlStep(context.Background(), t.c, t.c.statementOp("ROLLBACK", false), func(context.Context) (struct{}, error) {
		t.c.setTx(false, nil)
		return struct{}{}, t.under.Rollback()
	})
	return err
}
