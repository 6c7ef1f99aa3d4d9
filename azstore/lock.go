package azstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/blobtx/blobtx/store"
)

const (
	lockPrefix = store.ReservedPrefix + "lock/"

	minLockDuration     = 15 * time.Second // Lease Blob, REST reference
	maxLockDuration     = 60 * time.Second
	defaultLockDuration = 30 * time.Second
	minLockPoll         = 10 * time.Millisecond

	// lockCreations bounds how often a lock blob is made that others delete.
	lockCreations = 3

	// lockGoodbye bounds the requests that nobody should wait long for.
	lockGoodbye = 5 * time.Second
)

var (
	opPutLock = operation{"put blob", needsWrite}
	opAcquire = operation{"acquire lease", needsWrite}
	opRenew   = operation{"renew lease", needsWrite}
	opRelease = operation{"release lease", needsWrite}
	opBreak   = operation{"break lease", needsWrite}
)

// LockOptions chooses how a lock is taken and kept. The zero value is ready for
// use.
type LockOptions struct {
	// Duration is in whole seconds, 15 to 60 seconds. It is how long the lock
	// stays taken when its holder has died; the lock is renewed each third of
	// it. Defaults to 30 seconds.
	Duration time.Duration

	// Wait is how long to wait for a lock that another holds. Zero waits until
	// ctx ends; a negative Wait tries once.
	Wait time.Duration

	// Poll is the time between two tries while waiting, with jitter of a
	// quarter, at least 10 milliseconds. Defaults to a sixth of Duration.
	Poll time.Duration
}

func (o *LockOptions) withDefaults() (LockOptions, error) {
	var opts LockOptions
	if o != nil {
		opts = *o
	}
	if opts.Duration == 0 {
		opts.Duration = defaultLockDuration
	}
	if opts.Poll == 0 {
		opts.Poll = opts.Duration / 6
	}
	switch d := opts.Duration; {
	case d < minLockDuration || d > maxLockDuration || d%time.Second != 0:
		return opts, fmt.Errorf("lock options: Duration of %v must be whole seconds between %v and %v: %w", d, minLockDuration, maxLockDuration, store.ErrInvalid)
	case opts.Poll < minLockPoll:
		return opts, fmt.Errorf("lock options: Poll of %v must be at least %v: %w", opts.Poll, minLockPoll, store.ErrInvalid)
	}
	return opts, nil
}

// Lock takes the lock of that name, which at most one process holds at a time,
// among all that use this container with this Options.Prefix. While another
// holds it, Lock waits as LockOptions say, in no particular order.
//
// The lock lives until Release, until it is lost, or until ctx ends: ctx is not
// only for the waiting. Lock.Context tells of each.
//
// A lock is for efficiency and leadership, not for correctness. It is a lease,
// and its holder can be paused between looking at it and acting, or have a
// request under way that arrives late; by then another may hold it. So what is
// done under a lock must be safe when two do it: fenced, as every step of
// blobtx is, or idempotent.
//
// It is a lease of that duration on an empty blob of its own under the reserved
// prefix, which is created if need be and stays. name is what
// store.ValidateBlobName allows. See "Lease Blob", REST reference.
//
// Errors: store.ErrBusy when the wait is over and another has the lock, which is
// then also ErrLeaseHeld or ErrLeaseBreaking; the end of ctx; store.ErrInvalid;
// store.ErrSetup. Only waiting for a holder is patient: other failures come back
// after the client's retries.
func (s *Store) Lock(ctx context.Context, name string, opts *LockOptions) (*Lock, error) {
	full, err := s.lockName(name)
	var o LockOptions
	if err == nil {
		o, err = opts.withDefaults()
	}
	var l *Lock
	if err == nil {
		l, err = s.lock(ctx, name, full, o)
	}
	if err != nil {
		return nil, fmt.Errorf("azstore: lock %.60q: %w", name, err)
	}
	return l, nil
}

func (s *Store) lock(ctx context.Context, name, full string, o LockOptions) (*Lock, error) {
	// Nil options: the SDK mints a fresh random id. One per Lock, so that a
	// request of an earlier holder that arrives late finds another id, and one
	// of this holder that is repeated its own.
	lc, err := lease.NewBlobClient(s.c.NewBlobClient(full), nil)
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; {
		sent, err := s.acquire(ctx, full, lc, o.Duration)
		if err == nil {
			return newLock(ctx, name, lc, sent, o.Duration), nil
		}
		if !taken(err) {
			return nil, err
		}
		pause := o.Poll*3/4 + rand.N(o.Poll/2)
		if o.Wait != 0 {
			left := o.Wait - time.Since(begun)
			if left <= 0 {
				return nil, fmt.Errorf("%w: %w", store.ErrBusy, err)
			}
			pause = min(pause, left)
		}
		if !sleep(ctx, pause) {
			return nil, opAcquire.ended(ctx)
		}
	}
}

