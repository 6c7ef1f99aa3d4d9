package faultstore

import (
	"context"
	"sync"
)

// deadCalls is how many calls a dead process may still make: its goroutines
// unwind. More is a loop that ignores its context.
const deadCalls = 1000

// Process is an Injector for one OS process that wraps another. When a step's
// fault is Die, or Kill is called, the process is dead: its context is
// cancelled, its transactions are rolled back by closing their connections, and
// every later call fails at once with ErrDead and without effect. A panic would
// be swallowed by recover middleware, and runtime.Goexit inside a driver hangs
// the caller's deferred Rollback; an error does neither.
type Process struct {
	in     Injector
	ctx    context.Context
	cancel context.CancelCauseFunc

	// OnLoop, if set, is called in the goroutine of the offending call when a
	// dead process has made 1,000 calls more. Set it before the first Step.
	OnLoop func()

	mu     sync.Mutex // held for a few assignments, never across a call
	dead   bool
	after  int // calls made since death
	stats  Stats
	nextID int
	ends   map[int]func() // what death does to what is open
}

// Stats counts the steps of a process and the faults among them.
type Stats struct {
	Steps    int
	Injected int // faults that an injector decided on
	Surfaced int // of those: the caller got an error for it
}

// NewProcess returns a living process. Its Context derives from ctx.
func NewProcess(ctx context.Context, in Injector) *Process {
	p := &Process{in: in, ends: make(map[int]func())}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// Context ends, with cause ErrDead, when the process dies.
func (p *Process) Context() context.Context { return p.ctx }

// Step implements Injector.
func (p *Process) Step(ctx context.Context, op Op) Fault {
	if p.deadCall() {
		return Fault{Kind: Die}
	}
	f := p.in.Step(ctx, op)
	if f.Kind == Die {
		p.Kill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead && f.Kind != Die { // killed while it was held
		return Fault{Kind: Die, Told: f.Told}
	}
	p.stats.Steps++
	if f.Kind != Proceed {
		p.stats.Injected++
		f.Told = p.surfacing(f.Told)
	}
	return f
}

func (p *Process) surfacing(told func(any, error)) func(any, error) {
	return func(reply any, err error) {
		if err != nil {
			p.mu.Lock()
			p.stats.Surfaced++
			p.mu.Unlock()
		}
		if told != nil {
			told(reply, err)
		}
	}
}

// deadCall counts a call of a dead process.
func (p *Process) deadCall() bool {
	p.mu.Lock()
	if !p.dead {
		p.mu.Unlock()
		return false
	}
	p.after++
	loops := p.after == deadCalls
	p.mu.Unlock()
	if loops && p.OnLoop != nil {
		p.OnLoop()
	}
	return true
}

// Kill ends the process. It may be repeated.
func (p *Process) Kill() {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead = true
	ends := p.ends
	p.ends = nil
	p.mu.Unlock()
	p.cancel(ErrDead)
	for _, end := range ends {
		end()
	}
}

// Dead reports whether the process is dead.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Loops reports whether the process made 1,000 calls after its death: a loop
// that ignores its context.
func (p *Process) Loops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.after >= deadCalls
}

// Stats returns what was counted so far.
func (p *Process) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// atDeath registers what death ends, and returns how to take that back. On a
// dead process it happens at once.
func (p *Process) atDeath(end func()) (forget func()) {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		end()
		return func() {}
	}
	id := p.nextID
	p.nextID++
	p.ends[id] = end
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ends, id)
	}
}

// mortal is an injector whose death ends what is open.
type mortal interface {
	atDeath(end func()) (forget func())
}

// atDeath registers end with an injector that can die.
func atDeath(in Injector, end func()) (forget func()) {
	if m, ok := in.(mortal); ok {
		return m.atDeath(end)
	}
	return func() {}
}
