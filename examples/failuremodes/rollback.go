package main

import (
	"context"
	"errors"
)

var errFull = errors.New("the disk is full") // of the application, before its COMMIT

// rollBack is E.
func rollBack(ctx context.Context, w *world) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after the one below
	if err := insertDocument(ctx, tx, "a", "ready", "blob-1"); err != nil {
		return err
	}
	if err := w.upload(ctx, "blob-1", nil); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}

// rollBackBlobtx does nothing about the failure: the sweeper does.
func rollBackBlobtx(ctx context.Context, w *world) error {
	up, err := w.stage(ctx, "a")
	if err != nil {
		return err
	}
	defer up.Release()
	err = w.commit(ctx, up, "a", func() error { return errFull })
	if _, err := identity(err, errFull, "the failure before COMMIT"); err != nil {
		return err
	}
	up.Release()
	if _, err := w.sweep(ctx); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}

func (w *world) sayRowsAndBlobs(ctx context.Context) error {
	n, err := w.count(ctx)
	if err == nil {
		w.say("rows=%d blobs=%d", n.rows, n.blobs)
	}
	return err
}
