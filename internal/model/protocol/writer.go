package protocol

// receiveWrite is what a writer makes of an answer: the four steps of a Put.
func (m *model) receiveWrite(p *proc, r result, version uint8) {
	switch p.at {
	case opInsert:
		switch r {
		case ok, taken:
			p.version, p.at = version, opCreate
		case already:
			p.end(saidYes)
		case conflict:
			p.end(saidNo)
		case missing:
			p.end(saidUnknown)
		default:
			if !p.retry() {
				p.end(saidUnknown)
			}
		}
	case opCreate: // a status code alone is never success: look
		switch {
		case r == ok || r == exists && m.is("conflict-code-is-success"):
			p.at = opCommit
			if m.is("flip-before-commit") {
				p.at = opFlip
			}
		case r == exists:
			p.at = opStat
		case !p.retry():
			p.at = opAbandon
		}
	case opStat:
		switch {
		case r == ok:
			p.at = opCommit
		case r == missing && p.retry():
			p.at = opCreate
		default:
			p.at = opAbandon
		}
	case opCommit:
		m.committed(p, r, version)
	case opTakeOver:
		m.settled(p, r, version)
	case opFlip:
		switch {
		case m.is("flip-before-commit") && p.told == nothing:
			p.at = opCommit
		case r == failed:
			p.end(p.told)
		default:
			p.at = opFinish
		}
	case opFinish, opDeletePending:
		p.end(p.told)
	case opAbandon:
		switch {
		case r == ok:
			p.say(saidNo)
			p.at = opDeletePending // only now that the fence is committed
		case r == already && p.told == nothing:
			p.say(saidYes)
			p.version, p.at = version, opFlip
		default: // fenced out by another holder or the sweeper, or no answer
			p.end(saidUnknown)
		}
	}
}

// committed is the answer to a commit.
func (m *model) committed(p *proc, r result, version uint8) {
	switch r {
	case ok, already:
		p.say(saidYes)
		p.version, p.at = version, opFlip
		if m.is("flip-before-commit") {
			p.at = opFinish
		}
	case conflict: // it left no trace, and what came before was settled
		p.say(saidNo)
		p.at = opAbandon
	case lost:
		p.end(saidNo)
	case missing: // perhaps committed once, and forgotten since
		if m.is("gone-is-not-committed") {
			p.end(saidNo)
		}
		p.end(saidUnknown)
	case failed:
		if m.is("unknown-commit-is-failure") {
			p.end(saidNo)
			return
		}
		p.at = opTakeOver
	case fenced: // by a retry, or by a takeover of our own that came late
		p.at = opTakeOver
		if !p.retry() {
			p.end(saidUnknown)
		}
	}
}

// settled is the answer to the takeover that finds out about a commit.
func (m *model) settled(p *proc, r result, version uint8) {
	switch r {
	case ok: // not committed, and no attempt made until now ever will be
		p.version, p.at = version, opCommit
		if !p.retry() {
			p.say(saidNo)
			p.at = opAbandon
		}
	case already:
		p.say(saidYes)
		p.version, p.at = version, opFlip
	case lost:
		p.end(saidNo)
	case failed: // unknown; the caller may commit again
		p.at = opCommit
		if !p.retry() {
			p.end(saidUnknown)
		}
	default: // another holder, held, or no longer remembered
		p.end(saidUnknown)
	}
}

// retry reports whether p may try once more, and counts it.
func (p *proc) retry() bool {
	if p.retries == 0 {
		return false
	}
	p.retries--
	return true
}

// say is what the client is told first; it is not taken back, and nothing is
// tried again after it.
func (p *proc) say(t told) {
	if p.told == nothing {
		p.told, p.retries = t, 0
	}
}

// end forgets what can make no difference any more.
func (p *proc) end(t told) {
	p.say(t)
	*p = proc{role: p.role, over: true, id: p.id, told: p.told}
}
