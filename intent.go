package blobtx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

// IntentOptions configures Intent.
type IntentOptions struct {
	// IdempotencyKey is the caller's name for the request, at most 255 bytes.
	// A retry with the same key takes an unfinished upload over, or gets the
	// result of a finished one. Empty: none.
	IdempotencyKey string
	// If is what the object must be when the upload is committed. The zero
	// value is IfAbsent.
	If Condition
	// Metadata is kept with the object.
	Metadata map[string]string
	// TTL is how long the intent may stay silent until Upload begins to keep it
	// alive. At most MaxPending. Defaults to Options.IntentTTL.
	TTL time.Duration
	// Direct says that the bytes will arrive by another way. Nothing makes use of
	// it yet.
	Direct bool
}

// Intent records, in a committed row, that a blob is about to be uploaded for
// key. It starts nothing in the background. It is never part of a transaction
// of the caller's: it must be durable before the first byte is sent.
//
// With an idempotency key that is known, it takes the earlier attempt over
// (from then on the earlier holder can neither commit nor abort), or, when that
// was committed, returns it for Upload to hand out the stored object; the
// object key and the metadata that the first attempt stored win.
//
// ErrInvalid: bad input, nothing was written. A *ConflictError: the condition
// is false already. ErrTakenOver: a retry came while the reply to this one was
// lost. ErrIdempotencyReuse: the idempotency key came with another
// condition. ErrHeld. ErrBusy. ErrSetup. With an idempotency key, a failure that
// leaves open what became of earlier attempts is also ErrOutcomeUnknown.
func (c *Coordinator) Intent(ctx context.Context, key string, opts *IntentOptions) (*Intent, error) {
	var o IntentOptions
	if opts != nil {
		o = *opts
	}
	in, err := c.promise(ctx, key, o)
	if err != nil {
		return nil, failed("intent", key, "", err)
	}
	return &in, nil
}

func (c *Coordinator) promise(ctx context.Context, key string, o IntentOptions) (Intent, error) {
	p, err := c.newPromise(ctx, key, o)
	if err != nil {
		return Intent{}, err
	}
	if err := c.setup(ctx); err != nil {
		return Intent{}, unanswered(o.IdempotencyKey, err)
	}
	// Each round either ends or has met an intent that left its state
	// meanwhile; nobody can make that happen forever.
	for try := 1; try <= 8; try++ {
		p.ID, p.Holder, p.BlobName = c.random.id(), c.newHolder(byInsert), c.random.blobName()
		if c.opts.BlobName != nil {
			p.BlobName = c.opts.BlobName(key, p.ID)
			if err := store.ValidateBlobName(p.BlobName); err != nil {
				return Intent{}, fmt.Errorf("Options.BlobName: %w", err)
			}
		}
		in, err := c.insert(ctx, p)
		if err != nil {
			return Intent{}, unanswered(o.IdempotencyKey, err)
		}
		if in.ID == p.ID && in.State == store.Uploading {
			if in.Holder != p.Holder { // a retry has met the row whose insert we are repeating
				return Intent{}, ErrTakenOver
			}
			return in, nil
		}
		in, again, err := c.meet(ctx, in, p)
		if !again {
			return in, unanswered(o.IdempotencyKey, err)
		}
	}
	return Intent{}, unanswered(o.IdempotencyKey, fmt.Errorf("idempotency key %q changes hands all the time: %w", o.IdempotencyKey, ErrBusy))
}

// unanswered: who asks with an idempotency key asks about earlier attempts too,
// and an error that decides nothing must not pass for a no.
func unanswered(idempotencyKey string, err error) error {
	decided := errors.Is(err, ErrIdempotencyReuse) || refused(err) && !errors.Is(err, ErrSetup)
	if err == nil || idempotencyKey == "" || decided {
		return err
	}
	return fmt.Errorf("%w, if an earlier attempt used idempotency key %q: %w", ErrOutcomeUnknown, idempotencyKey, err)
}

func (c *Coordinator) newPromise(ctx context.Context, key string, o IntentOptions) (store.InsertParams, error) {
	if err := c.made(); err != nil {
		return store.InsertParams{}, err
	}
	p := store.InsertParams{
		Key: key, IdempotencyKey: o.IdempotencyKey, Expect: o.If, Direct: o.Direct, Metadata: o.Metadata,
		TTL: o.TTL, MaxPending: c.opts.MaxPending,
	}
	if p.TTL == 0 {
		p.TTL = c.opts.IntentTTL
	}
	if p.TTL < 0 || p.TTL > p.MaxPending {
		return p, fmt.Errorf("TTL %s is not between 0 and MaxPending %s: %w", p.TTL, p.MaxPending, ErrInvalid)
	}
	for _, err := range []error{
		store.ValidateKey(key), store.ValidateIdempotencyKey(o.IdempotencyKey), o.If.Validate(), store.ValidateMetadata(o.Metadata), context.Cause(ctx),
	} {
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// insert repeats an insert whose reply was lost: the id tells its own row.
func (c *Coordinator) insert(ctx context.Context, p store.InsertParams) (Intent, error) {
	return repeated(ctx, c, func() (Intent, error) { return c.rows.InsertIntent(ctx, p) })
}

// meet decides what a retry makes of the intent that has its idempotency key.
// Again: the intent has left that state, look once more.
func (c *Coordinator) meet(ctx context.Context, in Intent, p store.InsertParams) (_ Intent, again bool, _ error) {
	if in.Expect != p.Expect && in.State != store.Abandoned {
		return Intent{}, false, fmt.Errorf("idempotency key %q was used with condition %s, not %s: %w", p.IdempotencyKey, in.Expect, p.Expect, ErrIdempotencyReuse)
	}
	switch in.State {
	case store.Sealing, store.Done:
		c.event(ctx, Event{Kind: EventReplayed, Key: in.Key, IntentID: in.ID, BlobName: in.BlobName})
		return in, false, nil
	case store.Held:
		return Intent{}, false, ErrHeld
	case store.Abandoned: // the key is free
		return Intent{}, true, nil
	}
	// The latest attempt wins: an impatient first one cannot destroy the second.
	holder := c.newHolder(byTakeover)
	won, err := c.takeOver(ctx, store.TakeOverParams{ID: in.ID, Version: in.Version, Holder: holder, TTL: p.TTL})
	switch {
	case errors.Is(err, ErrNotFound):
		return Intent{}, true, nil
	case err != nil:
		return Intent{}, false, err
	case won.State != store.Uploading || won.Holder != holder:
		return Intent{}, true, nil
	case !won.UpdatedAt.Before(won.ExpiresAt): // too old to be committed: free the key
		_, err := c.rows.Abandon(ctx, store.AbandonParams{ID: won.ID, Version: won.Version, Holder: won.Holder})
		return Intent{}, err == nil, err
	}
	c.event(ctx, Event{Kind: EventTakenOver, Key: won.Key, IntentID: won.ID, BlobName: won.BlobName})
	return won, false, nil
}

// takeOver repeats a takeover whose reply was lost: the holder tells its own.
func (c *Coordinator) takeOver(ctx context.Context, p store.TakeOverParams) (Intent, error) {
	return repeated(ctx, c, func() (Intent, error) { return c.rows.TakeOver(ctx, p) })
}

// inserted reports whether this process promised the intent itself. Only then
// does Abort delete: after a takeover an earlier holder may still be writing.
// Settle moves the version on and keeps the holder.
func (c *Coordinator) inserted(in *Intent) bool {
	return strings.HasPrefix(in.Holder, c.instance+byInsert)
}
