package blobtxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/internal/seam"
	"github.com/blobtx/blobtx/store/faultstore"
)

// maxSteps is more than any scenario that ends has.
const maxSteps = 5000

// execution is one run of a scenario under one schedule, inside one bubble.
// Its goroutine is the scheduler: it acts only while every other goroutine of
// the bubble waits.
type execution struct {
	x     *explorer
	s     *Scenario
	place place
	calm  *blobtx.Coordinator // sweeps at rest

	schedule schedule // what to choose, and what was chosen
	faults   int      // left
	passes   []time.Duration
	phase    int // 0: actors run; then the rounds at rest
	late     []*late
	last     *running // whose step was taken last
	wrote    bool     // and it may have changed a store
	endless  int
	// pointless: the schedule waits for what never comes; another one does not.
	pointless bool
	procs     []*running
	options   []option // buffer of next
	sorted    []*call  // buffer of calls

	mu        sync.Mutex // held for a few assignments, never across a wait
	held      []*call
	seq       int
	arrive    chan struct{} // somebody was held or has ended
	hash      *hasher
	violation string
	injected  int
	surfaced  int

	ledger    ledger
	restoring restoring
	log       *log // nil: nobody reads it
}

// running is one incarnation of an actor.
type running struct {
	e      *execution
	index  int // of the actor; -1: setup
	life   int
	name   string
	faulty *faultstore.Process
	public *Process

	mu      sync.Mutex
	calm    bool   // calls are not steps: setup, start-up
	replies digest // what it was told, in order
	pending digest // calls granted and not yet answered, as a set
	told    digest // what its clients were told
	reports []report
	done    bool
	ended   error

	// The rest is the scheduler's.

	waiting  int  // held calls that keep it from going on
	crashed  bool // died
	buried   bool // its end was seen to
	judged   bool
	restarts int // left
}

// call is one call of a process that is held at a step.
type call struct {
	r      *running
	op     faultstore.Op
	seq    int
	gate   bool // not a new step: a lock it waited for was released
	late   bool // of a message: it does not end with its sender
	go_    chan faultstore.Kind
	asked  digest
	fault  bool
	midway bool
	line   *line
}

// late is a request that is still on its way.
type late struct {
	faultstore.Message
	r    *running
	id   digest
	line *line
}

