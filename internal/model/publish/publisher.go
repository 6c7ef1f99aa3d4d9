package publish

import "github.com/blobtx/blobtx/internal/model/explore"

// sends is a publisher's next request. It looks at the alias first and reads
// the row second, so that what it writes is guarded by an ETag older than the
// row it read.
func (m *model) sends(w world, i int, next *explore.Steps[world]) {
	p := &w.pubs[i]
	switch {
	case p.at == toLook && !m.is("row-first") || p.at == toRead && m.is("row-first"):
		p.current, p.shown = true, w.alias
		m.advance(p)
		next.Step(w, "P%d looks at the name: version %d", i, p.shown)
		return
	case p.at == toLook || p.at == toRead:
		p.version = 0
		if w.row.named || m.is("reads-the-key-only") {
			p.version = w.row.version
		}
		m.advance(p)
		next.Step(w, "P%d reads the row: version %d", i, p.version)
		return
	}
	r := m.request(*p)

	answered := w
	done := m.apply(&answered, r)
	applied := answered
	m.receive(&answered.pubs[i], done)
	next.Step(answered, "P%d %v: %v", i, r, done)
	if w.faults == 0 {
		return
	}
	applied.faults--
	applied.pubs[i].rest()
	next.Step(applied, "P%d %v: applied, reply lost", i, r)

	unsent := w
	unsent.faults--
	unsent.pubs[i].rest()
	next.Step(unsent, "P%d %v: request lost", i, r)

	if unsent.late[0] != (request{}) {
		return
	}
	unsent.delay(r)
	next.Step(unsent, "P%d %v: no answer, it is delayed", i, r)
	if p.at == toWrite { // an SDK tries again by itself
		answered = w
		answered.faults--
		answered.delay(r) // under way before the other lands, which makes its ETag stale
		done = m.apply(&answered, r)
		m.receive(&answered.pubs[i], done)
		next.Step(answered, "P%d %v: %v, and an earlier try is delayed", i, r, done)
	}
}

// advance goes on after a read. An alias that shows the right version already
// is written again: that changes its ETag, and somebody who saw it when it was
// not published may be about to take it away.
func (m *model) advance(p *publisher) {
	if p.at++; p.at != toWrite {
		return
	}
	if p.shown == 0 && p.version == 0 || p.shown >= p.version && p.version != 0 && m.is("right-is-left-alone") {
		p.at = toSettle
	}
}

func (m *model) request(p publisher) request {
	switch {
	case p.at == toSettle && p.version != 0:
		return request{kind: clearDebt, stamp: p.stamp}
	case p.at == toSettle && (p.last && !p.found || m.is("gone-is-final")):
		return request{kind: forget, stamp: p.stamp}
	case p.at == toSettle:
		return request{kind: watchOn, stamp: p.stamp}
	case p.version == 0:
		return request{kind: takeAway, current: p.current}
	case p.shown == 0:
		return request{kind: putNew, version: p.version}
	}
	return request{kind: putOver, version: p.version, current: p.current}
}

// receive is what a publisher makes of an answer. A lost race is looked at
// again: the debt is still there.
func (m *model) receive(p *publisher, done bool) {
	if p.at == toWrite && done {
		p.at, p.found = toSettle, p.version == 0
		return
	}
	p.rest()
}

// rest ends a round and forgets it.
func (p *publisher) rest() { *p = publisher{budget: p.budget} }

func (m *model) apply(w *world, r request) bool {
	switch r.kind {
	case putNew:
		return (w.alias == 0 || m.is("create-overwrites")) && w.write(r.version)
	case putOver:
		return w.alias != 0 && (r.current || m.is("no-if-match")) && w.write(r.version)
	case takeAway:
		return w.alias != 0 && r.current && w.write(0)
	}
	return m.settle(w, r)
}

// write changes the alias, and with it the ETag.
func (w *world) write(version uint8) bool {
	if version == 0 {
		w.newest = 0
	} else {
		w.back = w.back || version < w.newest
		w.newest = max(w.newest, version)
	}
	w.alias = version
	for i := range w.pubs {
		w.pubs[i].current = false
	}
	for k := range w.late {
		w.late[k].current = false
	}
	return true
}
