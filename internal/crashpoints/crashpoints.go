// Package crashpoints runs each operation of package blobtx once for every
// request that it makes to either store and every fault there, over the real
// azstore, and writes down what was left and what the caller was told:
// docs/crash-points.md. The requests are counted, never listed by hand.
package crashpoints

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/azsteps"
	"github.com/blobtx/blobtx/internal/seam"
	"github.com/blobtx/blobtx/store/faultstore"
	"github.com/blobtx/blobtx/store/memstore"
)

const (
	containerName = "page"
	blockSize     = 64 << 10
)

// world is both stores of one execution.
type world struct {
	rows           *memstore.Rows
	server         *azfake.Server
	before         map[string]bool // blobs that were there before the operation
	moves          *moves
	intents, blobs map[string]string // states at the last look
}

// process is the one that runs the operation.
type process struct {
	*blobtx.Coordinator
	w     *world
	alive *faultstore.Process
	old   blobtx.Object // the object that is there before
}

// outcome is what one execution came to.
type outcome struct {
	requests []faultstore.Op // of the operation, in order
	left     string          // right after the fault; of a late request, after it arrived
	told     string
	swept    string
	// afterwards is swept where a late request arrived after a first sweep.
	afterwards string
	problems   []string
}

// faultAt is the one fault of an execution; at is -1 for none.
type faultAt struct {
	at   int
	kind faultstore.Kind
	// after: a late request arrives when a first sweep is over, not before.
	after bool
}

// execution is one run of an operation.
type execution struct {
	op    *operation
	fault faultAt
	w     *world
	out   outcome
	ready bool // what is asked for now are the operation's requests
	late  []faultstore.Message
}

// execute runs the operation with one fault, in a bubble of its own.
func execute(t *testing.T, op *operation, fault faultAt, m *moves) outcome {
	e := &execution{op: op, fault: fault}
	synctest.Test(t, func(t *testing.T) {
		e.w = &world{rows: memstore.NewRows(nil), server: azfake.New(nil), moves: m}
		e.w.server.MakeContainer(containerName)
		e.run(t)
	})
	return e.out
}

func (e *execution) run(t *testing.T) {
	w := e.w
	sweeper := w.join(t, 1, faultstore.InjectorFunc(func(context.Context, faultstore.Op) faultstore.Fault {
		w.observe()
		return faultstore.Fault{}
	}))
	p := &process{w: w, alive: faultstore.NewProcess(t.Context(), e)}
	if e.op.replaces {
		p.old = w.prepare(t, sweeper)
	}
	w.remember()
	p.Coordinator = w.join(t, 2, p.alive)

	e.ready = true
	err := e.op.run(p.alive.Context(), p)
	synctest.Wait()
	w.observe()
	e.ready = false
	e.out.told = toldOf(e.op, err, p.alive.Dead())
	if !e.fault.after {
		e.deliver()
	}
	e.judge()
	p.alive.Kill()
	if e.fault.after {
		time.Sleep(16 * time.Minute)
		if _, err := sweeper.Sweep(t.Context(), nil); err != nil {
			e.problem("sweep: %v", err)
		}
		e.deliver()
		e.judge()
	}
	for _, problem := range w.sweep(sweeper) {
		e.problem("%s", problem)
	}
	e.out.swept = w.describe()
}

// Step implements faultstore.Injector for the process that runs the operation.
func (e *execution) Step(_ context.Context, asked faultstore.Op) faultstore.Fault {
	if !e.ready {
		return faultstore.Fault{}
	}
	e.w.observe()
	at := len(e.out.requests)
	e.out.requests = append(e.out.requests, asked)
	if at != e.fault.at {
		return faultstore.Fault{}
	}
	return faultstore.Fault{
		Kind: e.fault.kind,
		Late: func(m faultstore.Message) { e.late = append(e.late, m) },
		Told: func(any, error) { e.out.left = e.w.describe() },
	}
}

// deliver brings what is late.
func (e *execution) deliver() {
	for _, m := range e.late {
		m.Apply()
		e.w.observe()
	}
	if e.late != nil || e.fault.at < 0 {
		e.out.left = e.w.describe()
	}
}

// judge compares what the caller was told with what is there.
func (e *execution) judge() {
	happened, told := e.w.happened(e.op), e.out.told
	if told == e.op.done && !happened || told == e.op.refused && happened {
		e.problem("a lie: told %q, and there is: %s", told, e.w.describe())
	}
}

func (e *execution) problem(format string, args ...any) {
	e.out.problems = append(e.out.problems, fmt.Sprintf(format, args...))
}

// join makes a Coordinator of a process that has checked its stores.
func (w *world) join(t *testing.T, who byte, in faultstore.Injector) *blobtx.Coordinator {
	client, err := azsteps.Client(w.server, containerName, in)
	must(t, err)
	// Blocks go up one at a time, so that they have an order.
	blobs, err := azstore.New(client, &azstore.Options{BlockSize: blockSize, Concurrency: 1})
	must(t, err)
	c, err := blobtx.New(faultstore.Rows(w.rows, in), known{blobs}, nil)
	must(t, err)
	seam.Random(c, rand.NewChaCha8([32]byte{who}))
	must(t, c.Check(t.Context()))
	return c
}

// known is a store over an account that needs no Probe.
type known struct{ *azstore.Store }

func (known) Probe(context.Context) error { return nil }

// prepare stores the object that the operation meets, and leaves no trace of
// how.
func (w *world) prepare(t *testing.T, c *blobtx.Coordinator) blobtx.Object {
	o, err := c.Put(t.Context(), key, strings.NewReader("old"), nil)
	must(t, err)
	for _, problem := range w.sweep(c) {
		t.Error(problem)
	}
	return o
}

// sweep lets all deadlines pass and sweeps until nothing is owed.
func (w *world) sweep(c *blobtx.Coordinator) (problems []string) {
	const rounds = 6
	for range rounds {
		time.Sleep(26 * time.Hour)
		if _, err := c.Sweep(context.Background(), nil); err != nil {
			problems = append(problems, "sweep: "+err.Error())
		}
		w.observe()
		if len(w.rows.Intents())+len(w.rows.RetiredNames()) == 0 {
			return append(problems, w.unclean()...)
		}
	}
	return append(problems, fmt.Sprintf("not at rest after %d sweeps: %s", rounds, w.describe()))
}

// unclean: at rest the container holds the objects' blobs, sealed, and no other.
func (w *world) unclean() (problems []string) {
	blobs := w.server.Inspect(containerName)
	for _, o := range w.rows.Objects() {
		if b, ok := blobs[o.Blob.Name]; !ok || b.Tags["state"] != "committed" || b.ETag != o.Blob.ETag {
			problems = append(problems, fmt.Sprintf("at rest, object %q has no sealed blob", o.Key))
		}
		delete(blobs, o.Blob.Name)
	}
	for name := range blobs {
		problems = append(problems, "at rest, nothing names blob "+name)
	}
	return problems
}

// toldOf puts what the caller is told into a word.
func toldOf(op *operation, err error, dead bool) string {
	switch {
	case dead:
		return ""
	case err == nil:
		return op.done
	case errors.Is(err, blobtx.ErrOutcomeUnknown), errors.Is(err, blobtx.ErrTakenOver):
		return "unknown"
	}
	return op.refused
}

// happened: the operation's effect is visible.
func (w *world) happened(op *operation) bool {
	objects := w.rows.Objects()
	if op.gone {
		return len(objects) == 0
	}
	return len(objects) == 1 && !w.before[objects[0].Blob.Name]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
