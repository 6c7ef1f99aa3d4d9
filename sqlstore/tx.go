package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Tx binds the steps to a transaction of the caller's, for one goroutine at a
// time. They use that transaction only, and never end it. After an error that
// is ErrTxUnusable, roll back; see store.RowTx for the errors that leave the
// transaction usable. Locks are waited for as the transaction itself would: on
// PostgreSQL, "Client Connection Defaults", lock_timeout is the caller's to
// set; on MySQL it is innodb_lock_wait_timeout; on SQLite it is busy_timeout.
//
// A nil transaction, a nil pointer in it and a Store that New did not make are
// ErrInvalid at the first step.
func (s *Store) Tx(tx Tx) store.RowTx {
	if isNil(tx) {
		return s.rowTx(session{}, errNilTx)
	}
	return s.TxOf(sqlQuerier{tx})
}

// TxOf is Tx for a transaction that is not database/sql's.
func (s *Store) TxOf(q Querier) store.RowTx {
	if isNil(q) {
		return s.rowTx(session{}, errNilTx)
	}
	if err := s.usable(); err != nil {
		return s.rowTx(session{}, err)
	}
	return s.rowTx(s.session(q, false), nil)
}

// isNil reports whether an interface holds nothing, or a pointer to nothing.
func isNil(tx any) bool {
	v := reflect.ValueOf(tx)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// rowTx is the steps inside a caller's transaction.
type rowTx struct {
	s *Store
	q session

	// turn holds a token while a step runs. It is a channel because a goroutine
	// that waits for a mutex keeps the clock of a testing/synctest bubble still.
	turn chan struct{}
	dead error // why nothing more is issued
}

func (s *Store) rowTx(q session, dead error) *rowTx {
	return &rowTx{s: s, q: q, turn: make(chan struct{}, 1), dead: dead}
}

var errNilTx = fmt.Errorf("the transaction is nil: %w", store.ErrInvalid)

// run takes one step. Some errors end a transaction while *sql.Tx goes on
// taking statements, which then stand alone and survive its Rollback: so after
// any error but a clean one there is no next statement.
func (t *rowTx) run(ctx context.Context, what string, fn func(ctx context.Context, q session) error) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.dead != nil {
		return fmt.Errorf("%s: %w: %w", what, store.ErrTxUnusable, t.dead)
	}
	err := ctx.Err() // not its cause, which may say more about a row than is known here
	if err == nil {
		err = fn(t.s.engine.detach(ctx), t.q)
	}
	if err == nil {
		// Last, because on SQLite the first statement of a transaction must be
		// a write.
		err = t.s.checkOnce(t.s.engine.detach(ctx), t.q)
	}
	err = describe(what, err)
	if err == nil || clean(err) {
		return err
	}
	t.dead = fmt.Errorf("an earlier step failed: %w", err)
	if errors.Is(err, store.ErrTxUnusable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrTxUnusable, err)
}

func (t *rowTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	steps, err := prepareCommits(p)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	var objects []store.Object
	err = t.run(ctx, "commit objects", func(ctx context.Context, q session) error {
		objects, err = t.s.commitAll(ctx, q, steps)
		return err
	})
	return result(objects, err)
}

func (t *rowTx) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	if err := checkChange(p.Key, p.If); err != nil {
		return store.Object{}, err
	}
	var o store.Object
	err := t.run(ctx, "delete object", func(ctx context.Context, q session) (err error) {
		o, err = t.s.deleteObject(ctx, q, p)
		return err
	})
	return result(o, err)
}

func (t *rowTx) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	metadata, err := checkMetadata(p)
	if err != nil {
		return store.Object{}, err
	}
	var o store.Object
	err = t.run(ctx, "set object metadata", func(ctx context.Context, q session) (err error) {
		o, err = t.s.setMetadata(ctx, q, p, metadata)
		return err
	})
	return result(o, err)
}

// result returns nothing beside an error.
func result[T any](v T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// txBound is the longest life of a transaction of InTx.
const txBound = time.Minute

// InTx runs fn in a transaction and commits it if fn returns nil. It never
// retries: CommitWith does. Opts may be nil.
//
// A request that ends must not roll the transaction back underneath its
// handler, nor cut a COMMIT short whose outcome would be unknown then: so the
// context that fn is given, and the transaction, outlive ctx's cancellation,
// for at most a minute or until ctx's own deadline if that is later; and
// COMMIT has a bound of its own. Give that context to every statement in fn.
//
// An error of fn is returned as it is. After an error of COMMIT itself the
// outcome is unknown unless IsRetryable. ErrBusy: no connection was to be had.
func (s *Store) InTx(ctx context.Context, opts *sql.TxOptions, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("in transaction: fn is nil: %w", store.ErrInvalid)
	}
	c, err := s.conn(ctx)
	if err != nil {
		return describe("in transaction", err)
	}
	defer c.Close() // it only gives the connection back
	tx, err := beginSQL(ctx, c, opts)
	if err != nil {
		return describe("in transaction", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit, and on the way out of a panic

	bound := txBound
	if deadline, ok := ctx.Deadline(); ok {
		bound = max(bound, time.Until(deadline))
	}
	timer := time.AfterFunc(bound, tx.cancel)
	err = fn(tx.ctx, tx.Tx)
	timer.Stop()
	if err != nil {
		if rollback := tx.Rollback(); rollback != nil {
			return fmt.Errorf("%w (%w)", err, rollback)
		}
		return err
	}
	return describe("in transaction", tx.Commit())
}
