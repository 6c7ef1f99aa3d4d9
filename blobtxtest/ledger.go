package blobtxtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// ledger is what was seen so far in one execution: the checks are about more
// than one moment.
type ledger struct {
	now     snapshot
	before  []store.BlobInfo         // the blobs at the look before
	seen    map[seenKey]*running     // every version that was ever visible, and whose step made it so
	named   map[string]string        // blobs that an object ever named, and their ETags
	retired map[string]bool          // names that an object ever gave up
	acked   map[string]blobtx.Object // by key
	checked map[string]bool          // ETags whose bytes were compared
	changed bool                     // something is new since the last checks
	unread  map[*running]int         // reports that were taken in
}

type seenKey struct {
	key     string
	version store.Version
}

func newLedger() ledger {
	return ledger{
		seen: make(map[seenKey]*running), named: make(map[string]string), retired: make(map[string]bool),
		acked: make(map[string]blobtx.Object), checked: make(map[string]bool), unread: make(map[*running]int),
	}
}

// observe looks at both stores after a step of r that may have changed them.
// Fresh: nobody has checked this moment before.
func (e *execution) observe(r *running, fresh bool) {
	l := &e.ledger
	l.before = append(l.before[:0], l.now.blobs...)
	if err := e.place.look(&l.now); err != nil {
		e.violate(fmt.Sprintf("look at the stores: %v", err))
		return
	}
	for i := range l.now.blobs {
		e.hash.creation(l.now.blobs[i].Name, l.now.blobs[i].ETag)
	}
	for i := range l.now.retired {
		l.retired[l.now.retired[i].BlobName] = true
	}
	for i := range l.now.objects {
		o := &l.now.objects[i]
		key := seenKey{o.Key, o.Version}
		if _, known := l.seen[key]; !known {
			l.seen[key] = r
			if r != nil && r.buried {
				e.judge(r)
			}
		}
	}
	l.changed = true
	if fresh {
		e.intact()
	}
	for i := range l.now.objects {
		l.named[l.now.objects[i].Blob.Name] = l.now.objects[i].Blob.SHA256
	}
}

// intact checks what must hold at every instant.
func (e *execution) intact() {
	l := &e.ledger
	e.restoring.check(e)
	for i := range l.now.objects {
		o := &l.now.objects[i]
		info := l.now.blob(o.Blob.Name)
		switch {
		case info == nil && e.restoring.missing[o.Blob.Name]:
		case info == nil:
			e.violate(fmt.Sprintf("dangling: object %q names blob %q, which is not there", o.Key, o.Blob.Name))
		case info.ETag != o.Blob.ETag || info.SHA256 != o.Blob.SHA256 || info.Size != o.Blob.Size:
			e.violate(fmt.Sprintf("dangling: object %q and its blob %q differ: %+v, %+v", o.Key, o.Blob.Name, o.Blob, info.Blob))
		default:
			e.compareBytes(o)
		}
	}
	for i := range l.now.blobs {
		b := &l.now.blobs[i]
		if sum, known := l.named[b.Name]; known && sum != b.SHA256 {
			e.violate(fmt.Sprintf("written twice: blob %q was readable under an object and now has other bytes", b.Name))
		}
	}
	for i := range l.before {
		b := &l.before[i]
		if b.Sealed && !l.retired[b.Name] && l.now.blob(b.Name) == nil {
			e.violate(fmt.Sprintf("guard: sealed blob %q was deleted and no object had given it up", b.Name))
		}
	}
}

// compareBytes reads an object's bytes once per ETag.
func (e *execution) compareBytes(o *store.Object) {
	if e.ledger.checked[o.Blob.ETag] {
		return
	}
	e.ledger.checked[o.Blob.ETag] = true
	contents, err := e.place.contents()
	if err != nil {
		e.violate(fmt.Sprintf("read the container: %v", err))
		return
	}
	sum := sha256.Sum256(contents[o.Blob.Name])
	if got := hex.EncodeToString(sum[:]); got != o.Blob.SHA256 {
		e.violate(fmt.Sprintf("object %q: its blob's bytes have SHA-256 %s, the row says %s", o.Key, got, o.Blob.SHA256))
	}
}

