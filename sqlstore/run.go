package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/blobtx/blobtx/store"
)

// settleBound is how long a COMMIT or ROLLBACK may take. It is not cut short
// by the caller's cancellation: a COMMIT that is given up is often durable.
const settleBound = 30 * time.Second

// conn takes a connection of the pool within the bound. The caller closes it.
func (s *Store) conn(ctx context.Context) (*sql.Conn, error) {
	if err := cmp.Or(s.usable(), ctx.Err()); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, s.opts.ConnWait)
	defer cancel()
	c, err := s.db.Conn(waiting)
	if err == nil || waiting.Err() == nil {
		return c, err
	}
	wait := "wait for a connection"
	if stats := s.db.Stats(); stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections {
		wait += fmt.Sprintf(" (all %d of the pool are in use; is a transaction open on it while this step needs another one?)", stats.MaxOpenConnections)
	}
	switch ended := ctx.Err(); {
	case ended == nil:
		return nil, fmt.Errorf("%w: %s: none within %v: %w", store.ErrBusy, wait, s.opts.ConnWait, err)
	case errors.Is(err, ended):
		return nil, fmt.Errorf("%s: %w", wait, err)
	default:
		return nil, fmt.Errorf("%s: %w: %w", wait, ended, err)
	}
}

// onConn runs fn on a connection of its own, and again while the database says
// that it was not at fault. A statement on a *sql.Conn is never sent twice by
// database/sql.
func (s *Store) onConn(ctx context.Context, what string, fn func(ctx context.Context, c *sql.Conn) error) error {
	c, err := s.conn(ctx)
	if err != nil {
		return describe(what, err)
	}
	defer c.Close() // it only gives the connection back
	start := time.Now()
	for try := 0; ; try++ {
		err := fn(ctx, c)
		if !IsRetryable(err) {
			return describe(what, err)
		}
		pause := time.Duration(rand.Int64N(int64(min(time.Millisecond<<min(try, 6), 50*time.Millisecond)))) + 1
		if time.Since(start)+pause > s.opts.LockWait {
			return fmt.Errorf("%s: %w: contention outlasted %v of trying: %w", what, store.ErrBusy, s.opts.LockWait, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, err, ctx.Err())
		}
	}
}

// step runs fn, whose every statement is a transaction of its own, unless the
// database needs several for one step.
func (s *Store) step(ctx context.Context, what string, fn func(ctx context.Context, q session) error) error {
	return s.onConn(ctx, what, func(ctx context.Context, c *sql.Conn) error {
		q := s.session(sqlQuerier{c}, true)
		if err := s.checkOnce(ctx, q); err != nil {
			return err
		}
		q.alone = c
		return fn(s.engine.detach(ctx), q)
	})
}

// txStep runs fn in a transaction.
func (s *Store) txStep(ctx context.Context, what string, fn func(ctx context.Context, q session) error) error {
	return s.onConn(ctx, what, func(ctx context.Context, c *sql.Conn) error {
		if err := s.checkOnce(ctx, s.session(sqlQuerier{c}, true)); err != nil {
			return err
		}
		return s.inOwnTx(ctx, c, fn)
	})
}

func (s *Store) inOwnTx(ctx context.Context, c *sql.Conn, fn func(ctx context.Context, q session) error) error {
	tx, err := s.engine.begin(ctx, c)
	if err != nil {
		return err
	}
	defer tx.rollback() // nothing after a commit
	if err := fn(s.engine.detach(ctx), s.session(tx, true)); err != nil {
		return err
	}
	return tx.commit()
}

// sqlTx is a transaction whose end does not depend on the caller's context:
// database/sql rolls a transaction back underneath its user when the context
// it was begun with ends.
type sqlTx struct {
	*sql.Tx
	ctx    context.Context // the transaction's life, which its statements share
	cancel context.CancelFunc
}

func beginSQL(ctx context.Context, c *sql.Conn, opts *sql.TxOptions) (*sqlTx, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until it has begun
	tx, err := c.BeginTx(life, opts)
	if !stop() && err == nil {
		_ = tx.Rollback() // an error where database/sql was faster
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("begin: %w", err)
	}
	return &sqlTx{tx, life, cancel}, nil
}

func (t *sqlTx) Commit() error {
	timer := time.AfterFunc(settleBound, t.cancel)
	defer timer.Stop()
	if err := t.Tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Rollback does nothing after Commit.
func (t *sqlTx) Rollback() error {
	defer t.cancel()
	timer := time.AfterFunc(settleBound, t.cancel)
	defer timer.Stop()
	if err := t.Tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("rollback: %w", err)
	}
	return nil
}

// rawTx is a transaction begun by a statement that the driver's BeginTx does
// not send.
type rawTx struct {
	sqlQuerier
	conn  *sql.Conn
	ctx   context.Context // for COMMIT and ROLLBACK
	ended bool
}

func (t *rawTx) end(statement string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), settleBound)
	defer cancel()
	_, err := t.Exec(ctx, statement)
	return err
}

func (t *rawTx) commit() error {
	if err := t.end("COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.ended = true
	return nil
}

// rollback gives the connection up when it cannot be trusted to be outside a
// transaction again.
func (t *rawTx) rollback() {
	if t.ended {
		return
	}
	t.ended = true
	if t.end("ROLLBACK") != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}
