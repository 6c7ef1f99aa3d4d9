package blobtx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Seal marks the blobs of committed uploads as committed, after a transaction
// of the caller's that used CommitTx. Commit, CommitWith and Put do it by
// themselves, and the sweeper does it where nobody did. The flip comes after
// the commit, so a committed tag proves that the row was committed once. It is
// recorded together with other seals, in a moment: the intent may still be
// sealing when Seal returns.
//
// ErrNotCommitted: an upload is not committed; that is settled, as by Settle,
// whose other errors may come too. ErrNotFound: its outcome is no longer
// remembered. ErrHeld. ErrInvalid: not uploads. Nothing was flipped then; any
// other failure leaves the rest to the sweeper.
func (c *Coordinator) Seal(ctx context.Context, ups ...*Upload) error {
	return c.failedUploads("seal", ups, c.sealUploads(ctx, ups))
}

func (c *Coordinator) sealUploads(ctx context.Context, ups []*Upload) error {
	if err := c.valid(ups); err != nil {
		return err
	}
	intents, err := c.readAll(ctx, ups)
	if err != nil {
		return err
	}
	for i, in := range intents {
		switch in.State {
		case store.Held:
			return ErrHeld
		case store.Abandoned:
			return ErrNotCommitted
		case store.Uploading: // a look is no answer: its COMMIT may be under way
			outcome, err := c.settle(ctx, ups[i:i+1])
			if err != nil {
				return err
			}
			if !outcome.Committed {
				return ErrNotCommitted
			}
			return c.sealUploads(ctx, ups)
		}
	}
	var owed []Intent
	for i, in := range intents {
		ups[i].Release()
		if in.State == store.Sealing {
			owed = append(owed, in)
		}
	}
	return c.sealAll(ctx, owed)
}

// readAll returns the intents of all uploads, or ErrNotFound.
func (c *Coordinator) readAll(ctx context.Context, ups []*Upload) ([]Intent, error) {
	ids := make([]string, len(ups))
	for i, up := range ups {
		ids[i] = up.current().ID
	}
	intents, err := c.rows.GetIntents(ctx, ids)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read intents: %w", err)
	case len(intents) != len(ups):
		return nil, fmt.Errorf("the outcome is no longer remembered: %w", ErrNotFound)
	}
	return intents, nil
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

func (c *Coordinator) sealAll(ctx context.Context, owed []Intent) (err error) {
	c.seals.enter()
	defer func() { err = cmp.Or(err, c.seals.leave(ctx)) }()
	errs := make([]error, len(owed))
	each(len(owed), func(i int) { errs[i] = c.blobs.Seal(ctx, owed[i].BlobName, owed[i].ID) })
	for i, in := range owed {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("seal blob: %w", errs[i])
			continue
		}
		c.sealed(ctx, in)
	}
	return cmp.Or(errs...)
}

func (c *Coordinator) sealed(ctx context.Context, in Intent) {
	c.event(ctx, Event{Kind: EventSealed, Key: in.Key, IntentID: in.ID, BlobName: in.BlobName})
	c.seals.add(store.IntentSettlement{
		ID: in.ID, State: store.Sealing, Version: in.Version, To: store.ToDone, In: c.retention(in.IdempotencyKey),
	})
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

// groupCommit records seals: who leaves last, or finds a full batch, writes for
// all who are inside, and they do not wait. So a lone commit records its own
// seal, and under load one statement settles many. What a crash or a failure
// leaves unrecorded is due to the sweeper in a moment.
type groupCommit struct {
	write func(context.Context, []store.IntentSettlement) (int, error)

	mu      sync.Mutex // held for a few assignments, never across a call
	inside  int        // commits and seals under way
	writing bool
	queue   []store.IntentSettlement
	oldest  time.Time // when the queue began
}

const (
	fullBatch  = 32
	mostQueued = 4096            // while a write hangs; the rest is the sweeper's
	mostRounds = 3               // of one writer; what has come since is the next one's, or the sweeper's
	mostWait   = 5 * time.Second // for others inside, one of whom may hang
)

func (g *groupCommit) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
}

func (g *groupCommit) add(s store.IntentSettlement) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.oldest = time.Now()
	}
	if len(g.queue) < mostQueued {
		g.queue = append(g.queue, s)
	}
}

func (g *groupCommit) due() bool {
	return len(g.queue) >= fullBatch || len(g.queue) > 0 && (g.inside == 0 || time.Since(g.oldest) >= mostWait)
}

func (g *groupCommit) leave(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.writing || !g.due() {
		return nil
	}
	g.writing = true
	defer func() { g.writing = false }()
	// What others left here must not suffer when this caller leaves.
	ctx, cancel := detached(ctx, cleanBound)
	defer cancel()
	var failure error
	for round := 0; round < mostRounds && g.due(); round++ {
		batch := g.queue
		g.queue = nil
		failure = errors.Join(failure, g.writeUnlocked(ctx, batch))
	}
	if failure != nil {
		return fmt.Errorf("record seals, others' among them: %w", failure)
	}
	return nil
}

// writeUnlocked holds the lock again when it returns, and when a driver panics.
func (g *groupCommit) writeUnlocked(ctx context.Context, batch []store.IntentSettlement) error {
	g.mu.Unlock()
	defer g.mu.Lock()
	_, err := g.write(ctx, batch)
	return err
}