// acquire takes the lease once, on a blob that it creates if need be, and
// returns when the request was sent that took it.
func (s *Store) acquire(ctx context.Context, full string, lc *lease.BlobClient, d time.Duration) (time.Time, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return time.Time{}, opAcquire.ended(ctx)
		}
		sent := time.Now()
		// A lease that took longer to get than it lasts would be none.
		one, cancel := context.WithTimeout(ctx, d)
		_, err := lc.AcquireLease(one, int32(d/time.Second), nil)
		cancel()
		switch {
		case err == nil:
			return sent, nil
		case isAbsent(err) && try <= lockCreations:
			if err := s.createLock(ctx, full); err != nil {
				return time.Time{}, err
			}
			continue
		case undecided(err):
			// It may be ours without our knowing, and nobody would renew it.
			_ = release(ctx, lc)
		}
		return time.Time{}, opAcquire.fail(ctx, err)
	}
}

// undecided reports whether a request that failed may have been carried out.
func undecided(err error) bool {
	re := response(err)
	return re == nil || re.StatusCode >= http.StatusInternalServerError
}

// createLock makes the lock blob. It may meet another that does the same, or
// its own repeated request.
func (s *Store) createLock(ctx context.Context, full string) error {
	body := &blockBody{}
	_, err := s.c.NewBlockBlobClient(full).Upload(ctx, body, &blockblob.UploadOptions{AccessConditions: createOnly()})
	body.detach()
	if err == nil || occupied(err) {
		return nil
	}
	return opPutLock.fail(ctx, err)
}

// release tells the service that the lease is not needed any more, even after
// the end of ctx. A lease that is not ours any more is as good as released, and
// is what a repeated request meets after its own success.
func release(ctx context.Context, lc *lease.BlobClient) error {
	ctx = context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(ctx, lockGoodbye)
	defer cancel()
	_, err := lc.ReleaseLease(bounded, nil)
	if err == nil || gone(err) != nil {
		return nil
	}
	return opRelease.fail(ctx, err)
}

// BreakLock ends the lock of that name, whoever holds it: for operators, when a
// holder hangs. The holder cannot renew it from now on, and learns that by its
// next renewal, or at the latest when its duration is over. period, 0 to 60
// seconds and whole, is how long the lock stays taken for others, but no longer
// than what is left of it: with zero it is free at once, and for a while two
// may think that they hold it. BreakLock returns the time until it is free. See
// "Lease Blob", REST reference.
//
// Errors: ErrLeaseNotPresent when nobody holds it; store.ErrInvalid;
// store.ErrSetup.
func (s *Store) BreakLock(ctx context.Context, name string, period time.Duration) (time.Duration, error) {
	full, err := s.lockName(name)
	if err == nil && (period < 0 || period > maxLockDuration || period%time.Second != 0) {
		err = fmt.Errorf("period of %v must be whole seconds between 0 and %v: %w", period, maxLockDuration, store.ErrInvalid)
	}
	var left time.Duration
	if err == nil {
		left, err = s.breakLock(ctx, full, period)
	}
	if err != nil {
		return 0, fmt.Errorf("azstore: break lock %.60q: %w", name, err)
	}
	return left, nil
}

func (s *Store) breakLock(ctx context.Context, full string, period time.Duration) (time.Duration, error) {
	lc, err := lease.NewBlobClient(s.c.NewBlobClient(full), nil) // breaking takes no id
	if err != nil {
		return 0, err
	}
	seconds := int32(period / time.Second)
	resp, err := lc.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: &seconds})
	switch {
	case err != nil && isAbsent(err):
		return 0, opBreak.as(ErrLeaseNotPresent, err) // a lock that nobody ever held
	case err != nil:
		return 0, opBreak.fail(ctx, err)
	case resp.LeaseTime == nil:
		return 0, errors.New("break lease: the answer has no x-ms-lease-time")
	}
	return time.Duration(*resp.LeaseTime) * time.Second, nil
}

// lockName returns the lock blob's name in the container.
func (s *Store) lockName(name string) (string, error) {
	if err := store.ValidateBlobName(name); err != nil {
		return "", err
	}
	return s.joined(lockPrefix + name)
}

// sleep lets d pass, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
