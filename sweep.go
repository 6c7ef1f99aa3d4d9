package blobtx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobtx/blobtx/store"
)

// SweepOptions configures Sweep.
type SweepOptions struct {
	// Batch is how many intents, and how many retired blobs, are claimed at a
	// time; memory is bounded by it. Defaults to 256, what one batch request
	// to the blob service holds.
	Batch int
}

// SweepResult counts what one sweep did. A row that another has settled first,
// the commit's own seal say, counts here as well.
type SweepResult struct {
	Abandoned int // uploads never committed whose names were cleaned and are now watched
	Cleared   int // abandoned and retired names whose quarantine ended
	Sealed    int // committed blobs whose tag flip was owed
	Deleted   int // blobs of replaced and deleted objects that are gone
	Forgotten int // outcomes whose retention ended
	Held      int // rows that now wait for a person
	Failed    int // rows that will be tried again
}

// Sweep does what was due when it began: it abandons uploads whose deadline
// passed and deletes their blobs, seals what was committed, deletes the blobs
// that objects have given up, and forgets old outcomes. Any number of processes
// may sweep at once. One bad row stalls nobody. When ctx ends, the batch in hand
// is settled first. The error is the first that ended the sweep early; the
// result tells what was done until then.
func (c *Coordinator) Sweep(ctx context.Context, opts *SweepOptions) (SweepResult, error) {
	batch := 256
	if opts != nil && opts.Batch != 0 {
		batch = opts.Batch
	}
	var result SweepResult
	if err := c.made(); err != nil {
		return result, fmt.Errorf("blobtx: sweep: %w", err)
	}
	if batch < 1 {
		return result, fmt.Errorf("blobtx: sweep: batch of %d: %w", batch, ErrInvalid)
	}
	if err := c.sweep(ctx, batch, &result); err != nil {
		return result, fmt.Errorf("blobtx: sweep: %w", err)
	}
	return result, nil
}

func (c *Coordinator) sweep(ctx context.Context, batch int, result *SweepResult) error {
	for {
		n, err := c.rows.Forget(ctx, 1000)
		result.Forgotten += n
		if err != nil {
			return fmt.Errorf("forget: %w", err)
		}
		if n < 1000 {
			break
		}
	}
	p := store.ClaimParams{Limit: batch, Lease: claimLease}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		// The claim fences: from here on no commit of these uploads can succeed.
		claimed, err := c.rows.Claim(ctx, p)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if len(claimed.Intents)+len(claimed.Retired) == 0 {
			return nil
		}
		if err := c.sweepBatch(ctx, claimed, result); err != nil {
			return err
		}
		if p.Until.IsZero() {
			p.Until = claimed.Now
		}
	}
}

// sweepBatch does the blob work outside any transaction and settles it. A
// sweeper that dies in between leaves claims that expire. Each part has a bound
// of its own, together less than the claim's, so that a request that hangs costs
// its own row a try and leaves time to settle the others.
func (c *Coordinator) sweepBatch(ctx context.Context, claimed store.Claimed, result *SweepResult) error {
	work, done := detached(ctx, claimLease/2)
	intents := c.sweepIntents(work, claimed.Intents)
	done()
	work, done = detached(ctx, claimLease/4)
	retired := c.sweepRetired(work, claimed.Retired)
	done()
	ctx, cancel := detached(ctx, claimLease/8)
	defer cancel()
	return errors.Join(c.settleIntents(ctx, claimed.Intents, intents, result), c.settleRetired(ctx, claimed.Retired, retired, result))
}

func (c *Coordinator) settleIntents(ctx context.Context, claimed []Intent, settlements []store.IntentSettlement, result *SweepResult) error {
	if len(settlements) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(settlements), func(a, b store.IntentSettlement) int { return cmp.Compare(a.ID, b.ID) })
	if _, err := c.rows.SettleIntents(ctx, sorted); err != nil {
		return fmt.Errorf("settle intents: %w", err)
	}
	for i, in := range claimed {
		e := Event{Kind: EventAbandoned, Key: in.Key, IntentID: in.ID, BlobName: in.BlobName}
		c.swept(ctx, e, &result.Abandoned, settlements[i].To, settlements[i].Err, result)
	}
	return nil
}