// listen takes in what clients were told since.
func (e *execution) listen() {
	for _, r := range e.procs {
		r.mu.Lock()
		reports := r.reports[e.ledger.unread[r]:]
		r.mu.Unlock()
		if len(reports) == 0 {
			continue
		}
		e.ledger.unread[r] += len(reports)
		e.ledger.changed = true
		for i := range reports {
			e.hear(r, &reports[i])
		}
	}
}

func (e *execution) hear(r *running, rep *report) {
	switch rep.kind {
	case acked:
		e.log.add(r.name, "its client is told: stored", rep.key)
		e.ledger.acked[rep.key] = rep.object
		if _, ok := e.ledger.seen[seenKey{rep.object.Key, rep.object.Version}]; !ok && r.index >= 0 { // of Setup only the end was seen
			e.violate(fmt.Sprintf("lie: %s told its client that %q is stored at version %s, which was never visible", r.name, rep.key, rep.object.Version))
		}
	case broken:
		e.log.add(r.name, "reports a fault", rep.err.Error())
		e.violate(fmt.Sprintf("%s: %v", r.name, rep.err))
	default:
		e.log.add(r.name, "its client is told: not stored", rep.key).result(rep.err)
	}
}

// setupReported takes in what Setup acknowledged.
func (e *execution) setupReported(r *running) {
	e.observe(r, true)
	for i := range r.reports {
		e.hear(r, &r.reports[i])
	}
}

// judge holds what a process that has ended told its clients against what it
// did. Of one that died, nobody heard the end.
func (e *execution) judge(r *running) {
	if r.crashed {
		return
	}
	for key, maker := range e.ledger.seen {
		if maker != r {
			continue
		}
		told, excused := false, false
		for i := range r.reports {
			rep := &r.reports[i]
			if rep.key != key.key {
				continue
			}
			told = true
			excused = excused || rep.kind == unknown || rep.kind == acked && rep.object.Version == key.version
		}
		if told && !excused {
			e.violate(fmt.Sprintf("lie: version %s of %q became visible by a step of %s, which told its client otherwise", key.version, key.key, r.name))
		}
	}
}

// view is what the scenario's own checks see.
func (e *execution) view() (*View, error) {
	contents, err := e.place.contents()
	if err != nil {
		return nil, err
	}
	v := &View{Objects: e.ledger.now.objects, Blobs: contents, Acked: e.ledger.acked}
	if p, ok := e.place.(viewer); ok {
		p.view(v)
	}
	return v, nil
}

// viewer is a place that has more to show.
type viewer interface{ view(v *View) }

// ask runs one of the scenario's own checks.
func (e *execution) ask(name string, check func(context.Context, *View) error) {
	if check == nil || e.violated() {
		return
	}
	v, err := e.view()
	if err == nil {
		err = sheltered(func() error { return check(context.Background(), v) })
	}
	if err != nil {
		e.violate(fmt.Sprintf("%s: %v", name, err))
	}
}

// rowsDigest is the whole database as it is now.
func (e *execution) rowsDigest() digest {
	var s snapshot
	if err := e.place.look(&s); err != nil {
		e.violate(fmt.Sprintf("look at the stores: %v", err))
	}
	var d digest
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hash.rows(&d, &s)
	return d
}

func (h *hasher) rows(d *digest, s *snapshot) {
	d.word(uint64(len(s.intents)))
	for i := range s.intents {
		h.intent(d, &s.intents[i])
	}
	d.word(uint64(len(s.objects)))
	for i := range s.objects {
		h.object(d, &s.objects[i])
	}
	d.word(uint64(len(s.retired)))
	for i := range s.retired {
		h.retired(d, &s.retired[i])
	}
}
