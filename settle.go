package blobtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// Outcome is what became of uploads, for good.
type Outcome struct {
	// Committed: they are visible, or were until something replaced them. If
	// not, no attempt made before this answer ever becomes visible.
	Committed bool
	// Objects are the objects as they were committed, in the order of the
	// uploads; nil if not committed.
	Objects []Object
}

// Settle finds out whether uploads were committed, when the reply to a COMMIT
// was lost. It does not look, it fences: it takes each intent over, waiting for
// a transaction in flight, so that its answer is final for every earlier
// attempt. Not committed: the same uploads may be committed again.
//
// ErrOutcomeUnknown: the database was out of reach or the transaction is still
// in flight; nothing was changed that matters. ErrTakenOver: a retry has the
// intent. ErrHeld. ErrNotFound: the outcome is no longer remembered. ErrInvalid:
// not uploads, or uploads that were not committed together.
func (c *Coordinator) Settle(ctx context.Context, ups ...*Upload) (Outcome, error) {
	if err := c.valid(ups); err != nil {
		return Outcome{}, c.failedUploads("settle", ups, err)
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	outcome, err := c.settle(ctx, ups)
	return outcome, c.failedUploads("settle", ups, err)
}

func (c *Coordinator) settle(ctx context.Context, ups []*Upload) (Outcome, error) {
	var committed []Object
	for _, up := range ups {
		if up.replay != nil {
			committed = append(committed, *up.replay)
			continue
		}
		own := up.settle()
		in, err := c.takeOver(ctx, store.TakeOverParams{ID: own.ID, Version: own.Version, Holder: own.Holder, TTL: c.opts.IntentTTL})
		version := int64(0)
		if err == nil && in.State == store.Uploading && in.Holder == own.Holder {
			version = in.Version
		}
		up.moved(version)
		if err == nil {
			err = settled(in)
		}
		switch {
		case err == nil && in.Committed():
			committed = append(committed, *in.Result)
			up.Release()
		case err == nil && in.State == store.Uploading:
			if in.Holder != own.Holder {
				return Outcome{}, ErrTakenOver
			}
		case err == nil: // abandoned
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrHeld):
			return Outcome{}, err
		default:
			return Outcome{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	}
	switch len(committed) {
	case 0:
		return Outcome{}, nil
	case len(ups):
		return Outcome{Committed: true, Objects: committed}, nil
	}
	return Outcome{}, fmt.Errorf("%d of %d uploads were committed, in another transaction: settle them one by one: %w", len(committed), len(ups), ErrInvalid)
}

// settled returns why an intent's state answers nothing.
func settled(in Intent) error {
	switch {
	case in.State == store.Held:
		return ErrHeld
	case in.Committed() && in.Result == nil:
		return fmt.Errorf("the stored result is missing")
	}
	return nil
}

// Outcome is Settle for another process, which has only the intent's id. It
// fences like Settle: whoever holds the upload now cannot commit it any more.
//
// ErrNotFound: no longer remembered, or never known. ErrOutcomeUnknown: the
// database was out of reach or the transaction is still in flight. ErrHeld.
// ErrInvalid: no id.
func (c *Coordinator) Outcome(ctx context.Context, intentID string) (Outcome, error) {
	if err := c.made(); err != nil {
		return Outcome{}, fmt.Errorf("blobtx: outcome: %w", err)
	}
	if intentID == "" {
		return Outcome{}, fmt.Errorf("blobtx: outcome: no intent id: %w", ErrInvalid)
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	outcome, err := c.outcome(ctx, intentID)
	if err != nil {
		return Outcome{}, fmt.Errorf("blobtx: outcome of intent %s: %w", intentID, err)
	}
	return outcome, nil
}

func (c *Coordinator) outcome(ctx context.Context, id string) (Outcome, error) {
	holder := c.newHolder(byTakeover)
	for range 8 {
		found, err := c.rows.GetIntents(ctx, []string{id})
		if err != nil {
			return Outcome{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		if len(found) == 0 {
			return Outcome{}, ErrNotFound
		}
		in := found[0]
		if in.State == store.Uploading {
			in, err = c.takeOver(ctx, store.TakeOverParams{ID: id, Version: in.Version, Holder: holder, TTL: c.opts.IntentTTL})
		}
		if err == nil {
			err = settled(in)
		}
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrHeld):
			return Outcome{}, err
		case err != nil:
			return Outcome{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		case in.Committed():
			return Outcome{Committed: true, Objects: []Object{*in.Result}}, nil
		case in.State == store.Abandoned || in.Holder == holder:
			return Outcome{}, nil
		}
	}
	return Outcome{}, fmt.Errorf("%w: the intent changes hands all the time", ErrOutcomeUnknown)
}
