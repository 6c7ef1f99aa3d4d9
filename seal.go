package blobtx

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/blobtx/blobtx/store"
)

// Seal marks the blobs of committed uploads as committed, after a transaction
// of the caller's that used CommitTx. Commit, CommitWith and Put do it by
// themselves, and the sweeper does it where nobody did. The flip comes after
// the commit, so a committed tag proves that the row was committed once.
//
// ErrNotCommitted: an upload is not committed, or its outcome is no longer
// remembered; nothing was flipped. ErrInvalid: not uploads. Any other failure
// leaves the rest to the sweeper.
func (c *Coordinator) Seal(ctx context.Context, ups ...*Upload) error {
	return c.failedUploads("seal", ups, c.sealUploads(ctx, ups))
}

func (c *Coordinator) sealUploads(ctx context.Context, ups []*Upload) error {
	if err := valid(ups); err != nil {
		return err
	}
	ids := make([]string, len(ups))
	for i, up := range ups {
		ids[i] = up.current().ID
	}
	intents, err := c.rows.GetIntents(ctx, ids)
	if err != nil {
		return fmt.Errorf("read intents: %w", err)
	}
	if len(intents) != len(ups) {
		return fmt.Errorf("%d of %d intents are gone: %w", len(ups)-len(intents), len(ups), ErrNotCommitted)
	}
	var owed []Intent
	for i, in := range intents {
		if !in.Committed() {
			return fmt.Errorf("intent %s is %s: %w", in.ID, in.State, ErrNotCommitted)
		}
		ups[i].Release()
		if in.State == store.Sealing {
			owed = append(owed, in)
		}
	}
	return c.sealAll(ctx, owed)
}

// sealInline seals right after a commit. A failure never fails the commit: the
// sweeper finishes it.
func (c *Coordinator) sealInline(ctx context.Context, owed []Intent) {
	ctx, cancel := detached(ctx, cleanBound)
	defer cancel()
	if err := c.sealAll(ctx, owed); err != nil {
		c.opts.Logger.Warn("blobtx: seal failed, the sweeper will finish it", "key", owed[0].Key, "intent", owed[0].ID, "error", err)
	}
}

func (c *Coordinator) sealAll(ctx context.Context, owed []Intent) error {
	errs := make([]error, len(owed))
	each(len(owed), func(i int) { errs[i] = c.seal(ctx, owed[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) seal(ctx context.Context, in Intent) error {
	if err := c.blobs.Seal(ctx, in.BlobName, in.ID); err != nil {
		return fmt.Errorf("seal blob: %w", err)
	}
	c.event(ctx, Event{Kind: EventSealed, Key: in.Key, IntentID: in.ID, BlobName: in.BlobName})
	err := c.seals.record(ctx, store.IntentSettlement{
		ID: in.ID, State: store.Sealing, Version: in.Version, To: store.ToDone, In: c.retention(in.IdempotencyKey),
	})
	if err != nil {
		return fmt.Errorf("record seal: %w", err)
	}
	return nil
}

// each runs do(0) to do(n-1), at most 8 at a time, and waits for all.
func each(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	wg.Wait()
}

// groupCommit writes settlements: who arrives first writes for all who have
// come meanwhile, so that under load one statement settles many commits.
type groupCommit struct {
	write func(context.Context, []store.IntentSettlement) (int, error)

	mu      sync.Mutex // held for a few assignments, never across a call
	writing bool
	queue   []*groupMember
}

type groupMember struct {
	settlement store.IntentSettlement
	turn       chan bool // true: lead; false: written, see err
	err        error
}

// record returns once the settlement is written, or ctx is done.
func (g *groupCommit) record(ctx context.Context, s store.IntentSettlement) error {
	me := &groupMember{settlement: s}
	g.mu.Lock()
	g.queue = append(g.queue, me)
	if g.writing {
		me.turn = make(chan bool, 1)
		g.mu.Unlock()
		select {
		case lead := <-me.turn:
			if !lead {
				return me.err
			}
		case <-ctx.Done():
			g.leave(me)
			return context.Cause(ctx)
		}
		g.mu.Lock()
	}
	g.writing = true
	batch := g.queue // I am the first in it
	g.queue = nil
	g.mu.Unlock()

	settlements := make([]store.IntentSettlement, len(batch))
	for i, member := range batch {
		settlements[i] = member.settlement
	}
	// The others must not suffer when this caller leaves.
	ctx, cancel := detached(ctx, cleanBound)
	defer cancel()
	_, err := g.write(ctx, settlements)

	g.mu.Lock()
	g.next()
	g.mu.Unlock()
	for _, member := range batch[1:] {
		member.err = err
		member.turn <- false
	}
	return err
}

// next hands the lead to whoever waits first.
func (g *groupCommit) next() {
	g.writing = len(g.queue) > 0
	if g.writing {
		g.queue[0].turn <- true
	}
}

// leave takes a member out who waits no longer, with the lead if it has just
// been handed to it.
func (g *groupCommit) leave(me *groupMember) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, me); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	select {
	case lead := <-me.turn:
		if lead {
			g.next()
		}
	default:
	}
}