// swept counts a settlement and tells of it. A name that is watched from now on
// was cleaned: that is the event's kind, with a count of its own.
func (c *Coordinator) swept(ctx context.Context, e Event, cleaned *int, to store.Verdict, why string, result *SweepResult) {
	switch to {
	case store.ToDone:
		result.Sealed++
		e.Kind = EventSealed
	case store.ToWatch:
		*cleaned++
	case store.ToGone:
		result.Cleared++
		return
	default:
		c.reportTrouble(&e, to, why, result)
	}
	c.event(ctx, e)
}

func (c *Coordinator) settleRetired(ctx context.Context, claimed []store.Retired, settlements []store.RetiredSettlement, result *SweepResult) error {
	if len(settlements) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(settlements), func(a, b store.RetiredSettlement) int { return cmp.Compare(a.BlobName, b.BlobName) })
	if _, err := c.rows.SettleRetired(ctx, sorted); err != nil {
		return fmt.Errorf("settle retired blobs: %w", err)
	}
	for i, r := range claimed {
		e := Event{Kind: EventDeleted, IntentID: r.IntentID, BlobName: r.BlobName}
		c.swept(ctx, e, &result.Deleted, settlements[i].To, settlements[i].Err, result)
	}
	return nil
}

func (c *Coordinator) sweepIntents(ctx context.Context, claimed []Intent) []store.IntentSettlement {
	settlements := make([]store.IntentSettlement, len(claimed))
	errs := make([]error, len(claimed))
	var abandoned, sealing []int
	var doomed []store.DeleteBlob
	for i, in := range claimed {
		settlements[i] = store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version}
		if in.State == store.Sealing {
			sealing = append(sealing, i)
			continue
		}
		abandoned = append(abandoned, i)
		doomed = append(doomed, store.DeleteBlob{Name: in.BlobName, IntentID: in.ID, Pending: true, ClearStaged: !in.Watched})
	}
	if len(doomed) > 0 {
		for k, err := range c.deleteBlobs(ctx, doomed) {
			errs[abandoned[k]] = err
		}
	}
	each(len(sealing), func(k int) {
		in := claimed[sealing[k]]
		errs[sealing[k]] = c.blobs.Seal(ctx, in.BlobName, in.ID)
	})
	for i, in := range claimed {
		s := &settlements[i]
		if in.State == store.Sealing {
			c.judgeSealing(ctx, in, errs[i], s)
		} else {
			c.judgeAbandoned(ctx, in, errs[i], s)
		}
	}
	return settlements
}

// deleted decides what follows a delete that was answered. A request sent before
// may still land, so every name is watched for the quarantine, and looked at
// again: nothing there: gone; something: another round. A watched name has no
// staged blocks cleared any more, because that creates an empty blob for a
// moment, which might itself land late.
func (c *Coordinator) deleted(err error, watched bool) (to store.Verdict, in time.Duration, answered bool) {
	switch {
	case errors.Is(err, ErrBlobNotFound) && watched:
		return store.ToGone, 0, true
	case err == nil, errors.Is(err, ErrBlobNotFound):
		return store.ToWatch, c.opts.Quarantine, true
	}
	return "", 0, false
}

func (c *Coordinator) judgeAbandoned(ctx context.Context, in Intent, err error, s *store.IntentSettlement) {
	var answered bool
	if s.To, s.In, answered = c.deleted(err, in.Watched); !answered {
		s.To, s.In, s.Err = c.judge(ctx, in.BlobName, in.ID, true, in.Attempts, err)
	}
}

