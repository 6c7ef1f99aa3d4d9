package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// lockTimeout is how long a step waits for a row that another transaction has
// locked.
const lockTimeout = 5 * time.Second

// RowsOptions configures NewRows. A nil *RowsOptions is the zero value.
type RowsOptions struct {
	// Now is the database's clock. Defaults to time.Now.
	Now func() time.Time

	// NextVersion is the rule by which a version follows another; it must not
	// wait. Defaults to store.NextVersion, the only right one: another is for
	// proving that a test notices.
	NextVersion func(current store.Version, clock time.Time, random uint32) store.Version
}

// Rows is a store.RowStore in memory. It behaves as a SQL database does at
// READ COMMITTED: an open transaction locks the rows it has written, nobody
// else sees them before its commit, and who waited for a lock decides on the
// newest committed row.
type Rows struct {
	now         func() time.Time
	nextVersion func(current store.Version, clock time.Time, random uint32) store.Version

	// mu is never held while something waits or the caller's code runs.
	mu      sync.Mutex
	intents map[string]*store.Intent  // by id
	objects map[string]*store.Object  // by key
	retired map[string]*store.Retired // by blob name
	byKey   map[string]string         // idempotency key to intent id
	names   map[string]int            // blob names: how many rows have each
	locks   map[rowID]*Tx             // rows that open transactions have written
}

// The rows that the maps point to are never changed in place, only replaced:
// a transaction that holds the next form of a row may share maps with it.

// rowID names one row, there or not: a lock on an absent row keeps others from
// inserting it.
type rowID struct {
	table table
	key   string
}

type table byte

const (
	intentRow table = iota
	objectRow
)

var _ store.RowStore = (*Rows)(nil)

// NewRows returns an empty store.
func NewRows(opts *RowsOptions) *Rows {
	r := &Rows{
		now:         time.Now,
		nextVersion: store.NextVersion,

		intents: make(map[string]*store.Intent),
		objects: make(map[string]*store.Object),
		retired: make(map[string]*store.Retired),
		byKey:   make(map[string]string),
		names:   make(map[string]int),
		locks:   make(map[rowID]*Tx),
	}
	if opts != nil && opts.Now != nil {
		r.now = opts.Now
	}
	if opts != nil && opts.NextVersion != nil {
		r.nextVersion = opts.NextVersion
	}
	return r
}

// step runs fn with the mutex held. Where fn meets a row that another
// transaction has locked, it names that transaction and has changed nothing:
// step waits for its end and runs fn again from the start, so that every
// decision is made on the newest rows.
func (r *Rows) step(ctx context.Context, fn func(now time.Time) (blocker *Tx, err error)) error {
	var timeout <-chan time.Time
	for {
		// Not context.Cause: a cause may be an error that says more about a row
		// than is known here, such as store.ErrIntentLost.
		if err := ctx.Err(); err != nil {
			return err
		}
		now := r.now().UTC().Truncate(time.Microsecond)
		r.mu.Lock()
		blocker, err := fn(now)
		r.mu.Unlock()
		if blocker == nil {
			return err
		}
		if timeout == nil {
			timer := time.NewTimer(lockTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-blocker.ended:
		case <-ctx.Done():
		case <-timeout:
			return fmt.Errorf("a row was locked by an open transaction for %s: %w", lockTimeout, store.ErrBusy)
		}
	}
}

// Check returns nil: there is no schema to be missing.
func (r *Rows) Check(ctx context.Context) error { return ctx.Err() }

// InsertIntent implements store.RowStore.
func (r *Rows) InsertIntent(ctx context.Context, p store.InsertParams) (in store.Intent, err error) {
	if err := p.Expect.Validate(); err != nil {
		return store.Intent{}, err
	}
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		if known := r.intents[p.ID]; known != nil {
			in = copyIntent(known)
			return nil, nil
		}
		if id, known := r.byKey[p.IdempotencyKey]; known {
			in = copyIntent(r.intents[id])
			return nil, nil
		}
		if current := r.objects[p.Key]; !p.Expect.Holds(current) {
			return nil, conflict(p.Key, p.Expect, current)
		}
		if r.names[p.BlobName] > 0 {
			return nil, fmt.Errorf("blob name %q is in use: %w", p.BlobName, store.ErrInvalid)
		}
		row := &store.Intent{
			ID: p.ID, IdempotencyKey: p.IdempotencyKey, Key: p.Key, Expect: p.Expect,
			BlobName: p.BlobName, Direct: p.Direct, Metadata: maps.Clone(p.Metadata),
			State: store.Uploading, Version: 1, Holder: p.Holder,
			DueAt: now.Add(p.TTL), ExpiresAt: now.Add(p.MaxPending), CreatedAt: now, UpdatedAt: now,
		}
		r.putIntent(row)
		in = copyIntent(row)
		return nil, nil
	})
	return in, err
}

// TakeOver implements store.RowStore.
func (r *Rows) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	return r.changeIntent(ctx, p.ID, true, func(in *store.Intent, now time.Time) bool {
		if in.State != store.Uploading || (in.Version != p.Version && !isHolder(in, p.Holder)) {
			return false
		}
		in.Version++
		in.Holder = p.Holder
		in.DueAt = earlier(now.Add(p.TTL), in.ExpiresAt)
		in.UpdatedAt = now
		return true
	})
}

