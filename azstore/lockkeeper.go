package azstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/blobtx/blobtx/store"
)

// Lock is a lock that is held, and renewed in the background. It is safe for
// concurrent use. Make one with Store.Lock, and defer its Release: a Lock that is
// nil or zero, as after an error, is not held, and says store.ErrInvalid.
type Lock struct {
	name     string
	lease    *lease.BlobClient // with the id, which is a secret: whoever has it can release the lock
	duration time.Duration
	ctx      context.Context // ends with the lock
	cancel   context.CancelCauseFunc

	released   chan struct{} // closed once releaseErr is Release's result
	releaseErr error

	mu        sync.Mutex // held for a few assignments, never across a call
	releasing bool
	until     time.Time // the lease is surely ours until then, in local time
	lost      error     // how, by itself and not with the context it was taken under
	last      error     // of a renewal that failed, since the last one that did not
	beat      *time.Timer
	dog       *time.Timer // ends the lock when its time is over
}

// newLock: the request that took the lease was sent at that time. Counted from
// then, on the monotonic clock, the lock ends here before it does at the
// service, whatever the two clocks show. It runs on timers, without a goroutine.
func newLock(ctx context.Context, name string, lc *lease.BlobClient, sent time.Time, d time.Duration) *Lock {
	l := &Lock{name: name, lease: lc, duration: d, until: sent.Add(d), released: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beat = time.AfterFunc(time.Until(sent.Add(d/3)), l.renew)
	l.dog = time.AfterFunc(time.Until(l.until), func() { _ = l.Err() })
	return l
}

// Context ends when the lock does: with the cause ErrLockLost when it was lost,
// with context.Canceled after Release, and with the context given to Store.Lock.
// Work that needs the lock goes on under this context.
//
// The lock is lost when the service refuses a renewal, or when none was
// confirmed for the lock's duration, counted on this machine's monotonic clock
// from the sending of the last one that was. So a process that was stopped for
// longer finds the context at its end. Where that clock stands still, as it
// does while a virtual machine is suspended, only the next renewal tells.
func (l *Lock) Context() context.Context {
	if err := l.usable(); err != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(err)
		return ctx
	}
	return l.ctx
}

// usable returns ErrInvalid for a Lock that Store.Lock did not make.
func (l *Lock) usable() error {
	if l == nil || l.ctx == nil {
		return fmt.Errorf("azstore: the Lock is not one that Store.Lock made: %w", store.ErrInvalid)
	}
	return nil
}

// Err returns nil as long as the lock is held, and then the cause of the end of
// Context. It looks at the clock itself: after a pause it tells the truth even
// before the runtime has come to end the context.
func (l *Lock) Err() error {
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil && !time.Now().Before(l.until) {
		l.lost = l.unconfirmed()
		l.cancel(l.lost)
	}
	if l.ctx.Err() != nil {
		l.beat.Stop()
		l.dog.Stop()
	}
	return context.Cause(l.ctx)
}

func (l *Lock) unconfirmed() error {
	err := fmt.Errorf("azstore: lock %.60q: %w: no renewal was confirmed for %v", l.name, ErrLockLost, l.duration)
	if l.last != nil {
		err = fmt.Errorf("%w: %w", err, l.last)
	}
	return err
}

// Release gives the lock up, so that another gets it at once. It waits at most
// five seconds for the service, whatever became of the context given to
// Store.Lock. It may be called more than once and concurrently: only the first
// call does anything, and all return its result.
//
// Errors: ErrLockLost when the lock was lost before; otherwise the service did
// not confirm, and the lock may stay taken until its duration is over.
func (l *Lock) Release() error {
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.Lock()
	first := !l.releasing
	l.releasing = true
	l.mu.Unlock()
	if first {
		l.releaseErr = l.giveUp()
		close(l.released)
	}
	<-l.released
	return l.releaseErr
}

func (l *Lock) giveUp() error {
	_ = l.Err() // its time may be over
	l.end(nil)
	if l.lost != nil && gone(l.lost) != nil {
		return l.lost // the service said so: there is nothing left to release
	}
	err := release(l.ctx, l.lease)
	if l.lost == nil && err != nil {
		return fmt.Errorf("azstore: release lock %.60q: %w", l.name, err)
	}
	return l.lost
}

// end stops the renewals and ends the context, because the lock was lost or, with
// nil, is not needed any more. After that lost does not change.
func (l *Lock) end(lost error) {
	l.mu.Lock()
	if l.ctx.Err() == nil {
		l.lost = lost
		l.cancel(lost) // nil: context.Canceled
	}
	l.mu.Unlock()
	_ = l.Err() // stops the timers
}

// renew asks for another duration. Only what the service says about the lease
// is the end of it; anything else may pass before its time is over.
func (l *Lock) renew() {
	if l.Err() != nil {
		return
	}
	sent := time.Now()
	// A request that hangs must leave time for others.
	ctx, cancel := context.WithTimeout(l.ctx, l.duration/6)
	_, err := l.lease.RenewLease(ctx, nil)
	cancel()
	if err == nil {
		l.renewed(sent)
		return
	}
	if lost := gone(err); lost != nil {
		l.end(fmt.Errorf("azstore: lock %.60q: %w", l.name, opRenew.as(lost, err)))
		return
	}
	l.again(opRenew.fail(l.ctx, err))
}

func (l *Lock) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.until, l.last = sent.Add(l.duration), nil
	l.dog.Reset(time.Until(l.until))
	l.beat.Reset(time.Until(sent.Add(l.duration / 3)))
}

func (l *Lock) again(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.last = err
	l.beat.Reset(l.duration / 12)
}
