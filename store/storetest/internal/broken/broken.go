// Package broken has stores with exactly one mistake each, and beside every
// mistake the cases of the suites that it fails. They prove that the suites
// can fail, and show what a failure means.
//
// Most are mistakes that were made somewhere: by a database, an SDK or a
// design. All are the right store of package memstore with one step changed.
package broken

import (
	"context"
	"errors"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// RowMistake is a row store with one mistake.
type RowMistake struct {
	Name  string
	Open  func(memstore.RowsOptions) RowStore
	Fails []string // the cases that notice, and no others do
}

// BlobMistake is a blob store with one mistake.
type BlobMistake struct {
	Name  string
	Open  func(*memstore.Blobs) store.BlobStore
	Fails []string
}

// RowStore is a store.RowStore that can begin a transaction of the caller's.
type RowStore interface {
	store.RowStore
	Begin(ctx context.Context) (Tx, error)
}

// Tx is a transaction of the caller's.
type Tx interface {
	store.RowTx
	Commit() error
	Rollback() error
}

// rows is the right store, for mistakes to embed.
type rows struct{ *memstore.Rows }

func open(opts memstore.RowsOptions) rows { return rows{memstore.NewRows(&opts)} }

func (s rows) Begin(ctx context.Context) (Tx, error) { return s.Rows.Begin(ctx) }

// Right is the store without a mistake.
func Right(opts memstore.RowsOptions) RowStore { return open(opts) }

// change alters the committed row of an intent, past every rule and lock, if
// fn says so.
func (s rows) change(id string, fn func(in *store.Intent) bool) {
	intents, _ := s.GetIntents(context.Background(), []string{id})
	for _, in := range intents {
		if fn(&in) {
			s.SetIntent(in)
		}
	}
}

// committed returns the object as committed, or nil.
func (s rows) committed(key string) *store.Object {
	if o, err := s.GetObject(context.Background(), key); err == nil {
		return &o
	}
	return nil
}

// inTx runs one step in a transaction made by begin, and as a step of the
// store's own where a transaction of the caller's would become unusable.
func inTx[T any](ctx context.Context, begin func(context.Context) (Tx, error), right store.RowTx, step func(store.RowTx) (T, error)) (T, error) {
	var none T
	tx, err := begin(ctx)
	if err != nil {
		return none, err
	}
	got, err := step(tx)
	if err != nil {
		_ = tx.Rollback() // it was open: no error
		if errors.Is(err, store.ErrTxUnusable) {
			return step(right)
		}
		return none, err
	}
	return got, tx.Commit()
}

// roundTrip is the time between two statements, in which others act. The
// stores run in a testing/synctest bubble, where it is the same every time.
func roundTrip() { time.Sleep(time.Millisecond) }
