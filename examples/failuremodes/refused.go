package main

import (
	"context"
	"errors"
	"fmt"
)

// taken makes a document "a" whose blob is not in this container.
func (w *world) taken(ctx context.Context) error { return w.insert(ctx, "a", "ready", "elsewhere") }

// onlyUnique passes over the refusal by the unique index, which is what the
// situation is about.
func onlyUnique(err error) error {
	switch {
	case isUnique(err):
		return nil
	case err == nil:
		return errors.New("a second document of one name was not refused")
	}
	return err
}

// refused is A: nothing is done about the blob.
func refused(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	if err := w.upload(ctx, "blob-1", nil); err != nil {
		return err
	}
	if err := onlyUnique(w.insert(ctx, "a", "ready", "blob-1")); err != nil {
		return err
	}
	return w.sayOrphaned(ctx)
}

func (w *world) sayOrphaned(ctx context.Context) error {
	n, err := w.count(ctx)
	if err == nil {
		w.say("rows=%d blobs=%d orphaned=%d", n.rows, n.blobs, n.orphaned)
	}
	return err
}

// refusedBlobtx does nothing about the blob either: the sweeper does.
func refusedBlobtx(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	up, err := w.stage(ctx, "object-1")
	if err != nil {
		return err
	}
	defer up.Release()
	if err := onlyUnique(w.commit(ctx, up, "a", nothing)); err != nil {
		return err
	}
	up.Release()
	if _, err := w.sweep(ctx); err != nil {
		return err
	}
	return w.sayOrphaned(ctx)
}

// save uploads and inserts, and deletes the blob again when the insert fails.
// It is B's, and M shows what is wrong with it.
func (w *world) save(ctx context.Context, name, content string) error {
	if err := w.upload(ctx, content, nil); err != nil {
		return err
	}
	if err := w.insert(ctx, name, "ready", content); err != nil {
		if gone := w.remove(ctx, content); gone != nil {
			return fmt.Errorf("compensate: %w", gone)
		}
		return err
	}
	return nil
}

// saveBlobtx is save with the compensation behind a fence: Abort makes sure
// first that no commit of the upload has taken or can take effect.
func (w *world) saveBlobtx(ctx context.Context, name, key string, last func() error) error {
	up, err := w.stage(ctx, key)
	if err != nil {
		return err
	}
	defer up.Release()
	in := up.Intent()
	if err := w.commit(ctx, up, name, last); err != nil {
		if aborted := w.Abort(ctx, &in); aborted != nil {
			return fmt.Errorf("abort: %w", aborted)
		}
		return err
	}
	return nil
}

// compensate is B.
func compensate(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	if err := onlyUnique(w.save(ctx, "a", "blob-1")); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}

func compensateBlobtx(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	if err := onlyUnique(w.saveBlobtx(ctx, "a", "object-1", nothing)); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}

// unit is a unit of work whose hooks run when its save fails, whatever failed.
type unit struct{ failed []func() error }

func (u *unit) save(change func() error) error {
	err := change()
	if err == nil {
		return nil
	}
	for _, hook := range u.failed {
		if failed := hook(); failed != nil {
			return fmt.Errorf("hook: %w", failed)
		}
	}
	return err
}

// hook is F.
func hook(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	var u unit
	if err := w.upload(ctx, "blob-1", nil); err != nil {
		return err
	}
	u.failed = append(u.failed, func() error { return w.remove(ctx, "blob-1") })
	if err := onlyUnique(u.save(func() error { return w.insert(ctx, "a", "ready", "blob-1") })); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}

func hookBlobtx(ctx context.Context, w *world) error {
	if err := w.taken(ctx); err != nil {
		return err
	}
	var u unit
	up, err := w.stage(ctx, "object-1")
	if err != nil {
		return err
	}
	defer up.Release()
	in := up.Intent()
	u.failed = append(u.failed, func() error { return w.Abort(ctx, &in) })
	if err := onlyUnique(u.save(func() error { return w.commit(ctx, up, "a", nothing) })); err != nil {
		return err
	}
	return w.sayRowsAndBlobs(ctx)
}
