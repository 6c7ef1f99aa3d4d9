package blobtxtest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
	"github.com/blobtx/blobtx/store/memstore"
)

// World is where a scenario takes place: which stores. Memory makes one.
type World interface {
	// open makes the stores of one execution, inside its bubble.
	open(e *execution) (place, error)
}

// place is the pair of stores of one execution.
type place interface {
	// calm returns the stores past every fault: for setup, sweeping, checking.
	calm() (store.RowStore, store.BlobStore)
	// join gives a new process its handles on the stores, every call of which
	// must be a step of r.faulty.
	join(p *Process, r *running) error
	// look returns both stores as they are now. The places that the snapshot
	// has are filled anew.
	look(s *snapshot) error
	// contents returns every readable blob's bytes.
	contents() (map[string][]byte, error)
	// pass moves the database's clock, and nothing else.
	pass(d time.Duration)
	// clock is by how much the database's clock was moved.
	clock() time.Duration
	// close ends it; every process has ended before.
	close()
}

// beginner is a place whose transactions do not come from a database handle.
type beginner interface {
	begin(ctx context.Context, r *running) (faultstore.Transaction, error)
}

// snapshot is both stores at one moment, in the order of ids, keys and names.
type snapshot struct {
	intents []store.Intent
	objects []store.Object
	retired []store.Retired
	blobs   []store.BlobInfo // Sealed known
}

func (s *snapshot) blob(name string) *store.BlobInfo {
	for i := range s.blobs {
		if s.blobs[i].Name == name {
			return &s.blobs[i]
		}
	}
	return nil
}

// Memory is the world of package memstore: rows, blobs and transactions in
// memory. The fastest: millions of executions.
func Memory() World { return memory{} }

type memory struct{}

func (memory) open(*execution) (place, error) {
	m := &memoryPlace{}
	m.openRows()
	m.blobs = memstore.NewBlobs(nil)
	return m, nil
}

func (m *memoryPlace) openRows() {
	m.rows = memstore.NewRows(&memstore.RowsOptions{Now: func() time.Time { return time.Now().Add(m.clock()) }})
}

type memoryPlace struct {
	rows   *memstore.Rows
	blobs  *memstore.Blobs
	offset atomic.Int64
}

func (m *memoryPlace) calm() (store.RowStore, store.BlobStore) { return m.rows, m.blobs }
func (m *memoryPlace) pass(d time.Duration)                    { m.offset.Add(int64(d)) }
func (m *memoryPlace) clock() time.Duration                    { return time.Duration(m.offset.Load()) }
func (m *memoryPlace) close()                                  {}

func (m *memoryPlace) join(p *Process, r *running) error {
	p.Rows = faultstore.Rows(m.rows, r.faulty)
	p.Blobs = faultstore.Blobs(m.blobs, r.faulty)
	return nil
}

func (m *memoryPlace) look(s *snapshot) error {
	m.lookAtRows(s)
	s.blobs = s.blobs[:0]
	for info, err := range m.blobs.List(context.Background(), store.ListBlobsParams{}) {
		if err != nil {
			return err
		}
		s.blobs = append(s.blobs, info)
	}
	return nil
}

func (m *memoryPlace) lookAtRows(s *snapshot) {
	s.intents, s.objects, s.retired = m.rows.Intents(), m.rows.Objects(), m.rows.RetiredNames()
}

func (m *memoryPlace) contents() (map[string][]byte, error) { return m.blobs.Snapshot(), nil }

func (m *memoryPlace) begin(ctx context.Context, r *running) (faultstore.Transaction, error) {
	tx, err := m.rows.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return faultstore.Tx(&watchedTx{Tx: tx, rows: m.rows, e: r.e}, r.faulty), nil
}

// watchedTx sees to it that a conflict leaves no trace: a transaction in which
// nothing but conflicts happened, committed anyway, changes nothing, and an
// upload that met one is not committed by it.
type watchedTx struct {
	*memstore.Tx
	rows    *memstore.Rows
	e       *execution
	changed bool
	refused []string // intents whose commit was refused in it
}

func (t *watchedTx) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	objects, err := t.Tx.CommitObjects(ctx, p)
	t.changed = t.changed || err == nil
	for i := range p {
		if err != nil {
			t.refused = append(t.refused, p[i].IntentID)
		}
	}
	return objects, err
}

func (t *watchedTx) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	o, err := t.Tx.DeleteObject(ctx, p)
	t.changed = t.changed || err == nil
	return o, err
}

func (t *watchedTx) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	o, err := t.Tx.SetObjectMetadata(ctx, p)
	t.changed = t.changed || err == nil
	return o, err
}

func (t *watchedTx) Commit() error {
	if t.changed || len(t.refused) == 0 {
		return t.Tx.Commit()
	}
	before := t.e.rowsDigest()
	err := t.Tx.Commit()
	if t.e.rowsDigest() != before {
		t.e.violate("a conflict left a trace: the commit of a transaction in which every step was refused changed rows")
	}
	return err
}
