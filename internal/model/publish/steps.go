package publish

import (
	"cmp"
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Steps implements explore.Model: the scripts' transactions, the publishers,
// and requests that land late.
func (m *model) Steps(w world, next *explore.Steps[world]) bool {
	atRest := m.transactions(w, next)
	for i, p := range w.pubs {
		if p.at == idle {
			m.claim(w, i, next)
		} else {
			atRest = false
			m.sends(w, i, next)
		}
	}
	for k, r := range w.late {
		if r.kind != 0 {
			atRest = false
			to := w
			copy(to.late[1:], w.late[:k])
			to.late[0] = request{}
			done := m.apply(&to, r)
			next.Step(to, "late: %v lands: %v", r, done)
		}
	}
	return atRest
}

// delay puts a request on its way. They stay in one order, so that the same
// requests are the same state.
func (w *world) delay(r request) {
	w.late[0] = r
	slices.SortFunc(w.late[:], func(a, b request) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.version, b.version), cmp.Compare(a.stamp, b.stamp))
	})
}

// Broken implements explore.Model.
func (m *model) Broken(w world) string {
	if w.back {
		return "the published name went back to an older version"
	}
	return ""
}

// BrokenAtRest implements explore.Model: no fault and nobody any more but one
// faithful publisher, after the quarantine.
func (m *model) BrokenAtRest(w world) string {
	published := w.row.version
	if !w.row.named {
		published = 0
	}
	if w.debt.state > paid {
		w.alias = published
	}
	switch {
	case published == 0 && w.alias != 0:
		return "the object is gone or not published, its published name is still there, and nothing records the debt"
	case w.alias != published:
		return "the published name shows another version than the object's, and nothing records the debt"
	}
	return ""
}
