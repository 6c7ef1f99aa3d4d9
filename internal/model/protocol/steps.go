package protocol

import (
	"cmp"
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Steps implements explore.Model: each process sends its next request, a
// sweeper picks anything that is due, a late request lands, an outcome is
// forgotten, the database is copied or put back.
func (m *model) Steps(w world, next *explore.Steps[world]) bool {
	atRest := true
	for i, p := range w.procs {
		switch {
		case p.over:
		case p.at == noOp:
			m.claims(w, i, next)
		default:
			atRest = false
			m.sends(w, i, next)
		}
	}
	for k, o := range w.late {
		if o.kind != noOp {
			atRest = false
			to := w
			copy(to.late[1:], w.late[:k])
			to.late[0] = op{}
			r, _ := m.apply(&to, o)
			next.Step(to, "late: %v lands: %v", o, r)
		}
	}
	if m.retention {
		for id := range w.db.intents {
			if w.db.intents[id].state == done {
				to := w
				to.db.intents[id] = intent{state: gone, committed: true}
				next.Step(to, "the retention of %d ends: it is forgotten", id)
			}
		}
	}
	if m.restore && !w.restored {
		switch {
		case !w.hasCopy:
			to := w
			to.copy, to.hasCopy = w.db, true
			next.Step(to, "the database is copied")
		case w.late == [2]op{}:
			next.Step(m.restoreCopy(w), "the copy is put back")
		}
	}
	return atRest
}

// claims is a sweeper picking what is due.
func (m *model) claims(w world, i int, next *explore.Steps[world]) {
	if w.procs[i].budget == 0 {
		return
	}
	take := func(to world, id uint8, at opKind, last uint8) world {
		p := &to.procs[i]
		p.budget--
		p.id, p.version, p.at, p.last = id, to.db.intents[id].version, at, last
		return to
	}
	for id := range uint8(names) {
		to := w
		if at, last := m.claim(&to, id); at != noOp {
			next.Step(take(to, id, at, last), "P%d claims %d, %v%s", i, id, w.db.intents[id].state, round(last))
			if w.faults > 0 && to.db != w.db {
				to.faults--
				to.procs[i].budget--
				next.Step(to, "P%d claims %d, %v: applied, reply lost", i, id, w.db.intents[id].state)
			}
		}
		to = w
		if at, last := m.claimRetired(&to, id); at != noOp {
			next.Step(take(to, id, at, last), "P%d claims %d, retired%s", i, id, round(last))
		}
	}
}

func round(last uint8) string {
	if last != 0 {
		return ", for the last round"
	}
	return ""
}

// sends is a process sending its next request, with every fault there may be.
func (m *model) sends(w world, i int, next *explore.Steps[world]) {
	p := &w.procs[i]
	o := p.request(int8(i))

	answered := w
	r, version := m.apply(&answered, o)
	applied := answered
	m.receive(&answered.procs[i], r, version)
	next.Step(answered, "P%d %v: %v", i, o, r)
	if w.faults == 0 {
		return
	}
	applied.faults--
	if o.kind.toBlobs() { // an SDK tries again by itself, and meets its own first try
		twice := applied
		if again, _ := m.apply(&twice, o); again != r {
			m.receive(&twice.procs[i], again, 0)
			next.Step(twice, "P%d %v: applied, reply lost, asked again: %v", i, o, again)
		}
	}
	m.receive(&applied.procs[i], failed, 0)
	next.Step(applied, "P%d %v: applied, reply lost", i, o)

	unsent := w
	unsent.faults--
	m.receive(&unsent.procs[i], failed, 0)
	next.Step(unsent, "P%d %v: request lost", i, o)

	crashed := w
	crashed.faults--
	crashed.procs[i].end(saidUnknown)
	next.Step(crashed, "P%d %v: crash before", i, o)

	if o.kind == opStat || !unsent.delay(o) {
		return
	}
	next.Step(unsent, "P%d %v: no answer, it is delayed", i, o)
	if o.kind.toBlobs() {
		answered.faults--
		answered.delay(o)
		next.Step(answered, "P%d %v: %v, and an earlier try is delayed", i, o, r)
	}
}

// request is what p sends next, with only what the request says: two that say
// the same are the same.
func (p *proc) request(self int8) op {
	o := op{kind: p.at, id: p.id}
	switch p.at {
	case opInsert, opTakeOver, opCommit, opAbandon:
		o.version, o.expect, o.content, o.proc = p.version, p.expect, p.content, self
	case opCreate, opStat:
		o.content = p.content
	case opDeleteObject:
		o.expect = p.expect
	case opFinish, opWatch, opForgetIntent, opFailedIsWatched:
		o.version, o.last = p.version, p.last
	}
	return o
}

// delay puts a request on its way, if there is room for one more. They stay in
// one order, so that the same requests are the same state.
func (w *world) delay(o op) bool {
	if w.late[0] != (op{}) {
		return false
	}
	w.late[0] = o
	slices.SortFunc(w.late[:], op.compare)
	return true
}

func (o op) compare(other op) int {
	return cmp.Or(cmp.Compare(o.kind, other.kind), cmp.Compare(o.id, other.id), cmp.Compare(o.version, other.version),
		cmp.Compare(o.proc, other.proc), cmp.Compare(o.content, other.content), cmp.Compare(o.last, other.last))
}

func (m *model) receive(p *proc, r result, version uint8) {
	switch p.role {
	case deleter:
		p.end(map[result]told{ok: saidYes, failed: saidUnknown, conflict: saidNo}[r])
	case sweeper:
		m.receiveSweep(p, r)
	default:
		m.receiveWrite(p, r, version)
	}
}

// restoreCopy puts the copy back as the runbook says: processes stopped,
// requests drained, open uploads held.
func (m *model) restoreCopy(w world) world {
	for id := range names {
		b := w.blobs[id]
		w.keep[id] = b.exists && (b.sealed || !m.unannounced) && w.db.intents[id].committed && w.copy.retired[id] == 0
	}
	w.db = w.copy
	for id := range w.db.intents {
		if in := &w.db.intents[id]; in.state == uploading && !m.unannounced && !m.is("restore-without-hold") {
			in.state = held
		}
	}
	for i := range w.procs {
		if p := &w.procs[i]; p.role == sweeper && !p.over {
			p.rest()
		} else {
			p.end(saidUnknown)
		}
	}
	w.hasCopy, w.restored, w.copy = false, true, database{}
	return w
}
