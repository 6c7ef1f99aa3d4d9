package protocol

// inRows does one step in the database: atomic, durable once it is answered.
// It returns the intent's version.
func (m *model) inRows(w *world, o op) (result, uint8) {
	d := &w.db
	in := &d.intents[o.id]
	switch o.kind {
	case opInsert:
		return m.insert(in, o), in.version
	case opTakeOver:
		return m.takeOver(in, o), in.version
	case opCommit:
		return m.commit(w, o), in.version
	case opAbandon:
		return m.abandon(w, o), in.version
	case opFinish:
		if in.state != sealing || in.version != o.version {
			return conflict, in.version
		}
		in.state, in.version = done, in.version+1
	case opWatch:
		if in.state != abandoned || in.version != o.version {
			return conflict, in.version
		}
		in.version, in.watched, in.claims = in.version+1, true, 0
	case opForgetIntent:
		// A later claim may have been handed out; its round does no harm, because
		// it creates nothing.
		if in.state != abandoned || in.version != o.version {
			return conflict, in.version
		}
		*in = intent{state: gone, committed: in.committed}
	case opFailedIsWatched:
		if in.state == abandoned && in.version == o.version {
			in.watched = true
		}
	case opWatchRetired:
		if d.retired[o.id] != 0 {
			d.retired[o.id] = watched
		}
	case opForgetRetired:
		d.retired[o.id] = 0
	case opDeleteObject:
		return m.deleteObject(w, o), 0
	default:
		panic(o.kind)
	}
	return ok, in.version
}

// insert begins an intent, or takes an unfinished one over that has the same
// idempotency key.
func (m *model) insert(in *intent, o op) result {
	switch in.state {
	case none:
		*in = intent{state: uploading, version: 1, holder: o.proc}
		return ok
	case uploading: // the earlier holder is fenced out
		if !m.is("takeover-without-bump") {
			in.version++
		}
		in.holder = o.proc
		return taken
	case sealing, done:
		return already
	case gone:
		return missing // the key is free: a fresh intent, with another blob name
	}
	return conflict
}

// takeOver settles a commit whose reply was lost: once it has won, no earlier
// attempt can succeed any more. The holder recognises a takeover of its own.
func (m *model) takeOver(in *intent, o op) result {
	switch in.state {
	case uploading:
		if m.is("settle-by-select") {
			return lost // not committed, as far as one can see
		}
		if in.version != o.version && in.holder != o.proc {
			return fenced
		}
		if !m.is("takeover-without-bump") {
			in.version++
		}
		in.holder = o.proc
		return ok
	case sealing, done:
		return already
	case abandoned:
		return lost
	case gone:
		return missing
	}
	return conflict
}

// commit is one transaction: the intent, the object, the replaced blob's name.
// A conflict leaves no trace.
func (m *model) commit(w *world, o op) result {
	d := &w.db
	in := &d.intents[o.id]
	switch {
	case in.state == sealing || in.state == done:
		return already
	case m.is("commit-ignores-intent-version"):
	case in.state == abandoned:
		return lost
	case in.state == gone:
		return missing
	case in.state != uploading:
		return conflict
	case in.version != o.version:
		return fenced
	}
	current := uint8(0)
	if d.object.exists {
		current = d.object.version
	}
	if current != o.expect && !m.is("commit-ignores-object-version") {
		if m.is("conflict-leaves-intent-committed") {
			in.state, in.version = sealing, in.version+1
		}
		return conflict
	}
	if current != o.expect {
		w.wrong = lostUpdate
	}
	if in.holder != o.proc {
		w.wrong = fencedHolderCommitted
	}
	if d.object.exists && !m.is("replaced-blob-not-recorded") {
		d.retired[d.object.blob] = due
	}
	d.object = object{true, current + 1, o.id, o.content}
	in.state, in.version, in.committed = sealing, in.version+1, true
	return ok
}

// abandon fences the intent, for its holder.
func (m *model) abandon(w *world, o op) result {
	in := &w.db.intents[o.id]
	switch {
	case m.is("compensation-without-fence"):
		return ok
	case in.state == sealing || in.state == done:
		if !m.is("abandon-ignores-state") {
			return already
		}
	case in.state == abandoned:
		return lost
	case in.state != uploading:
		return conflict
	case in.version != o.version && in.holder != o.proc && !m.is("abandon-ignores-version"):
		return fenced
	}
	if in.state == uploading && in.holder != o.proc {
		w.wrong = fencedHolderAborted
	}
	in.state, in.version, in.watched, in.claims = abandoned, in.version+1, false, 0
	return ok
}

func (m *model) deleteObject(w *world, o op) result {
	d := &w.db
	if !d.object.exists || (d.object.version != o.expect && !m.is("delete-ignores-object-version")) {
		return conflict
	}
	if d.object.version != o.expect {
		w.wrong = lostUpdate
	}
	if !m.is("deleted-blob-not-recorded") {
		d.retired[d.object.blob] = due
	}
	d.object = object{}
	return ok
}
