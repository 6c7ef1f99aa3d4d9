package protocol

// claim hands one intent out to a sweeper and says what its round begins with.
// Deadlines may pass at any moment, but the quarantine is longer than anything
// on its way.
func (m *model) claim(w *world, id uint8) (at opKind, last uint8) {
	in := &w.db.intents[id]
	switch in.state {
	case uploading: // the claim fences: from here on no commit can succeed
		if !m.is("claim-does-not-fence") {
			in.state, in.version, in.watched, in.claims = abandoned, in.version+1, false, 1
		}
		if m.is("no-quarantine") {
			return opClear, in.claims
		}
		return opClear, 0
	case abandoned:
		if in.watched && in.claims == 0 && !w.quiet(id) && !m.is("quarantine-too-short") {
			return noOp, 0 // not due
		}
		in.claims = min(in.claims+1, many)
		if !in.watched || in.claims > 1 && m.is("later-round-creates") {
			return opClear, 0
		}
		// Once a name is watched no round creates anything under it, so that
		// nothing of a sweeper's can land after the last.
		if m.is("final-round-creates") {
			return opClear, in.claims
		}
		return opDeletePending, in.claims
	case sealing:
		return opFlip, 0
	}
	return noOp, 0
}

// claimRetired hands a retired blob out. It was created once, perhaps by two
// requests: the second can land after the delete. So it is watched too.
func (m *model) claimRetired(w *world, id uint8) (at opKind, last uint8) {
	switch r := &w.db.retired[id]; {
	case *r == due:
		return opDeleteRetired, 0
	case *r == looking || *r == watched && w.quiet(id):
		*r = looking
		return opDeleteRetired, 1
	}
	return noOp, 0
}

// quiet: nothing that concerns the name is on its way, and nobody is in the
// middle of something with it.
func (w *world) quiet(id uint8) bool {
	for _, p := range w.procs {
		if p.at != noOp && p.at != opInsert && p.id == id {
			return false
		}
	}
	for _, o := range w.late {
		if o.kind != noOp && o.id == id {
			return false
		}
	}
	return true
}

// receiveSweep is what a sweeper makes of an answer.
func (m *model) receiveSweep(p *proc, r result) {
	found := r == ok && !m.is("final-round-creates") // what it created itself does not count
	switch {
	case p.at == opClear && (r == ok || r == exists):
		p.at = opDeletePending
	case p.at == opDeletePending && (r == ok || r == missing):
		p.at = opWatch
		if p.last != 0 && !found || m.is("no-quarantine") {
			p.at = opForgetIntent
		}
	case p.at == opFlip && (r == ok || r == missing):
		p.at = opFinish
	case p.at == opDeleteRetired && (r == ok || r == missing):
		p.at = opWatchRetired
		if p.last != 0 && !found || m.is("retired-without-quarantine") {
			p.at = opForgetRetired
		}
	case (p.at == opClear || p.at == opDeletePending) && r == failed && m.is("failed-round-counts-as-watched"):
		p.at = opFailedIsWatched
	default: // settled, or a failure: claimed again later
		p.rest()
	}
}

// rest ends a round and forgets it.
func (p *proc) rest() { *p = proc{role: sweeper, budget: p.budget} }