// Heartbeat implements store.RowStore.
func (r *Rows) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	return r.changeIntent(ctx, p.ID, false, func(in *store.Intent, now time.Time) bool {
		if in.State != store.Uploading || in.Version != p.Version {
			return false
		}
		in.DueAt = earlier(now.Add(p.TTL), in.ExpiresAt)
		in.Beats++
		return true
	})
}

// Abandon implements store.RowStore.
func (r *Rows) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	return r.changeIntent(ctx, p.ID, true, func(in *store.Intent, now time.Time) bool {
		if in.State != store.Uploading || (in.Version != p.Version && !isHolder(in, p.Holder)) {
			return false
		}
		abandon(in, now)
		in.DueAt = now
		return true
	})
}

// changeIntent lets change alter a copy of the intent, keeps the copy if it
// says so, and returns the intent as it then stands. A locked row is waited
// for, or left as it is.
func (r *Rows) changeIntent(ctx context.Context, id string, wait bool, change func(in *store.Intent, now time.Time) bool) (in store.Intent, err error) {
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		row := r.intents[id]
		if row == nil {
			return nil, fmt.Errorf("intent %s: %w", id, store.ErrNotFound)
		}
		if owner := r.locks[rowID{intentRow, id}]; owner != nil {
			if wait {
				return owner, nil
			}
		} else if next := *row; change(&next, now) {
			row = &next
			r.putIntent(row)
		}
		in = copyIntent(row)
		return nil, nil
	})
	return in, err
}

// abandon is the fence: no commit of the intent can succeed any more.
func abandon(in *store.Intent, now time.Time) {
	in.State = store.Abandoned
	in.Version++
	in.IdempotencyKey = ""
	in.Watched = false
	in.UpdatedAt = now
}

func isHolder(in *store.Intent, holder string) bool { return holder != "" && in.Holder == holder }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// GetIntents implements store.RowStore.
func (r *Rows) GetIntents(ctx context.Context, ids []string) (intents []store.Intent, err error) {
	err = r.step(ctx, func(time.Time) (*Tx, error) {
		for _, id := range ids {
			if row := r.intents[id]; row != nil {
				intents = append(intents, copyIntent(row))
			}
		}
		return nil, nil
	})
	return intents, err
}

// GetObject implements store.RowStore.
func (r *Rows) GetObject(ctx context.Context, key string) (o store.Object, err error) {
	err = r.step(ctx, func(time.Time) (*Tx, error) {
		row := r.objects[key]
		if row == nil {
			return nil, fmt.Errorf("object %q: %w", key, store.ErrNotFound)
		}
		o = copyObject(row)
		return nil, nil
	})
	return o, err
}

// ListObjects implements store.RowStore.
func (r *Rows) ListObjects(ctx context.Context, p store.ListParams) (objects []store.Object, err error) {
	if p.Limit < 1 {
		return nil, fmt.Errorf("list: limit %d: %w", p.Limit, store.ErrInvalid)
	}
	err = r.step(ctx, func(time.Time) (*Tx, error) {
		var keys []string
		for key := range r.objects {
			if key > p.After && strings.HasPrefix(key, p.Prefix) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys[:min(p.Limit, len(keys))] {
			objects = append(objects, copyObject(r.objects[key]))
		}
		return nil, nil
	})
	return objects, err
}

// Retryable implements store.RowStore.
func (r *Rows) Retryable(err error) bool { return errors.Is(err, store.ErrBusy) }

// Intents returns a copy of all intents, in the order of their ids.
func (r *Rows) Intents() []store.Intent {
	return all(r, r.intents, copyIntent, func(a, b store.Intent) int { return cmp.Compare(a.ID, b.ID) })
}

// Objects returns a copy of all objects, in the order of their keys.
func (r *Rows) Objects() []store.Object {
	return all(r, r.objects, copyObject, func(a, b store.Object) int { return cmp.Compare(a.Key, b.Key) })
}

// RetiredNames returns a copy of all retired names, in their order.
func (r *Rows) RetiredNames() []store.Retired {
	return all(r, r.retired, func(row *store.Retired) store.Retired { return *row },
		func(a, b store.Retired) int { return cmp.Compare(a.BlobName, b.BlobName) })
}

func all[T any](r *Rows, rows map[string]*T, copyRow func(*T) T, compare func(a, b T) int) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]T, 0, len(rows))
	for _, row := range rows {
		out = append(out, copyRow(row))
	}
	slices.SortFunc(out, compare)
	return out
}

// SetIntent writes the row as given, past every rule and lock: for tests that
// need a state no step leads to, such as a restored database.
func (r *Rows) SetIntent(in store.Intent) {
	row := copyIntent(&in)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putIntent(&row)
}

// SetObject is SetIntent for an object.
func (r *Rows) SetObject(o store.Object) {
	row := copyObject(&o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putObject(o.Key, &row)
}

// SetRetired is SetIntent for a retired name.
func (r *Rows) SetRetired(row store.Retired) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putRetired(&row)
}

// RemoveRetired deletes the row of a retired name, past every rule: a test's
// way to lose it.
func (r *Rows) RemoveRetired(blobName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired[blobName] != nil {
		r.dropRetired(blobName)
	}
}