// start opens the world, runs Setup and starts the actors.
func (e *execution) start() error {
	var err error
	if e.place, err = e.s.World.open(e); err != nil {
		return fmt.Errorf("open the world: %w", err)
	}
	if _, can := e.place.(restorer); e.s.Restore != NoRestore && !can {
		return errors.New("this world's database cannot be put back")
	}
	rows, blobs := e.place.calm()
	if e.calm, err = blobtx.New(rows, blobs, &e.s.Options); err != nil {
		return err
	}
	seam.Random(e.calm, newSource(99, 0))
	if e.s.Setup != nil {
		r, err := e.newProcess(-1, 0, "setup")
		if err != nil {
			return err
		}
		r.calm = true
		err = sheltered(func() error { return e.s.Setup(r.faulty.Context(), r.public) })
		if err != nil {
			r.faulty.Kill()
			return fmt.Errorf("setup: %w", err)
		}
		r.calm = false
		e.setupReported(r)
		r.faulty.Kill()
		synctest.Wait()
	}
	for i := range e.s.Actors {
		if err := e.launch(i, 0, e.s.Actors[i].Restarts); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) newProcess(index, life int, name string) (*running, error) {
	r := &running{e: e, index: index, life: life, name: name}
	r.faulty = faultstore.NewProcess(context.Background(), r)
	r.faulty.OnLoop = func() {
		panic(fmt.Sprintf("blobtxtest: %s is dead and made 1,000 more calls: a loop that ignores its context\n%s", name, e.schedule.String()))
	}
	r.public = &Process{run: r}
	if err := e.place.join(r.public, r); err != nil {
		return nil, fmt.Errorf("%s joins the world: %w", name, err)
	}
	c, err := blobtx.New(r.public.Rows, r.public.Blobs, &e.s.Options)
	if err != nil {
		return nil, err
	}
	seam.Random(c, newSource(index, life))
	r.public.Coordinator = c
	r.calm = true
	if err := c.Check(r.faulty.Context()); err != nil {
		return nil, err
	}
	r.calm = false
	return r, nil
}

// launch starts an actor's process. It has checked its stores already.
func (e *execution) launch(index, life, restarts int) error {
	a := &e.s.Actors[index]
	name := a.Name
	if life > 0 {
		name = fmt.Sprintf("%s (restart %d)", a.Name, life)
	}
	r, err := e.newProcess(index, life, name)
	if err != nil {
		return err
	}
	r.restarts = restarts
	e.procs = append(e.procs, r)
	go func() {
		returned := false
		defer func() {
			if v := recover(); v != nil {
				e.violate(fmt.Sprintf("%s panicked: %v\n%s", r.name, v, debug.Stack()))
				r.exit(fmt.Errorf("panic: %v", v))
			} else if !returned { // by runtime.Goexit
				if !r.faulty.Dead() {
					e.violate(fmt.Sprintf("%s: its goroutine was ended, as t.FailNow and require do; in an actor use p.Errorf and return", r.name))
				}
				r.exit(errors.New("runtime.Goexit"))
			}
		}()
		err := a.Run(r.faulty.Context(), r.public)
		returned = true
		r.exit(err)
	}()
	return nil
}

func (r *running) exit(err error) {
	r.mu.Lock()
	r.done, r.ended = true, err
	crashed := r.crashed
	r.mu.Unlock()
	if !crashed {
		r.e.signal()
	}
}

func (r *running) isDone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// Step implements faultstore.Injector: the caller is held until the schedule
// chooses it.
func (r *running) Step(ctx context.Context, op faultstore.Op) faultstore.Fault {
	if r.calm {
		return faultstore.Fault{}
	}
	c := &call{r: r, op: op, go_: make(chan faultstore.Kind, 1)}
	kind := r.e.hold(c)
	f := faultstore.Fault{Kind: kind, Told: c.told}
	switch kind {
	case faultstore.LoseReply, faultstore.Late:
		ctx = context.WithoutCancel(ctx)
	}
	if kind == faultstore.Late {
		c.late = true
		f.Late = func(m faultstore.Message) { r.e.delay(c, m) }
	}
	if op.Store == "rows" || op.Store == "tx" || op.Store == "sql" {
		f.Context = &lockContext{Context: ctx, c: c}
	} else {
		f.Context = ctx
	}
	return f
}

// lockContext makes the end of a wait for a lock a step of its own, so that of
// several who wait the schedule chooses the first. Package memstore and the
// connections of the SQL world ask for Err once before each try.
type lockContext struct {
	context.Context
	c     *call
	tries int
}

func (l *lockContext) Err() error {
	if l.tries++; l.tries > 1 {
		gate := &call{r: l.c.r, op: l.c.op, gate: true, late: l.c.late, go_: make(chan faultstore.Kind, 1), line: l.c.line}
		if l.c.r.e.hold(gate) == faultstore.Die {
			return context.Canceled
		}
	}
	return l.Context.Err()
}

// hold keeps the caller until the schedule lets it go on, and returns how.
func (e *execution) hold(c *call) faultstore.Kind {
	if !c.late && c.r.faulty.Dead() {
		return faultstore.Die
	}
	e.mu.Lock()
	c.seq = e.seq
	e.seq++
	e.held = append(e.held, c)
	e.mu.Unlock()
	e.signal()
	select {
	case kind := <-c.go_:
		return kind
	case <-c.op.TxDone:
		if c.r.faulty.Dead() { // it is about to be let go
			return <-c.go_
		}
		e.drop(c)
		e.log.call(c, faultstore.Proceed)
		return faultstore.Proceed
	}
}

// drop takes a call out of those that are held.
func (e *execution) drop(c *call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.held, c)
	e.held = slices.Delete(e.held, i, i+1)
}

func (e *execution) signal() {
	select {
	case e.arrive <- struct{}{}:
	default:
	}
}

