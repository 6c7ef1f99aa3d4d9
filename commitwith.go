package blobtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// CommitFunc is what CommitWith hands to its function: it commits the uploads
// in the transaction that the RowTx is bound to.
type CommitFunc = func(store.RowTx) ([]Object, error)

// CommitWith commits uploads beside the application's own writes, and gives a
// true answer even when the reply to COMMIT is lost.
//
// fn opens a transaction in its own way, calls commit with the RowTx bound to
// it, once in each transaction it opens, commits, and returns the error of the whole. Its context is detached
// from the caller's cancellation and bounded. Work that comes after COMMIT
// belongs after CommitWith. If the transaction turns out not committed and fn's
// error is retryable, fn runs again, at most 4 times in all, so it must be
// repeatable.
//
//   - fn returns nil: one read of the intents confirms it. If they are not
//     committed after all (a forgotten Commit, a swallowed rollback):
//     ErrNotCommitted. commit never called: ErrInvalid. commit failed and fn
//     swallowed that: commit's error.
//   - fn returns an error after commit was called: settled. If the uploads are
//     committed, CommitWith returns the objects and nil, whatever fn returned.
//     If not, fn's error. If that cannot be found out, ErrOutcomeUnknown joined
//     with fn's error.
//
// When all uploads are replays, the stored objects come back and fn is not
// called. A mixture is ErrInvalid. A panic in fn passes through; the sweeper
// settles.
func (c *Coordinator) CommitWith(ctx context.Context, fn func(ctx context.Context, commit CommitFunc) error, ups ...*Upload) ([]Object, error) {
	objects, err := c.commitWith(ctx, fn, ups)
	return objects, c.failedUploads("commit", ups, err)
}

func (c *Coordinator) commitWith(ctx context.Context, fn func(context.Context, CommitFunc) error, ups []*Upload) ([]Object, error) {
	if fn == nil {
		return nil, fmt.Errorf("the function is nil: %w", ErrInvalid)
	}
	if objects, err := c.replays(ups); objects != nil || err != nil {
		return objects, err
	}
	for run := 1; ; run++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		objects, err := c.commitWithOnce(ctx, fn, ups)
		switch {
		case err == nil:
			detachedCtx, cancel := detached(ctx, cleanBound)
			c.committed(detachedCtx, ups, objects)
			cancel()
			return objects, nil
		case run == 4 || errors.Is(err, ErrOutcomeUnknown) || !c.again(err) || !c.pause(ctx, run):
			return nil, err
		}
	}
}

// again reports whether fn may simply run again, its transaction being settled
// as not committed. A takeover that settling did not find to be another's was
// our own.
func (c *Coordinator) again(err error) bool {
	var conflict *ConflictError
	var own *ownTakeover
	return errors.As(err, &own) || errors.As(err, &conflict) && conflict.Retryable || c.rows.Retryable(err)
}

// ownTakeover is ErrTakenOver by this very upload's own Settle.
type ownTakeover struct{ error }

func (e *ownTakeover) Unwrap() error { return e.error }

// commitWithOnce runs fn once; whatever it returns is final for that run.
func (c *Coordinator) commitWithOnce(ctx context.Context, fn func(context.Context, CommitFunc) error, ups []*Upload) ([]Object, error) {
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	run := &commitRun{turn: make(chan struct{}, 1)}
	fnErr := fn(ctx, func(tx store.RowTx) ([]Object, error) {
		return run.commit(func() ([]Object, error) { return c.CommitTx(ctx, tx, ups...) })
	})
	run.end()
	objects, failure := run.objects, run.failure
	switch {
	case !run.called && fnErr == nil:
		return nil, fmt.Errorf("the function returned nil and never called commit: %w", ErrInvalid)
	case !run.called:
		return nil, fnErr
	case run.succeeded: // in this or an earlier transaction of this run
	case failure != nil && fnErr == nil && (decided(failure) || errors.Is(failure, ErrAlreadyCommitted)):
		return nil, failure // which the function swallowed
	case failure != nil && decided(failure): // it left no trace: there is nothing to settle
		return nil, fnErr
	}
	if failure == nil && fnErr == nil && c.confirmed(ctx, ups, objects) {
		return objects, nil
	}
	// The uploads went into a transaction whose end is not known.
	settleCtx, cancelSettle := detached(ctx, commitBound)
	defer cancelSettle()
	outcome, err := c.settle(settleCtx, ups)
	switch {
	case err != nil:
		if errors.Is(fnErr, failure) {
			failure = nil
		}
		return nil, errors.Join(err, failure, fnErr)
	case outcome.Committed:
		return outcome.Objects, nil
	case errors.Is(failure, ErrTakenOver):
		return nil, &ownTakeover{errors.Join(fnErr, failure)}
	case fnErr != nil:
		return nil, fnErr
	case failure != nil:
		return nil, failure
	}
	return nil, fmt.Errorf("the function returned nil, but its transaction was rolled back or never committed: %w", ErrNotCommitted)
}

// confirmed reads the intents once. Only a yes is an answer: a no may be older
// than a transaction in flight, so it is settled.
func (c *Coordinator) confirmed(ctx context.Context, ups []*Upload, objects []Object) bool {
	intents, err := c.readAll(ctx, ups)
	if err != nil {
		return false
	}
	for i := range intents {
		if !intents[i].Committed() || intents[i].Result == nil || intents[i].Result.Version != objects[i].Version {
			return false
		}
	}
	return true
}

// decided: commit was refused. Taken over may be by a Settle of our own that
// came twice; settling tells.
func decided(err error) bool { return refused(err) && !errors.Is(err, ErrTakenOver) }

// commitRun is what fn did with its commit. A helper that retries its closure
// may call it once per transaction; the last call counts. None counts after fn
// has returned, by whatever goroutine.
type commitRun struct {
	turn      chan struct{} // a lock that a testing/synctest bubble can wait for
	called    bool
	succeeded bool // some call did
	over      bool
	objects   []Object
	failure   error
}

func (r *commitRun) commit(do func() ([]Object, error)) ([]Object, error) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.over {
		return nil, fmt.Errorf("blobtx: commit was called after the function had returned: %w", ErrInvalid)
	}
	r.called = true
	r.objects, r.failure = do()
	r.succeeded = r.succeeded || r.failure == nil
	return r.objects, r.failure
}

// end waits for a call under way and refuses later ones.
func (r *commitRun) end() {
	r.turn <- struct{}{}
	r.over = true
	<-r.turn
}
