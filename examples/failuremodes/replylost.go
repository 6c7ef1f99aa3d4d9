package main

import (
	"context"
	"errors"

	"github.com/blobtx/blobtx/store/faultstore"
)

// loseReply is M: B's program, and a COMMIT that was applied without a word.
// The error says that the row may not be there; the compensation takes it to
// say that the row is not there.
func loseReply(ctx context.Context, w *world) error {
	w.loseReply.Store(true)
	err := w.save(ctx, "a", "blob-1")
	if _, err := identity(err, faultstore.ErrLost, "the lost reply"); err != nil {
		return err
	}
	return w.sayDangling(ctx)
}

func (w *world) sayDangling(ctx context.Context) error {
	n, err := w.count(ctx)
	if err == nil {
		w.say("rows=%d blobs=%d dangling=%d", n.rows, n.blobs, n.dangling)
	}
	return err
}

// loseReplyBlobtx meets no error: CommitWith takes the intent over on another
// connection, learns that it was committed, and there is nothing to compensate.
func loseReplyBlobtx(ctx context.Context, w *world) error {
	lose := func() error { // in the transaction, so that no COMMIT but its own is met
		w.loseReply.Store(true)
		return nil
	}
	if err := w.saveBlobtx(ctx, "a", "object-1", lose); err != nil {
		return err
	}
	if w.loseReply.Load() {
		return errors.New("no reply was lost")
	}
	return w.sayDangling(ctx)
}
