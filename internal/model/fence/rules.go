package fence

// Broken implements explore.Model.
func (m *model) Broken(w world) string {
	var stopped [2]bool
	for _, p := range w.procs {
		stopped[p.db] = stopped[p.db] || p.stopped
	}
	switch {
	case stopped[0] && !w.forked:
		return "a false alarm: the only database was stopped"
	case stopped[1] && w.accepted:
		return "a false alarm: the database that was accepted was stopped"
	case stopped[0] && stopped[1]:
		return "a false alarm: both databases were stopped"
	case w.accepted && w.advances[0] >= many:
		return "the database that was given up goes on: it has not stopped by its second advance"
	case !m.accept && w.advances[0] >= many && w.advances[1] >= many:
		return "both databases go on: neither has stopped by its second advance"
	}
	return ""
}

// BrokenAtRest implements explore.Model: no fault and nobody any more but one
// sweeper of each database, in turns.
func (m *model) BrokenAtRest(w world) string {
	if !w.forked {
		for range 2 {
			if m.alone(&w, proc{}) {
				return "a false alarm: the only database is stopped"
			}
		}
		return ""
	}
	if m.accept && !w.accepted {
		m.alone(&w, proc{db: 1, accepts: true})
	}
	var stops [2]bool
	for range 2 {
		for _, db := range [...]uint8{1, 0} {
			stops[db] = stops[db] || m.alone(&w, proc{db: db})
		}
	}
	switch {
	case stops[0] && stops[1]:
		return "a false alarm: both databases are stopped"
	case stops[1] && w.accepted:
		return "a false alarm: the database that was accepted is stopped"
	case !stops[0] && !stops[1]:
		return "both databases go on"
	}
	return ""
}

// alone advances once without a fault, and reports whether that stopped it.
func (m *model) alone(w *world, p proc) (stopped bool) {
	p.at = toReadMeta
	for p.at != idle {
		if p.at == toReadMeta || p.at == toReadMarker || p.at == toReadMetaAgain {
			m.reads(w, &p)
			continue
		}
		r := m.request(w, &p)
		m.receive(w, &p, r, answerOf(m.apply(w, r)))
	}
	return p.stopped
}
