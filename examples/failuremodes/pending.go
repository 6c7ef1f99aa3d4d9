package main

import (
	"context"
)

// diePending is C: a document is pending before its upload and ready after it.
func diePending(ctx context.Context, w *world) error {
	if err := w.insert(ctx, "a", "pending", "blob-1"); err != nil {
		return err
	}
	if err := w.upload(ctx, "blob-1", nil); err != nil {
		return err
	}
	if _, err := w.db.ExecContext(ctx, `UPDATE documents SET state = 'ready' WHERE name = 'a'`); err != nil {
		return err
	}
	if err := w.insert(ctx, "b", "pending", "blob-2"); err != nil {
		return err
	}
	if err := w.upload(ctx, "blob-2", nil); err != nil {
		return err
	}
	// Here the process dies.
	return w.sayBeforeAndAfter(ctx, w.sweepPending)
}

func (w *world) sayBeforeAndAfter(ctx context.Context, sweep func(context.Context) (int, error)) error {
	n, err := w.count(ctx)
	if err != nil {
		return err
	}
	w.say("before rows=%d pending=%d blobs=%d", n.rows, n.pending, n.blobs)
	swept, err := sweep(ctx)
	if err != nil {
		return err
	}
	if n, err = w.count(ctx); err != nil {
		return err
	}
	w.say("after rows=%d blobs=%d swept=%d", n.rows, n.blobs, swept)
	return nil
}

// sweepPending removes every pending document and its blob, the blob first, so
// that a crash between the two leaves the row to be found again. A real one
// waits until the document is old, and can only hope that its upload is not
// merely slow: nothing fences it.
func (w *world) sweepPending(ctx context.Context) (swept int, err error) {
	contents, err := w.pendingContents(ctx)
	if err != nil {
		return 0, err
	}
	for _, content := range contents {
		if err := w.remove(ctx, content); err != nil {
			return swept, err
		}
		r, err := w.db.ExecContext(ctx, `DELETE FROM documents WHERE state = 'pending' AND content = ?`, content)
		if err != nil {
			return swept, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return swept, err
		}
		swept += int(n)
	}
	return swept, nil
}

func (w *world) pendingContents(ctx context.Context) (contents []string, err error) {
	rows, err := w.db.QueryContext(ctx, `SELECT content FROM documents WHERE state = 'pending'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var content string
		if err := rows.Scan(&content); err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	return contents, rows.Err()
}

// diePendingBlobtx has no pending row: what is promised is an intent, and a
// reader meets what exists alone.
func diePendingBlobtx(ctx context.Context, w *world) error {
	if err := w.saveBlobtx(ctx, "a", "object-1", nothing); err != nil {
		return err
	}
	up, err := w.stage(ctx, "object-2")
	if err != nil {
		return err
	}
	up.Release() // here the process dies: nothing keeps the upload alive
	return w.sayBeforeAndAfter(ctx, w.sweep)
}
