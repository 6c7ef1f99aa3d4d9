package faultstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobtx/blobtx/store"
)

// Transaction is a transaction like those of package memstore: steps, and an
// end.
type Transaction interface {
	store.RowTx
	Commit() error
	Rollback() error
}

// Tx returns t with every call a step of in: the statements of a caller's
// transaction, and its end.
//
// A fault at a statement breaks the connection: the transaction is rolled back
// and later calls are store.ErrTxUnusable. At Commit, FailBefore rolls back;
// LoseReply commits; Late leaves the transaction open, with its locks, until
// the message is applied (it commits) or dropped (it rolls back).
func Tx(t Transaction, in Injector) Transaction {
	x := &tx{under: t, in: in}
	x.forget = atDeath(in, x.die)
	return x
}

type tx struct {
	under  Transaction
	in     Injector
	forget func()

	mu     sync.Mutex // held for a few assignments, never across a call
	broken error      // why nothing more is issued
	sent   bool       // its end is on its way or over: no longer ours to roll back
}

// die is the end of the process: its connection closes.
func (t *tx) die() {
	if t.end(ErrDead) {
		_ = t.under.Rollback()
	}
}

// end marks the transaction as over and reports whether it still was ours.
func (t *tx) end(why error) (ours bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ours = !t.sent
	t.sent = true
	if t.broken == nil {
		t.broken = why
	}
	return ours
}

func (t *tx) usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// drop closes a connection that broke.
func (t *tx) drop(why error) error {
	if t.end(why) {
		t.forget()
		_ = t.under.Rollback()
	}
	return why
}

// statement is call for a statement of the transaction.
func statement[T any](ctx context.Context, t *tx, op Op, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if err := t.usable(); err != nil {
		return none, err
	}
	f, waited, _ := begin(ctx, t.in, op)
	switch f.Kind {
	case Proceed:
		v, err := do(waited)
		if f.Told != nil {
			f.Told(v, err)
		}
		return v, err
	case Die:
		return none, f.tell(nil, fmt.Errorf("%w: %w", store.ErrTxUnusable, t.drop(ErrDead)))
	}
	return none, f.tell(nil, t.drop(fmt.Errorf("%w: %w", store.ErrTxUnusable, ErrLost)))
}

// CommitObjects implements store.RowTx.
func (t *tx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return statement(ctx, t, commitOp("tx", p, false), func(ctx context.Context) ([]store.Object, error) {
		return t.under.CommitObjects(ctx, p)
	})
}

// DeleteObject implements store.RowTx.
func (t *tx) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return statement(ctx, t, Op{Store: "tx", Name: "delete object", Subject: p.Key}, func(ctx context.Context) (store.Object, error) {
		return t.under.DeleteObject(ctx, p)
	})
}

// SetObjectMetadata implements store.RowTx.
func (t *tx) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return statement(ctx, t, Op{Store: "tx", Name: "set metadata", Subject: p.Key}, func(ctx context.Context) (store.Object, error) {
		return t.under.SetObjectMetadata(ctx, p)
	})
}

var errEnded = errors.New("faultstore: the transaction has already ended")

// Commit is a step.
func (t *tx) Commit() error {
	if err := t.usable(); err != nil {
		return err
	}
	op := Op{Store: "tx", Name: "COMMIT", Write: true}
	f, _, _ := begin(context.Background(), t.in, op)
	switch f.Kind {
	case Die:
		return f.tell(nil, t.drop(ErrDead))
	case Proceed, LoseReply, Late:
		if !t.end(errEnded) { // it died while it was held
			return f.tell(nil, ErrDead)
		}
		t.forget()
	}
	switch f.Kind {
	case Proceed:
		return f.tell(nil, t.under.Commit())
	case LoseReply:
		_ = t.under.Commit()
	case Late:
		f.late(Message{Op: op, Apply: func() { _ = t.under.Commit() }, Drop: func() { _ = t.under.Rollback() }})
	default:
		return f.tell(nil, t.drop(ErrLost))
	}
	return f.tell(nil, ErrLost)
}

// Rollback is a step while the transaction is open. Whatever goes wrong, the
// transaction is rolled back: its connection closes.
func (t *tx) Rollback() error {
	if err := t.usable(); err != nil {
		return err
	}
	f, _, _ := begin(context.Background(), t.in, Op{Store: "tx", Name: "ROLLBACK"})
	if !t.end(errEnded) {
		return f.tell(nil, ErrDead)
	}
	t.forget()
	err := t.under.Rollback()
	switch f.Kind {
	case Proceed:
	case Die:
		err = ErrDead
	default:
		err = ErrLost
	}
	return f.tell(nil, err)
}
