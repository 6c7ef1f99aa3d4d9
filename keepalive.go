package blobtx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// keeper keeps an intent alive by heartbeats, and ends the work on it when it
// learns that the intent was lost, or when it has heard nothing for so long
// that a sweeper may have taken it. Time is local and counted from sending, so
// it never believes in a lease longer than the database does.
//
// It runs on timers: an upload shorter than a third of the lease costs neither
// a goroutine nor a statement.
type keeper struct {
	up     *Upload
	ctx    context.Context // of the work: ends with the lease
	cancel context.CancelCauseFunc

	mu        sync.Mutex // held for a few assignments, never across a call
	ended     bool
	confirmed time.Time // when the last confirmed statement was sent
	lease     time.Duration
	last      time.Time // the end of the intent's life, in local time
	due       time.Time // the database's deadline, as last seen
	beat      *time.Timer
	watchdog  *time.Timer // ends the work when the lease is over
}

// newKeeper: the intent is as a statement sent at confirmed returned it.
func newKeeper(ctx context.Context, up *Upload, confirmed time.Time, lease time.Duration) *keeper {
	k := &keeper{up: up, confirmed: confirmed, lease: lease}
	in := up.current()
	left := min(lease, in.ExpiresAt.Sub(in.UpdatedAt)) // at most, when the life ends before the lease
	if in.DueAt.Before(in.ExpiresAt) {
		left = in.ExpiresAt.Sub(in.DueAt) + lease // due was set to the database's now + lease
	}
	k.last, k.due = confirmed.Add(left), in.DueAt
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.beat = time.AfterFunc(time.Until(confirmed.Add(lease/3)), k.heartbeat)
	k.watchdog = time.AfterFunc(time.Until(k.over()), func() { k.end(ErrIntentLost) })
	return k
}

// over is when the work must end, unless another heartbeat is confirmed.
func (k *keeper) over() time.Time {
	if end := k.confirmed.Add(k.lease); end.Before(k.last) {
		return end
	}
	return k.last
}

// end stops the heartbeats and cancels the work, for this reason.
func (k *keeper) end(why error) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.ended = true
	k.beat.Stop()
	k.watchdog.Stop()
	k.cancel(why)
}

func (k *keeper) heartbeat() {
	k.mu.Lock()
	until := k.over()
	over := k.ended || k.ctx.Err() != nil
	k.mu.Unlock()
	if over {
		k.end(context.Canceled)
		return
	}
	c, in, sent := k.up.c, k.up.current(), time.Now()
	ctx, cancel := context.WithDeadline(k.ctx, until)
	row, err := c.rows.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: in.Version, TTL: c.opts.IntentTTL})
	cancel()
	switch {
	case err == nil:
		known := k.up.current() // Settle may just have moved its version
		switch err := lostTo(row, known); {
		case err == nil && row.Version == in.Version:
			k.heard(sent, row)
		case err == nil:
			k.up.landed(row.Version)
			k.again(c.opts.IntentTTL / 12)
		case errors.Is(err, ErrAlreadyCommitted):
			k.end(err) // by CommitTx, by a commit in flight, or by who has a copy: nothing is left to keep
		default:
			k.end(err)
		}
	case errors.Is(err, ErrNotFound):
		k.end(ErrIntentLost)
	case k.ctx.Err() != nil:
		k.end(context.Canceled)
	default:
		c.opts.Logger.Warn("blobtx: heartbeat failed", "key", in.Key, "intent", in.ID, "error", err)
		k.again(c.opts.IntentTTL / 12)
	}
}

// heard renews the lease. An intent that reached the end of its life is not
// renewed: the lease runs out, and the work with it.
func (k *keeper) heard(sent time.Time, row Intent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.confirmed, k.lease = sent, k.up.c.opts.IntentTTL
	k.watchdog.Reset(time.Until(k.over()))
	moved := row.DueAt.After(k.due)
	k.due = row.DueAt
	switch {
	case !row.DueAt.Before(row.ExpiresAt):
	case !moved: // a transaction has the row locked: alive, but if it rolls back, due soon
		k.beat.Reset(k.lease / 12)
	default:
		k.beat.Reset(time.Until(sent.Add(k.lease / 3)))
	}
}

func (k *keeper) again(in time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		k.beat.Reset(in)
	}
}
