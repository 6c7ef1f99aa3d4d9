package fence

import (
	"cmp"
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Steps implements explore.Model: the fork, sweepers that begin an advance,
// their next steps with every fault there may be, and late requests.
func (m *model) Steps(w world, next *explore.Steps[world]) bool {
	atRest := true
	if m.fork && !w.forked {
		to := w
		to.dbs[1], to.forked, to.advances = w.dbs[0], true, [2]uint8{}
		next.Step(m.tidy(to), "the database is forked")
	}
	for i := range w.procs {
		switch p := &w.procs[i]; {
		case p.at != idle:
			atRest = false
			m.goesOn(w, i, next)
		case p.budget > 0 && m.mayBegin(&w, p):
			atRest = false
			to := w
			to.procs[i].budget--
			to.procs[i].at = toReadMeta
			next.Step(m.tidy(to), "%s begins an advance in %s", p.name(i), databases[p.db])
		}
	}
	for k, r := range w.late {
		if r.kind != idle {
			atRest = false
			to := w
			copy(to.late[1:], w.late[:k])
			to.late[0] = request{}
			done := m.apply(&to, r)
			next.Step(m.tidy(to), "late: %v lands: %v", r, done)
		}
	}
	return atRest
}

func (m *model) mayBegin(w *world, p *proc) bool {
	switch {
	case p.db == 0:
		return true
	case p.accepts:
		return w.forked && !w.accepted
	}
	return w.forked && (w.accepted || !m.accept)
}

func (m *model) goesOn(w world, i int, next *explore.Steps[world]) {
	p := &w.procs[i]
	who := p.name(i)
	if p.at == toReadMeta || p.at == toReadMarker || p.at == toReadMetaAgain {
		what := m.reads(&w, p)
		next.Step(m.tidy(w), "%s %s", who, what)
		return
	}
	r := m.request(&w, p)

	answered := w
	done := m.apply(&answered, r)
	applied := answered
	m.receive(&answered, &answered.procs[i], r, answerOf(done))
	next.Step(m.tidy(answered), "%s %v: %v", who, r, done)
	if w.faults == 0 {
		return
	}
	applied.faults--
	m.receive(&applied, &applied.procs[i], r, unknown)
	next.Step(m.tidy(applied), "%s %v: applied, reply lost", who, r)

	unsent := w
	unsent.faults--
	m.receive(&unsent, &unsent.procs[i], r, unknown)
	next.Step(m.tidy(unsent), "%s %v: request lost", who, r)

	crashed := w
	crashed.faults--
	crashed.procs[i].rest()
	next.Step(m.tidy(crashed), "%s %v: crash before", who, r)

	if w.late[0] != (request{}) {
		return
	}
	unsent.delay(r)
	next.Step(m.tidy(unsent), "%s %v: no answer, it is delayed", who, r)
	if p.at == toWriteMarker { // an SDK tries again by itself
		answered = w
		answered.faults--
		answered.delay(r) // under way before the other lands, which makes its ETag stale
		done = m.apply(&answered, r)
		m.receive(&answered, &answered.procs[i], r, answerOf(done))
		next.Step(m.tidy(answered), "%s %v: %v, and an earlier try is delayed", who, r, done)
	}
}

func answerOf(done bool) answer {
	if done {
		return yes
	}
	return no
}

func (p *proc) name(i int) string {
	if p.accepts {
		return "AcceptRestore"
	}
	return string([]byte{'P', '0' + byte(i)})
}

// delay puts a request on its way. They stay in one order, so that the same
// requests are the same state.
func (w *world) delay(r request) {
	w.late[0] = r
	slices.SortFunc(w.late[:], func(a, b request) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.db, b.db), cmp.Compare(a.meta.cur, b.meta.cur), cmp.Compare(a.token, b.token))
	})
}
