package broken

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobtx/blobtx/store"
)

// losesReplaced does not record the blob that a commit replaces.
type losesReplaced struct{ rows }

func (s losesReplaced) Begin(ctx context.Context) (Tx, error) {
	tx, err := s.rows.Begin(ctx)
	return &losesReplacedTx{Tx: tx, rows: s.rows}, err
}

func (s losesReplaced) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return inTx(ctx, s.Begin, s.rows, func(tx store.RowTx) ([]store.Object, error) { return tx.CommitObjects(ctx, p) })
}

type losesReplacedTx struct {
	Tx
	rows     rows
	replaced []string
}

func (t *losesReplacedTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	objects, err := t.Tx.CommitObjects(ctx, p)
	for _, o := range objects {
		if old := t.rows.committed(o.Key); old != nil { // locked: nobody else can replace it
			t.replaced = append(t.replaced, old.Blob.Name)
		}
	}
	return objects, err
}

func (t *losesReplacedTx) Commit() error {
	err := t.Tx.Commit()
	for _, name := range t.replaced {
		t.rows.RemoveRetired(name)
	}
	return err
}

// leavesHalf sets the intent sealing before it knows whether the condition
// holds.
type leavesHalf struct{ rows }

func (s leavesHalf) Begin(ctx context.Context) (Tx, error) {
	tx, err := s.rows.Begin(ctx)
	return &leavesHalfTx{Tx: tx, rows: s.rows}, err
}

type leavesHalfTx struct {
	Tx
	rows rows
	half []string
}

func (t *leavesHalfTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	objects, err := t.Tx.CommitObjects(ctx, p)
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		for _, one := range p {
			if one.Key == conflict.Key {
				t.half = append(t.half, one.IntentID)
			}
		}
	}
	return objects, err
}

func (t *leavesHalfTx) Commit() error {
	err := t.Tx.Commit()
	for _, id := range t.half {
		t.rows.change(id, func(in *store.Intent) bool {
			in.State = store.Sealing
			in.Version++
			return true
		})
	}
	return err
}

// noSavepoint leaves the uploads before a conflict in the transaction.
type noSavepoint struct{ rows }

func (s noSavepoint) Begin(ctx context.Context) (Tx, error) {
	tx, err := s.rows.Begin(ctx)
	return noSavepointTx{tx}, err
}

type noSavepointTx struct{ Tx }

func (t noSavepointTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return oneByOne(ctx, t.Tx, p)
}

// readsUncommitted shows objects that a transaction has yet to commit.
type readsUncommitted struct {
	rows
	mu    sync.Mutex
	dirty map[string]store.Object
}

func (s *readsUncommitted) GetObject(ctx context.Context, key string) (store.Object, error) {
	s.mu.Lock()
	o, dirty := s.dirty[key]
	s.mu.Unlock()
	if dirty {
		return o, nil
	}
	return s.rows.GetObject(ctx, key)
}

func (s *readsUncommitted) Begin(ctx context.Context) (Tx, error) {
	tx, err := s.rows.Begin(ctx)
	return &readsUncommittedTx{tx, s}, err
}

type readsUncommittedTx struct {
	Tx
	rows *readsUncommitted
}

func (t *readsUncommittedTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	objects, err := t.Tx.CommitObjects(ctx, p)
	t.rows.mu.Lock()
	defer t.rows.mu.Unlock()
	for _, o := range objects {
		t.rows.dirty[o.Key] = o
	}
	return objects, err
}

func (t *readsUncommittedTx) Commit() error {
	t.forget()
	return t.Tx.Commit()
}

func (t *readsUncommittedTx) Rollback() error {
	t.forget()
	return t.Tx.Rollback()
}

func (t *readsUncommittedTx) forget() {
	t.rows.mu.Lock()
	defer t.rows.mu.Unlock()
	clear(t.rows.dirty)
}

// goesOnInTx says that a transaction is unusable, and uses it.
type goesOnInTx struct{ rows }

func (s goesOnInTx) Begin(ctx context.Context) (Tx, error) {
	tx, err := s.rows.Begin(ctx)
	return goesOnTx{tx}, err
}

type goesOnTx struct{ Tx }

func cancelled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrTxUnusable, err)
	}
	return nil
}

func (t goesOnTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	return t.Tx.CommitObjects(ctx, p)
}

func (t goesOnTx) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	if err := cancelled(ctx); err != nil {
		return store.Object{}, err
	}
	return t.Tx.DeleteObject(ctx, p)
}

func (t goesOnTx) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	if err := cancelled(ctx); err != nil {
		return store.Object{}, err
	}
	return t.Tx.SetObjectMetadata(ctx, p)
}
