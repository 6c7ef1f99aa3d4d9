package blobtxtest

import (
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/internal/seam"
	"github.com/blobtx/blobtx/store"
)

// Restore says whether and how a copy of the database is put back.
type Restore byte

// The restores.
const (
	NoRestore Restore = iota
	// ByTheRunbook: every process is stopped and no request is on its way any
	// more, the copy is put back, and every upload of the copy is held.
	ByTheRunbook
	// ButNotHeld is the runbook without its last step: only the guard of the
	// blob store stands between a sweeper and what was committed since the copy.
	ButNotHeld
)

// restorer is a place whose database can be put back.
type restorer interface {
	putBack(rows *snapshot, hold bool)
}

// restoring is what became of the database's copy.
type restoring struct {
	copied *snapshot // nil: not yet, or put back
	digest digest    // of the copy
	done   bool

	// What follows is as it was when the copy was put back. These are no faults
	// of blobtx then; the first two an audit names.

	missing map[string]bool // blobs that objects of the copy name, deleted since
	strays  map[string]bool // blobs that no row of the copy names
	held    map[string]bool // blobs of uploads that the runbook holds
}

// options adds the copy and its return to what may happen next. When all else
// has ended, the copy still comes back.
func (r *restoring) options(e *execution, calls []*call) {
	switch {
	case e.s.Restore == NoRestore || r.done || e.phase > 0:
	case r.copied == nil && e.stillRunning():
		e.options = append(e.options, option{kind: copyRows})
	case r.copied != nil && len(e.late) == 0 && !slices.ContainsFunc(calls, func(c *call) bool { return c.late }):
		e.options = append(e.options, option{kind: putBack})
	}
}

func (e *execution) copyRows() error {
	e.log.add("", "the database is copied", "")
	e.restoring.copied = new(snapshot)
	if err := e.place.look(e.restoring.copied); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	e.restoring.digest = e.rowsDigest()
	return nil
}

// putBack stops every process, puts the copy back, and starts all anew.
func (e *execution) putBack() error {
	lives := make([]int, len(e.s.Actors))
	for _, p := range e.procs {
		lives[p.index] = max(lives[p.index], p.life+1)
		if !p.buried {
			p.mu.Lock()
			p.crashed = true
			p.mu.Unlock()
			e.kill(p)
		}
	}
	synctest.Wait()
	e.log.add("", "every process is stopped and the copy is put back", "")
	r := &e.restoring
	hold := e.s.Restore == ByTheRunbook
	e.place.(restorer).putBack(r.copied, hold)
	rows, blobs := e.place.calm()
	var err error
	if e.calm, err = blobtx.New(rows, blobs, &e.s.Options); err != nil {
		return err
	}
	seam.Random(e.calm, newSource(99, 1))
	if err := e.place.look(&e.ledger.now); err != nil {
		return fmt.Errorf("look at the restored database: %w", err)
	}
	r.compare(&e.ledger, hold)
	r.copied, r.done = nil, true
	e.observe(nil, true)
	for i := range e.s.Actors {
		if err := e.launch(i, lives[i], e.s.Actors[i].Restarts); err != nil {
			return err
		}
	}
	return nil
}

// compare notes how the restored rows differ from the container, and forgets
// what clients were told in the time that is lost.
func (r *restoring) compare(l *ledger, hold bool) {
	r.missing, r.strays, r.held = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range l.now.blobs {
		r.strays[l.now.blobs[i].Name] = true
	}
	stands := make(map[string]store.Version)
	for i := range l.now.objects {
		o := &l.now.objects[i]
		stands[o.Key] = o.Version
		r.missing[o.Blob.Name] = !r.strays[o.Blob.Name]
		delete(r.strays, o.Blob.Name)
	}
	for i := range r.copied.intents {
		in := &r.copied.intents[i]
		r.held[in.BlobName] = hold && in.State == store.Uploading && r.strays[in.BlobName]
		delete(r.strays, in.BlobName)
	}
	for i := range l.now.retired {
		delete(r.strays, l.now.retired[i].BlobName)
	}
	maps.DeleteFunc(l.acked, func(key string, o blobtx.Object) bool { return stands[key] != o.Version })
}

// check: nothing that the runbook held is deleted.
func (r *restoring) check(e *execution) {
	for name, held := range r.held {
		if held && e.ledger.now.blob(name) == nil {
			e.violate(fmt.Sprintf("restore: blob %q of an upload that the runbook holds is gone", name))
		}
	}
}

func (r *restoring) history(d *digest) {
	d.yes(r.done)
	if r.copied != nil {
		d.sub(r.digest)
	}
	var sum digest
	for i, names := range []map[string]bool{r.missing, r.strays, r.held} {
		for name, holds := range names {
			if holds {
				var one digest
				one.word(uint64(i))
				one.text(name)
				sum.plus(one)
			}
		}
	}
	d.sub(sum)
}

func (m *memoryPlace) putBack(s *snapshot, hold bool) {
	m.openRows()
	for _, in := range s.intents {
		if hold && in.State == store.Uploading {
			in.State, in.DueAt = store.Held, time.Time{}
			in.Version++
		}
		m.rows.SetIntent(in)
	}
	for _, o := range s.objects {
		m.rows.SetObject(o)
	}
	for _, r := range s.retired {
		m.rows.SetRetired(r)
	}
}
