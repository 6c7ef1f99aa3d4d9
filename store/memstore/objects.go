package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/blobtx/blobtx/store"
)

// The three steps of store.RowTx: on Rows in a transaction of their own, on Tx
// in the caller's.

// CommitObjects implements store.RowTx.
func (r *Rows) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return r.own().CommitObjects(ctx, p)
}

// CommitObjects implements store.RowTx.
func (t *Tx) CommitObjects(ctx context.Context, p []store.CommitParams) (objects []store.Object, err error) {
	err = t.step(ctx, func(now time.Time) (blocker *Tx, err error) {
		objects, blocker, err = t.commitObjects(now, p)
		return blocker, err
	})
	return objects, err
}

func (t *Tx) commitObjects(now time.Time, p []store.CommitParams) ([]store.Object, *Tx, error) {
	objects := make([]store.Object, len(p))
	for _, i := range inKeyOrder(p) {
		row, blocker, err := t.commitObject(now, &p[i])
		if blocker != nil || err != nil {
			return nil, blocker, err
		}
		objects[i] = copyObject(row)
	}
	return objects, nil, nil
}

// inKeyOrder returns the indexes of p in the order of its keys.
func inKeyOrder(p []store.CommitParams) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a].Key, p[b].Key) })
	return order
}

func (t *Tx) commitObject(now time.Time, p *store.CommitParams) (*store.Object, *Tx, error) {
	if blocker := t.blocker(rowID{intentRow, p.IntentID}); blocker != nil {
		return nil, blocker, nil
	}
	in := t.intent(p.IntentID)
	if err := t.committable(in, p, now); err != nil {
		return nil, nil, fmt.Errorf("intent %s: %w", p.IntentID, err)
	}
	if blocker := t.blocker(rowID{objectRow, in.Key}); blocker != nil {
		return nil, blocker, nil
	}
	current := t.object(in.Key)
	if !in.Expect.Holds(current) {
		return nil, nil, conflict(in.Key, in.Expect, current)
	}
	row := &store.Object{
		Key: in.Key, Version: t.rows.nextVersion(0, now, p.Random), Blob: p.Blob, IntentID: in.ID,
		Metadata: in.Metadata, CreatedAt: now, UpdatedAt: now,
	}
	row.Blob.Name = in.BlobName
	if current != nil {
		row.Version = t.rows.nextVersion(current.Version, now, p.Random)
		row.CreatedAt = current.CreatedAt
		t.retire(current, now.Add(p.ReadGrace))
	}
	next := *in
	next.State = store.Sealing
	next.Version++
	next.DueAt = now.Add(p.SealIn)
	next.UpdatedAt = now
	next.Result = row
	t.intents = append(t.intents, &next)
	t.objects = append(t.objects, objectChange{in.Key, row})
	return row, nil, nil
}

// committable returns why the intent cannot be committed, if it cannot.
func (t *Tx) committable(in *store.Intent, p *store.CommitParams, now time.Time) error {
	switch {
	case in == nil && t.ended != nil:
		return fmt.Errorf("not to be seen: %w", store.ErrTxUnusable)
	case in == nil:
		return fmt.Errorf("gone: %w", store.ErrIntentLost)
	case in.Committed():
		return store.ErrAlreadyCommitted
	case in.State == store.Abandoned:
		return store.ErrIntentLost
	case in.State == store.Held:
		return store.ErrHeld
	case in.Version != p.Version:
		return store.ErrTakenOver
	case !in.ExpiresAt.After(now):
		return fmt.Errorf("expired: %w", store.ErrIntentLost)
	}
	return nil
}

func (t *Tx) retire(o *store.Object, due time.Time) {
	t.retired = append(t.retired, &store.Retired{BlobName: o.Blob.Name, IntentID: o.IntentID, DueAt: due})
}

// DeleteObject implements store.RowTx.
func (r *Rows) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return r.own().DeleteObject(ctx, p)
}

// DeleteObject implements store.RowTx.
func (t *Tx) DeleteObject(ctx context.Context, p store.DeleteParams) (o store.Object, err error) {
	err = t.step(ctx, func(now time.Time) (blocker *Tx, err error) {
		o, blocker, err = t.deleteObject(now, p)
		return blocker, err
	})
	return o, err
}

func (t *Tx) deleteObject(now time.Time, p store.DeleteParams) (store.Object, *Tx, error) {
	current, blocker, err := t.present(p.Key, p.If)
	if blocker != nil || err != nil {
		return store.Object{}, blocker, err
	}
	t.retire(current, now.Add(p.ReadGrace))
	t.objects = append(t.objects, objectChange{p.Key, nil})
	return copyObject(current), nil, nil
}

// SetObjectMetadata implements store.RowTx.
func (r *Rows) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return r.own().SetObjectMetadata(ctx, p)
}

// SetObjectMetadata implements store.RowTx.
func (t *Tx) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (o store.Object, err error) {
	err = t.step(ctx, func(now time.Time) (blocker *Tx, err error) {
		o, blocker, err = t.setMetadata(now, p)
		return blocker, err
	})
	return o, err
}

func (t *Tx) setMetadata(now time.Time, p store.MetadataParams) (store.Object, *Tx, error) {
	current, blocker, err := t.present(p.Key, p.If)
	if blocker != nil || err != nil {
		return store.Object{}, blocker, err
	}
	row := *current
	row.Version = t.rows.nextVersion(current.Version, now, p.Random)
	row.Metadata = maps.Clone(p.Metadata)
	row.UpdatedAt = now
	t.objects = append(t.objects, objectChange{p.Key, &row})
	return copyObject(&row), nil, nil
}

// present returns the object if it is there as the condition wants it.
func (t *Tx) present(key string, want store.Condition) (*store.Object, *Tx, error) {
	if err := want.Validate(); err != nil {
		return nil, nil, err
	}
	if want == store.IfAbsent() {
		return nil, nil, fmt.Errorf("object %q: a change to it cannot want it absent: %w", key, store.ErrInvalid)
	}
	if blocker := t.blocker(rowID{objectRow, key}); blocker != nil {
		return nil, blocker, nil
	}
	current := t.object(key)
	switch {
	case current == nil && want == store.Always():
		return nil, nil, fmt.Errorf("object %q: %w", key, store.ErrNotFound)
	case !want.Holds(current):
		return nil, nil, conflict(key, want, current)
	}
	return current, nil, nil
}