// told is called in the caller's goroutine with what it is about to be told.
func (c *call) told(reply any, err error) {
	r, e := c.r, c.r.e
	e.mu.Lock()
	if c.fault && err != nil && !c.midway {
		e.surfaced++
		c.fault = false
	}
	var d digest
	d.text(c.op.Name)
	d.text(c.op.Subject)
	e.hash.reply(&d, reply)
	e.hash.err(&d, err)
	e.mu.Unlock()
	d.time(time.Now())
	r.mu.Lock()
	r.replies.sub(d)
	r.pending.a -= c.asked.a
	r.pending.b -= c.asked.b
	r.mu.Unlock()
	c.asked = digest{}
	c.line.result(err)
}

func (e *execution) delay(c *call, m faultstore.Message) {
	l := &late{Message: m, r: c.r, line: c.line}
	c.r.mu.Lock()
	l.id = c.r.replies
	c.r.mu.Unlock()
	l.id.text(c.op.Name)
	l.id.text(c.op.Subject)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = append(e.late, l)
}

func (e *execution) violate(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.violation == "" {
		e.violation = what
	}
}

func (e *execution) violated() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.violation != ""
}

// calls returns the held calls in a repeatable order. They are valid until
// something moves.
func (e *execution) calls() []*call {
	e.mu.Lock()
	e.sorted = append(e.sorted[:0], e.held...)
	e.mu.Unlock()
	slices.SortFunc(e.sorted, func(a, b *call) int {
		return cmp.Or(
			cmp.Compare(a.r.index, b.r.index), cmp.Compare(a.r.life, b.r.life),
			cmp.Compare(a.op.Store, b.op.Store), cmp.Compare(a.op.Name, b.op.Name), cmp.Compare(a.op.Subject, b.op.Subject),
			cmp.Compare(a.seq, b.seq),
		)
	})
	return e.sorted
}

func (e *execution) release(c *call, kind faultstore.Kind) {
	e.drop(c)
	if kind != faultstore.Die && !c.gate {
		c.asked = digest{}
		c.asked.text(c.op.Name)
		c.asked.text(c.op.Subject)
		c.asked.word(uint64(kind))
		if c.op.Store == "sql" {
			c.asked.time(time.Now()) // it may wait for a lock, but not for ever
		}
		c.r.mu.Lock()
		c.r.pending.plus(c.asked)
		c.r.mu.Unlock()
	}
	c.go_ <- kind
}

// kill ends a process: what it has in hand fails, and nothing more of it takes
// effect but what is on its way.
func (e *execution) kill(r *running) {
	r.faulty.Kill()
	for _, c := range e.calls() {
		if c.r == r && !c.late {
			e.release(c, faultstore.Die)
		}
	}
}

func (e *execution) crash(r *running) error {
	r.mu.Lock()
	r.crashed = true
	r.mu.Unlock()
	e.kill(r)
	if r.restarts > 0 {
		return e.launch(r.index, r.life+1, r.restarts-1)
	}
	return nil
}

// settleDown waits until nothing moves, and sees to those that have ended:
// what they left open closes.
func (e *execution) settleDown() {
	for {
		synctest.Wait()
		again := false
		for _, r := range e.procs {
			if !r.buried && r.isDone() {
				r.buried = true
				e.log.add(r.name, "ends", "").result(r.ended)
				e.kill(r)
				again = true
			}
		}
		if !again {
			return
		}
	}
}

// idle lets the fake clock move until somebody is held or ends. It reports
// false when nobody ever is.
func (e *execution) idle() bool {
	select {
	case <-e.arrive: // from before
	default:
	}
	timer := time.NewTimer(1000 * time.Hour)
	defer timer.Stop()
	select {
	case <-e.arrive:
		return true
	case <-timer.C:
		return false
	}
}

// source is a repeatable stream of randomness per incarnation.
type source struct {
	mu sync.Mutex
	r  *rand.ChaCha8
}

func newSource(index, life int) *source {
	return &source{r: rand.NewChaCha8([32]byte{1: byte(index + 2), 2: byte(life)})}
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Read(p)
}
