package fence

// world is the marker blob, the databases, and everybody at work on them.
type world struct {
	marker   token // 0: there is none
	dbs      [2]meta
	forked   bool
	accepted bool     // somebody has told that the second database is the one that counts
	advances [2]uint8 // ghost: finished since the fork or the acceptance; many is enough
	procs    [4]proc
	late     [2]request // sent, given up by their senders, and not there yet
	faults   uint8      // still to come
	given    token      // ghost: the highest token in use
}

// token is a random value. It never repeats.
type token uint8

const many = 2 // advances

// meta is the database's row: the marker shows cur, or next when that is set.
type meta struct{ cur, next token }

type proc struct {
	db      uint8
	accepts bool // not a sweeper: AcceptRestore, which takes the marker over
	budget  uint8
	stopped bool // ErrWrongStore

	at      step
	meta    meta // as read, and as written since
	current bool // the marker's ETag, as read, is still the marker's
}

type step uint8

const (
	idle step = iota
	toReadMeta
	toSetNext
	toReadMarker
	toWriteMarker
	toReadMetaAgain
	toFinish
)

// request is what can be lost, land late or land twice.
type request struct {
	kind    step // toSetNext, toWriteMarker or toFinish
	db      uint8
	meta    meta // what it compares with
	token   token
	current bool // its ETag is still the marker's
}

// String is the request in a trace.
func (r request) String() string {
	switch r.kind {
	case toSetNext:
		return "set next in " + databases[r.db]
	case toWriteMarker:
		return "write the marker"
	}
	return "finish in " + databases[r.db]
}

var databases = [...]string{"A", "B"} // B is the copy

// tidy names the tokens in the order in which they are met, so that states
// which differ in the names alone are one.
func (m *model) tidy(w world) world {
	if m.is("next-not-random") {
		return w
	}
	var names [64]token
	w.given = 0
	name := func(t *token) {
		if *t == 0 {
			return
		}
		if names[*t] == 0 {
			w.given++
			names[*t] = w.given
		}
		*t = names[*t]
	}
	name(&w.marker)
	for i := range w.dbs {
		name(&w.dbs[i].cur)
		name(&w.dbs[i].next)
	}
	for i := range w.procs {
		p := &w.procs[i]
		name(&p.meta.cur)
		name(&p.meta.next)
	}
	for k := range w.late {
		r := &w.late[k]
		name(&r.meta.cur)
		name(&r.meta.next)
		name(&r.token)
	}
	return w
}
