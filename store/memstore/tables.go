package memstore

import (
	"maps"

	"github.com/blobtx/blobtx/store"
)

// The methods that change the tables keep the indexes in step. The mutex is
// held.

func (r *Rows) putIntent(row *store.Intent) {
	if old := r.intents[row.ID]; old == nil {
		r.use(row.BlobName)
	} else if old.IdempotencyKey != row.IdempotencyKey {
		delete(r.byKey, old.IdempotencyKey)
	}
	if row.IdempotencyKey != "" {
		r.byKey[row.IdempotencyKey] = row.ID
	}
	r.intents[row.ID] = row
}

func (r *Rows) dropIntent(id string) {
	row := r.intents[id]
	if row.IdempotencyKey != "" {
		delete(r.byKey, row.IdempotencyKey)
	}
	r.unuse(row.BlobName)
	delete(r.intents, id)
}

// putObject sets the row of a key; nil deletes it.
func (r *Rows) putObject(key string, row *store.Object) {
	if old := r.objects[key]; old != nil {
		r.unuse(old.Blob.Name)
	}
	if row == nil {
		delete(r.objects, key)
		return
	}
	r.use(row.Blob.Name)
	r.objects[key] = row
}

func (r *Rows) putRetired(row *store.Retired) {
	if r.retired[row.BlobName] == nil {
		r.use(row.BlobName)
	}
	r.retired[row.BlobName] = row
}

func (r *Rows) dropRetired(name string) {
	r.unuse(name)
	delete(r.retired, name)
}

func (r *Rows) use(name string) { r.names[name]++ }

func (r *Rows) unuse(name string) {
	if r.names[name]--; r.names[name] == 0 {
		delete(r.names, name)
	}
}

// Rows are copied deeply on their way out: what the caller does with a map
// must not reach the tables.

func copyIntent(row *store.Intent) store.Intent {
	in := *row
	in.Metadata = maps.Clone(row.Metadata)
	if row.Result != nil {
		result := copyObject(row.Result)
		in.Result = &result
	}
	return in
}

func copyObject(row *store.Object) store.Object {
	o := *row
	o.Metadata = maps.Clone(row.Metadata)
	return o
}

func conflict(key string, want store.Condition, current *store.Object) error {
	e := &store.ConflictError{Key: key, Want: want, Deleted: current == nil}
	if current != nil {
		o := copyObject(current)
		e.Current = &o
	}
	return e
}
