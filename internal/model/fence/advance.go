package fence

// reads is a step that only reads; it says what it saw. A next that is set is
// never overwritten but finished: somebody may have written it to the marker.
// AcceptRestore does overwrite it, and writes the marker whatever that shows:
// the original may have had the same next, and may have finished it.
func (m *model) reads(w *world, p *proc) string {
	d := w.dbs[p.db]
	switch p.at {
	case toReadMeta:
		p.meta, p.at = d, toReadMarker
		switch {
		case m.is("next-not-recorded"):
			p.meta.next = m.fresh(w, p)
		case d.next == 0, m.is("next-overwritten"), p.accepts && !m.is("accept-finishes-next"):
			p.at = toSetNext
		}
		if d.next != 0 {
			return "reads " + databases[p.db] + ": next is set"
		}
		return "reads " + databases[p.db] + ": next is empty"
	case toReadMarker:
		p.current = true
		switch w.marker {
		case p.meta.next:
			p.at = toFinish
			return "reads the marker: next"
		case p.meta.cur:
			p.at = toWriteMarker
			return "reads the marker: cur"
		}
		switch {
		case p.accepts, m.is("strange-marker-is-taken"):
			p.at = toWriteMarker
		case m.is("no-recheck-of-meta"):
			p.stop()
		default:
			p.at = toReadMetaAgain
		}
		return "reads the marker: neither cur nor next"
	}
	if d == p.meta {
		p.stop()
		return "reads " + databases[p.db] + " again: unchanged, ErrWrongStore"
	}
	p.again()
	return "reads " + databases[p.db] + " again: it has changed"
}

// request is what p sends next.
func (m *model) request(w *world, p *proc) request {
	r := request{kind: p.at, db: p.db, meta: p.meta}
	switch p.at {
	case toSetNext:
		r.token = m.fresh(w, p)
	case toWriteMarker:
		r = request{kind: p.at, token: p.meta.next, current: p.current}
	}
	return r
}

func (m *model) fresh(w *world, p *proc) token {
	if m.is("next-not-random") {
		return p.meta.cur + 1
	}
	w.given++
	return w.given
}

// apply is a request's effect; each is a compare-and-set.
func (m *model) apply(w *world, r request) bool {
	d := &w.dbs[r.db]
	switch r.kind {
	case toSetNext:
		if *d != r.meta {
			return false
		}
		d.next = r.token
	case toWriteMarker:
		if !r.current && !m.is("marker-without-if-match") {
			return false
		}
		w.marker = r.token
		for i := range w.procs {
			w.procs[i].current = false
		}
		for k := range w.late {
			w.late[k].current = false
		}
	case toFinish:
		same := *d == r.meta || m.is("finish-without-compare")
		if m.is("next-not-recorded") {
			same = d.cur == r.meta.cur
		}
		if !same {
			return false
		}
		*d = meta{cur: r.meta.next}
		w.advances[r.db] = min(w.advances[r.db]+1, many)
	}
	return true
}

type answer uint8

const (
	no answer = iota // it had no effect: the comparison failed
	yes
	unknown
)

// receive is what p makes of an answer to r.
func (m *model) receive(w *world, p *proc, r request, a answer) {
	switch {
	case p.at == toSetNext && a == yes:
		p.meta.next, p.at = r.token, toReadMarker
	case p.at == toWriteMarker && (a == yes || a == unknown && m.is("unanswered-write-is-success")):
		p.at = toFinish
	case p.at == toWriteMarker && a == no && m.is("refused-write-is-wrong-store"):
		p.stop()
	case p.at == toFinish && a != unknown: // or another sweeper has finished it
		if p.accepts {
			w.accepted, w.advances = true, [2]uint8{}
		}
		p.rest()
	default:
		p.again()
	}
}

// again starts the advance over.
func (p *proc) again() {
	p.at, p.meta, p.current = toReadMeta, meta{}, false
}

// rest ends the advance: deletions may go on for a minute.
func (p *proc) rest() { *p = proc{db: p.db, accepts: p.accepts, budget: p.budget} }

// stop ends all deletions.
func (p *proc) stop() { *p = proc{db: p.db, accepts: p.accepts, stopped: true} }
