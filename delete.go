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
// when the object is gone. ErrBusy: nothing was changed. ErrOutcomeUnknown: a reply was lost, and now the
// object is gone: by this call or another. ErrInvalid: bad input, or a row of
// yours that still refers to the object by a foreign key.
func (c *Coordinator) Delete(ctx context.Context, key string, opts *DeleteOptions) error {
	want := opts.condition()
	if err := errors.Join(c.made(), store.ValidateKey(key), want.Validate(), context.Cause(ctx)); err != nil {
		return failed("delete", key, "", err)
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	_, err := c.change(ctx, key, want, func(exact Condition) (Object, error) {
		return c.rows.DeleteObject(ctx, store.DeleteParams{Key: key, If: exact, ReadGrace: c.opts.ReadGrace})
	})
	if errors.Is(err, ErrNotFound) && want == Always() {
		err = nil // there is no object, whoever removed it
	}
	return failed("delete", key, "", err)
}

// DeleteTx is Delete inside a transaction of the caller's. A *ConflictError
// leaves no trace in it. ErrTxUnusable: roll back. ErrInvalid.
func (c *Coordinator) DeleteTx(ctx context.Context, tx store.RowTx, key string, opts *DeleteOptions) error {
	want := opts.condition()
	if err := errors.Join(c.made(), validTx(tx), store.ValidateKey(key), want.Validate()); err != nil {
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
// After an attempt whose reply was lost it asks for that same version again and
// for no other: what stands there now may have come after our own change.
func (c *Coordinator) change(ctx context.Context, key string, want Condition, step func(exact Condition) (Object, error)) (Object, error) {
	var unclear, err error // the last attempt that may have been applied
	exact := want
	for try := 1; try <= 5; try++ {
		if unclear == nil && (want == Always() || want == IfExists()) {
			var current Object
			current, err = c.rows.GetObject(ctx, key)
			switch {
			case errors.Is(err, ErrNotFound) && want == Always():
				return Object{}, err
			case errors.Is(err, ErrNotFound):
				return Object{}, &ConflictError{Key: key, Want: want, Deleted: true}
			case refused(err):
				return Object{}, err
			case err != nil:
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
			err = &told
			switch {
			case told.Retryable:
			case unclear != nil && told.Deleted && want == Always():
				return Object{}, ErrNotFound
			case unclear != nil: // a conflict, perhaps with our own earlier attempt: not ErrConflict
				return Object{}, fmt.Errorf("%w: an earlier attempt may have done it: %w; %v", ErrOutcomeUnknown, unclear, err)
			case exact == want:
				return Object{}, err
			}
		case refused(err):
			return Object{}, err
		case !errors.Is(err, ErrBusy): // which changed nothing
			unclear = err
		}
		if !c.pause(ctx, try) {
			break
		}
	}
	if unclear != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, unclear)
	}
	return Object{}, err
}
