package protocol

var wrongNames = [...]string{
	lostUpdate:            "lost update: a change overwrote a version it had not seen",
	fencedHolderCommitted: "a holder that had been fenced out committed",
	fencedHolderAborted:   "a holder that had been fenced out aborted the attempt after it",
	deletedKept:           "after a restore, a committed blob was deleted",
}

// Broken implements explore.Model: what must never be, not for an instant.
func (m *model) Broken(w world) string {
	if w.wrong != 0 {
		return wrongNames[w.wrong]
	}
	if w.restored {
		return "" // rows may point at blobs given up later; the audit names them
	}
	if o := w.db.object; o.exists {
		if b := w.blobs[o.blob]; !b.exists || b.content != o.content {
			return "dangling row: its bytes are missing or different"
		}
	}
	for i, p := range w.procs {
		if p.role != writer || p.told == nothing {
			continue
		}
		if in := w.db.intents[p.id]; p.told == saidNo && in.committed && in.holder == int8(i) {
			return "a lie: told no, but committed"
		} else if p.told == saidYes && !in.committed {
			return "a lie: told yes, but not committed"
		}
	}
	return ""
}

// BrokenAtRest implements explore.Model: no fault and no process any more but
// one faithful sweeper, after every deadline and the quarantine.
func (m *model) BrokenAtRest(w world) string {
	for id := range uint8(names) {
		in := &w.db.intents[id]
		switch in.state {
		case uploading, abandoned:
			in.state = abandoned
			if m.inBlobs(&w, op{kind: opDeletePending, id: id}) == refused {
				if !w.restored {
					return "stuck: an abandoned upload's blob is sealed"
				}
				in.state = held
			}
		case sealing:
			m.inBlobs(&w, op{kind: opFlip, id: id})
		}
		if w.db.retired[id] != 0 {
			m.inBlobs(&w, op{kind: opDeleteRetired, id: id})
		}
	}
	if broken := m.Broken(w); broken != "" || w.restored {
		return broken
	}
	for id := range uint8(names) {
		named := w.db.object.exists && w.db.object.blob == id
		if w.blobs[id].exists && !named {
			return "orphan: a blob that nothing records"
		}
		if named && !w.blobs[id].sealed {
			return "a ready row whose blob still says pending, and nothing records the debt"
		}
	}
	return ""
}
