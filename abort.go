package blobtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// Abort gives an upload up: it fences the intent, so that no commit of it can
// succeed any more, and then deletes the blob under its guard. It is safe to
// defer: after a commit it does nothing, and nothing to an intent that a retry
// has taken over. It is an optimisation; correctness never rests on it. It is
// detached from ctx and bounded, so that a client that disconnects leaves
// nothing behind.
//
// Only what this process itself promised is deleted here; the rest is fenced
// and left to the sweeper. ErrBusy: a transaction has the intent locked;
// ErrInvalid: no intent.
func (c *Coordinator) Abort(ctx context.Context, in *Intent) error {
	if in == nil || in.ID == "" {
		return fmt.Errorf("blobtx: abort: no intent: %w", ErrInvalid)
	}
	err := c.made()
	if err == nil {
		_, err = c.abort(ctx, in)
	}
	return failed("abort", in.Key, in.ID, err)
}

// abort returns the intent as it then stands, the zero Intent if it is gone.
func (c *Coordinator) abort(ctx context.Context, in *Intent) (Intent, error) {
	ctx, cancel := detached(ctx, cleanBound)
	defer cancel()
	now, err := repeated(ctx, c, func() (Intent, error) {
		return c.rows.Abandon(ctx, store.AbandonParams{ID: in.ID, Version: in.Version, Holder: in.Holder})
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return Intent{}, nil
	case err != nil:
		return Intent{}, fmt.Errorf("abandon intent: %w", err)
	}
	if now.State != store.Abandoned {
		return now, nil
	}
	c.event(ctx, Event{Kind: EventAborted, Key: in.Key, IntentID: in.ID, BlobName: now.BlobName})
	if !c.inserted(in) {
		return now, nil
	}
	// Only now, when the fence is committed: a commit in flight would have won.
	err = c.deleteBlobs(ctx, []store.DeleteBlob{{Name: now.BlobName, IntentID: in.ID, Pending: true}})[0]
	if err != nil && !errors.Is(err, ErrBlobNotFound) {
		return now, fmt.Errorf("delete blob: %w", err)
	}
	return now, nil
}
