package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobtx/blobtx/store"
)

// ErrTxDone is what Commit and Rollback return on a transaction that has
// already ended.
var ErrTxDone = errors.New("memstore: transaction has already been committed or rolled back")

// Tx is a transaction of the caller's: a store.RowTx whose steps take effect
// at Commit. The rows it has written stay locked until it ends, and a step of
// another waits for them, at most five seconds. Two transactions that wait for
// each other end so, with store.ErrBusy. Make one with Begin: every method of
// the zero Tx returns store.ErrInvalid.
type Tx struct {
	rows  *Rows
	ended chan struct{} // closed by Commit and Rollback; nil: own

	// The rest is under rows.mu.

	intents []*store.Intent // rows as they are to be, the latest last
	objects []objectChange
	retired []*store.Retired
	locked  []rowID
	failed  error // why no further step is possible: ErrTxUnusable with its cause
	done    bool
}

type objectChange struct {
	key string
	row *store.Object // nil: deleted
}

var _ store.RowTx = (*Tx)(nil)

// Begin starts a transaction. The context counts for Begin only.
func (r *Rows) Begin(ctx context.Context) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Tx{rows: r, ended: make(chan struct{})}, nil
}

// Commit makes the transaction's steps visible, all at once. After a step
// that was ErrTxUnusable it rolls back and returns that error; a second call
// returns ErrTxDone.
func (t *Tx) Commit() error { return t.end(true) }

// Rollback drops the transaction's steps. A second call returns ErrTxDone.
func (t *Tx) Rollback() error { return t.end(false) }

func (t *Tx) end(commit bool) error {
	r := t.rows
	if r == nil {
		return errNotBegun
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.done {
		return ErrTxDone
	}
	failed := t.failed
	if commit && failed == nil {
		t.apply()
	}
	for _, id := range t.locked {
		delete(r.locks, id)
	}
	t.done, t.failed = true, unusable(ErrTxDone)
	close(t.ended)
	if commit {
		return failed
	}
	return nil
}

func (t *Tx) apply() {
	for _, row := range t.intents {
		t.rows.putIntent(row)
	}
	for _, change := range t.objects {
		t.rows.putObject(change.key, change.row)
	}
	for _, row := range t.retired {
		t.rows.putRetired(row)
	}
}

// own returns the transaction of a single step of the store's: it begins and
// commits while the mutex is held, and so needs no locks.
func (r *Rows) own() *Tx { return &Tx{rows: r} }

var errNotBegun = fmt.Errorf("memstore: the transaction is not one that Begin made: %w", store.ErrInvalid)

// step runs fn as a savepoint: its changes stay only if it returns no error.
// The rows it changed are locked then.
func (t *Tx) step(ctx context.Context, fn func(now time.Time) (blocker *Tx, err error)) error {
	if t.rows == nil {
		return errNotBegun
	}
	err := t.rows.step(ctx, func(now time.Time) (*Tx, error) {
		if t.failed != nil {
			return nil, t.failed
		}
		intents, objects, retired := len(t.intents), len(t.objects), len(t.retired)
		blocker, err := fn(now)
		if blocker != nil || err != nil {
			t.intents, t.objects, t.retired = t.intents[:intents], t.objects[:objects], t.retired[:retired]
			return blocker, err
		}
		if t.ended == nil {
			t.apply()
			return nil, nil
		}
		for _, row := range t.intents[intents:] {
			t.lock(rowID{intentRow, row.ID})
		}
		for _, change := range t.objects[objects:] {
			t.lock(rowID{objectRow, change.key})
		}
		return nil, nil
	})
	if err == nil || t.ended == nil || leavesNoTrace(err) {
		return err
	}
	t.rows.mu.Lock()
	defer t.rows.mu.Unlock()
	if t.failed == nil {
		t.failed = unusable(err)
	}
	return t.failed
}

// leavesNoTrace reports whether a transaction stays usable after err.
func leavesNoTrace(err error) bool {
	for _, harmless := range []error{
		store.ErrConflict, store.ErrIntentLost, store.ErrTakenOver, store.ErrHeld, store.ErrAlreadyCommitted,
		store.ErrNotFound, // of a delete under Always
		store.ErrInvalid,  // refused before anything was issued
	} {
		if errors.Is(err, harmless) {
			return true
		}
	}
	return false
}

func unusable(cause error) error {
	if errors.Is(cause, store.ErrTxUnusable) {
		return cause
	}
	return fmt.Errorf("%w: %w", store.ErrTxUnusable, cause)
}

func (t *Tx) lock(id rowID) {
	if t.rows.locks[id] != t {
		t.rows.locks[id] = t
		t.locked = append(t.locked, id)
	}
}

// blocker returns the other transaction that has the row locked, or nil.
func (t *Tx) blocker(id rowID) *Tx {
	if owner := t.rows.locks[id]; owner != t {
		return owner
	}
	return nil
}

// intent and object return rows as this transaction sees them: its own
// changes, else the newest committed row.

func (t *Tx) intent(id string) *store.Intent {
	for _, row := range slices.Backward(t.intents) {
		if row.ID == id {
			return row
		}
	}
	return t.rows.intents[id]
}

func (t *Tx) object(key string) *store.Object {
	for _, change := range slices.Backward(t.objects) {
		if change.key == key {
			return change.row
		}
	}
	return t.rows.objects[key]
}