func (c *Coordinator) judgeSealing(ctx context.Context, in Intent, err error, s *store.IntentSettlement) {
	if errors.Is(err, ErrBlobNotFound) {
		// Right when the object has moved on and the blob was deleted since.
		object, rowErr := c.rows.GetObject(ctx, in.Key)
		switch {
		case rowErr == nil && object.Blob.Name == in.BlobName:
			s.To, s.Err = store.ToHeld, fmt.Errorf("seal: object %q: %w", in.Key, ErrCorrupt).Error()
			return
		case rowErr != nil && !errors.Is(rowErr, ErrNotFound):
			err = rowErr
		default:
			err = nil
		}
	}
	if err == nil {
		s.To, s.In = store.ToDone, c.retention(in.IdempotencyKey)
		return
	}
	s.To, s.In, s.Err = c.judge(ctx, in.BlobName, in.ID, false, in.Attempts, err)
}

// judge decides about a failure: a guard's refusal is held only after a look
// shows another intent or a committed state; anything else is tried again.
func (c *Coordinator) judge(ctx context.Context, name, intentID string, pending bool, attempts int, err error) (store.Verdict, time.Duration, string) {
	if errors.Is(err, ErrGuardRefused) {
		info, statErr := c.blobs.Stat(ctx, store.StatParams{Name: name, Seal: pending})
		switch {
		case statErr != nil:
			err = fmt.Errorf("%w; look: %w", err, statErr)
		case info.IntentID != intentID:
			return store.ToHeld, 0, fmt.Sprintf("the blob belongs to intent %q", info.IntentID)
		case pending && info.Sealed:
			return store.ToHeld, 0, "the blob is sealed: it was committed once, perhaps in a timeline that a restore took back"
		}
	}
	return store.ToRetry, c.backoff(attempts), err.Error()
}

// backoff is 30 s, twice as long each time, at most an hour, with jitter.
func (c *Coordinator) backoff(attempts int) time.Duration {
	return c.random.around(min(30*time.Second<<min(max(attempts-1, 0), 7), time.Hour))
}

func (c *Coordinator) reportTrouble(e *Event, to store.Verdict, why string, result *SweepResult) {
	e.Err = errors.New(why)
	if to == store.ToHeld {
		result.Held++
		e.Kind = EventHeld
		c.opts.Logger.Error("blobtx: held: a person must decide", "key", e.Key, "intent", e.IntentID, "blob", e.BlobName, "error", why)
		return
	}
	result.Failed++
	e.Kind = EventFailed
	c.opts.Logger.Warn("blobtx: sweep failed on a row, it will be tried again", "key", e.Key, "intent", e.IntentID, "blob", e.BlobName, "error", why)
}

func (c *Coordinator) sweepRetired(ctx context.Context, claimed []store.Retired) []store.RetiredSettlement {
	if len(claimed) == 0 {
		return nil
	}
	doomed := make([]store.DeleteBlob, len(claimed))
	for i, r := range claimed {
		doomed[i] = store.DeleteBlob{Name: r.BlobName, IntentID: r.IntentID}
	}
	settlements := make([]store.RetiredSettlement, len(claimed))
	for i, err := range c.deleteBlobs(ctx, doomed) {
		r, s := claimed[i], &settlements[i]
		s.BlobName, s.DueAt = r.BlobName, r.DueAt
		var answered bool
		if s.To, s.In, answered = c.deleted(err, r.Watched); !answered {
			s.To, s.In, s.Err = c.judge(ctx, r.BlobName, r.IntentID, false, r.Attempts, err)
		}
	}
	return settlements
}

// deleteBlobs holds the blob store to one answer per blob: a missing one must
// not pass for a success.
func (c *Coordinator) deleteBlobs(ctx context.Context, doomed []store.DeleteBlob) []error {
	errs := c.blobs.Delete(ctx, doomed)
	if len(errs) == len(doomed) {
		return errs
	}
	answer := fmt.Errorf("the blob store gave %d answers for %d deletes", len(errs), len(doomed))
	errs = make([]error, len(doomed))
	for i := range errs {
		errs[i] = answer
	}
	return errs
}
