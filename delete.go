package blobtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// DeleteOptions configures Delete and DeleteTx.
type DeleteOptions struct {
	// If is what the object must be. The zero value means Always here: an
	// object that is absent already is then no error.
	If Condition
}

func (o *DeleteOptions) condition() Condition {
	if o == nil || o.If == IfAbsent() {
		return Always()
	}
	return o.If
}

// Delete removes the object. Its blob goes after the read grace, for those who
// have it open. Once begun it does not end with ctx.
//
// A *ConflictError: the object is not what If wants; it is also ErrNotFound
// when the object is gone. ErrOutcomeUnknown: a reply was lost, and now the
// object is gone: by this call or another. ErrInvalid.
func (c *Coordinator) Delete(ctx context.Context, key string, opts *DeleteOptions) error {
	want := opts.condition()
	if err := errors.Join(store.ValidateKey(key), want.Validate(), context.Cause(ctx)); err != nil {
		return failed("delete", key, "", err)
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	_, err := c.change(ctx, key, want, func(exact Condition) (Object, error) {
		return c.rows.DeleteObject(ctx, store.DeleteParams{Key: key, If: exact, ReadGrace: c.opts.ReadGrace})
	})
	if errors.Is(err, ErrNotFound) && want == Always() {
		err = nil
	}
	return failed("delete", key, "", err)
}

// DeleteTx is Delete inside a transaction of the caller's. A *ConflictError, or
// ErrNotFound under Always, leaves no trace in it. ErrTxUnusable: roll back.
func (c *Coordinator) DeleteTx(ctx context.Context, tx store.RowTx, key string, opts *DeleteOptions) error {
	want := opts.condition()
	if err := errors.Join(validTx(tx), store.ValidateKey(key), want.Validate()); err != nil {
		return failed("delete", key, "", err)
	}
	_, err := tx.DeleteObject(ctx, store.DeleteParams{Key: key, If: want, ReadGrace: c.opts.ReadGrace})
	if errors.Is(err, ErrNotFound) && want == Always() {
		err = nil
	}
	return failed("delete", key, "", err)
}

func validTx(tx store.RowTx) error {
	if tx == nil {
		return fmt.Errorf("the transaction is nil: %w", ErrInvalid)
	}
	return nil
}

// change runs a step on one object in a transaction of its own. It never sends
// a broad condition: the object's version is read first and required, so that a
// request which lands late cannot meet a later object; versions never repeat.
func (c *Coordinator) change(ctx context.Context, key string, want Condition, step func(exact Condition) (Object, error)) (Object, error) {
	unclear := false // an attempt may have been applied
	var err error
	for try := 1; try <= 5; try++ {
		exact := want
		if want == Always() || want == IfExists() {
			current, readErr := c.rows.GetObject(ctx, key)
			switch {
			case errors.Is(readErr, ErrNotFound) && want == Always():
				return Object{}, readErr
			case errors.Is(readErr, ErrNotFound):
				return Object{}, gone(&ConflictError{Key: key, Want: want, Deleted: true}, unclear, err)
			case readErr != nil:
				err = readErr
				if !c.pause(ctx, try) {
					return Object{}, err
				}
				continue
			}
			exact = IfVersion(current.Version)
		}
		var object Object
		object, err = step(exact)
		var conflict *ConflictError
		switch {
		case err == nil:
			return object, nil
		case errors.As(err, &conflict):
			told := *conflict
			told.Want = want
			if exact == want && !told.Retryable {
				return Object{}, gone(&told, unclear, err)
			}
			err = &told // the object moved between the read and the step
		case refused(err):
			return Object{}, err
		default:
			unclear = true
		}
		if !c.pause(ctx, try) {
			break
		}
	}
	if unclear && !errors.Is(err, ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return Object{}, err
}

// gone turns a conflict into ErrOutcomeUnknown when an earlier attempt, whose
// reply was lost, may be what it conflicts with.
func gone(conflict *ConflictError, unclear bool, cause error) error {
	if !unclear {
		return conflict
	}
	return fmt.Errorf("%w: an earlier attempt may have done it: %w", ErrOutcomeUnknown, errors.Join(conflict, cause))
}
