package publish

import "github.com/blobtx/blobtx/internal/model/explore"

// transactions is each script's next transaction. What it does it sees as of
// the moment it has the row's lock; others see it once it has committed.
func (m *model) transactions(w world, next *explore.Steps[world]) (atRest bool) {
	atRest = true
	for i, t := range w.txs {
		if t.inFlight {
			atRest = false
			to := w
			m.commit(&to, i)
			next.Step(to, "%v commits: the object is at version %d", t.script[0], to.row.version)
			continue
		}
		if t.script[0] == 0 || !w.possible(t.script[0]) {
			continue
		}
		// A statement waits where another transaction has the row locked.
		other := w.txs[1-i]
		locked := other.inFlight
		if (t.script[0] == publish || other.script[0] == publish) && m.is("publish-does-not-write-row") {
			locked = false
		}
		to := w
		if !locked {
			m.execute(&to, i)
			next.Step(to, "%v executes in a transaction", t.script[0])
		} else if m.is("debt-by-update") && !t.waits {
			to.txs[i].waits, to.txs[i].saw = true, w.debt.state != noDebt
			next.Step(to, "%v begins its statement and waits for the row", t.script[0])
		}
	}
	return atRest
}

// possible: a condition that is false is a conflict, and leaves no trace.
func (w *world) possible(c change) bool {
	switch c {
	case create:
		return w.row.version == 0
	case unpublish:
		return w.row.named
	}
	return w.row.version != 0
}

// execute is the statements. A commit or delete of an object that has a name
// records the debt, as Publish and Unpublish do.
func (m *model) execute(w *world, i int) {
	t := &w.txs[i]
	t.inFlight = true
	switch t.script[0] {
	case publish:
		t.owes = true
	case unpublish:
		t.owes = !m.is("unpublish-leaves-no-debt")
	default:
		t.owes = w.row.named
		if t.waits && !t.saw {
			t.owes = false // UPDATE of a row that its snapshot does not have
		}
	}
}

// commit makes it visible, all at once.
func (m *model) commit(w *world, i int) {
	t := &w.txs[i]
	switch t.script[0] {
	case create, replace:
		w.versions++
		w.row.version = w.versions
	case remove:
		w.row = row{}
	case publish:
		w.row.named = w.row.version != 0
	case unpublish:
		w.row.named = false
	}
	if t.owes {
		w.stamps++
		if m.is("stamp-starts-again") {
			w.stamps = w.debt.stamp + 1 // a new row's is 1
		}
		w.debt = debt{owed, w.stamps}
	}
	done := tx{}
	copy(done.script[:], t.script[1:])
	*t = done
}

// claim hands the debt out: anybody may have it while it is owed, and a name
// that is watched once nothing is on its way any more.
func (m *model) claim(w world, i int, next *explore.Steps[world]) {
	p := &w.pubs[i]
	last := w.debt.state == looking || w.debt.state == watching && w.quiet()
	if p.budget == 0 || w.debt.state != owed && !last {
		return
	}
	if last {
		w.debt.state = looking
	}
	*p = publisher{at: toLook, budget: p.budget - 1, stamp: w.debt.stamp, last: last}
	if last {
		next.Step(w, "P%d claims the name to look once more, stamp %d", i, w.debt.stamp)
		return
	}
	next.Step(w, "P%d claims the debt, stamp %d", i, w.debt.stamp)
}

// quiet: no request is on its way, and nobody is in the middle of something.
func (w *world) quiet() bool {
	for _, p := range w.pubs {
		if p.at != idle {
			return false
		}
	}
	return w.late == [2]request{}
}

// settle is the end of a publisher's round: a compare-and-set on the stamp.
func (m *model) settle(w *world, r request) bool {
	d := &w.debt
	if d.state == noDebt || d.stamp != r.stamp && !m.is("finish-ignores-version") {
		return false
	}
	switch r.kind {
	case clearDebt:
		d.state = paid
	case watchOn:
		d.state = watching
	case forget:
		*d = debt{}
	}
	return true
}
