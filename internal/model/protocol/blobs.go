package protocol

// inBlobs does one request to the blob store.
func (m *model) inBlobs(w *world, o op) result {
	b := &w.blobs[o.id]
	switch o.kind {
	case opCreate:
		if b.exists && !m.is("create-overwrites") {
			return exists
		}
		*b = blob{exists: true, content: o.content}
	case opClear: // an empty blob, create-only: no block list can be committed any more
		if b.exists {
			return exists
		}
		*b = blob{exists: true}
	case opStat:
		switch {
		case !b.exists:
			return missing
		case b.content != o.content:
			return different
		}
	case opFlip:
		if !b.exists {
			return missing
		}
		b.sealed = true
	case opDeletePending:
		switch {
		case !b.exists:
			return missing
		case b.sealed && !m.is("guard-dropped"):
			return refused
		}
		w.remove(o.id)
	case opDeleteRetired:
		if !b.exists {
			return missing
		}
		w.remove(o.id)
	default:
		panic(o.kind)
	}
	return ok
}

func (w *world) remove(id uint8) {
	if w.keep[id] {
		w.wrong = deletedKept
	}
	w.blobs[id] = blob{}
}

func (k opKind) toBlobs() bool {
	switch k {
	case opCreate, opClear, opStat, opFlip, opDeletePending, opDeleteRetired:
		return true
	}
	return false
}

func (m *model) apply(w *world, o op) (result, uint8) {
	if o.kind.toBlobs() {
		return m.inBlobs(w, o), 0
	}
	return m.inRows(w, o)
}
