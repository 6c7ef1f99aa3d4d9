package blobtxtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Explore runs the scenario through its schedules and fails the test at the
// first violation, with the steps that lead to it and the trace that replays
// them. Inside the bubbles it runs one execution at a time.
func Explore(t *testing.T, s Scenario) {
	t.Helper()
	x := newExplorer(t, s)
	began := time.Now()
	v := x.explore()
	x.stats.Seconds = time.Since(began).Seconds()
	if v != nil {
		x.stats.Violations = 1
	}
	x.stats.publish(t)
	if v != nil {
		t.Fatal(v.String())
	}
}

type explorer struct {
	t       *testing.T
	s       Scenario
	first   time.Duration // that passes before the first sweep at rest
	longest time.Duration // and before each further one
	visited map[digest]struct{}
	// keepApart takes every schedule to its end, for a test of merging.
	keepApart bool
	fewest    *fewest // nil: the first violation ends it
	stats     Stats

	scratch string   // a temporary folder
	pool    *sqlPool // of the SQL world
}

// folder is where the world of every execution may keep files.
func (x *explorer) folder() (string, error) {
	var err error
	if x.scratch == "" {
		x.scratch, err = os.MkdirTemp("", "blobtxtest")
	}
	return x.scratch, err
}

func (x *explorer) clean() {
	if x.pool != nil {
		x.pool.close()
	}
	if x.scratch != "" {
		_ = os.RemoveAll(x.scratch)
	}
}

func newExplorer(t *testing.T, s Scenario) *explorer {
	if s.World == nil {
		s.World = Memory()
	}
	or := func(d, standard time.Duration) time.Duration {
		if d <= 0 {
			return standard
		}
		return d
	}
	ttl := or(s.Options.IntentTTL, 15*time.Minute)
	if s.Passes == nil {
		s.Passes = []time.Duration{ttl + time.Second}
	}
	first := max(ttl, or(s.Options.ReadGrace, 5*time.Minute), 5*time.Minute) + time.Second
	longest := max(or(s.Options.MaxPending, 48*time.Hour), or(s.Options.Quarantine, 24*time.Hour), or(s.Options.Retention, 24*time.Hour)) + 2*time.Hour
	return &explorer{t: t, s: s, first: first, longest: longest, visited: make(map[digest]struct{}), stats: Stats{Name: t.Name()}}
}

// violation is the end of an exploration that found one.
type violation struct {
	what, trace, steps, how string
	faults                  int // of the limits
}

func (v *violation) String() string {
	if v.trace == "" {
		return v.what // nothing was run
	}
	return fmt.Sprintf("%s\n\n%s\nreplay with Limits: blobtxtest.Limits{Faults: %d, Trace: %q}%s", v.what, v.steps, v.faults, v.trace, v.how)
}

func (x *explorer) explore() *violation {
	defer x.clean()
	if err := x.s.refused(); err != nil {
		return &violation{what: err.Error()}
	}
	switch {
	case x.s.Limits.Trace != "":
		given, err := parseTrace(x.s.Limits.Trace)
		if err != nil {
			return &violation{what: err.Error()}
		}
		return x.replay(given)
	case x.s.Limits.Seed != 0:
		return x.wander()
	}
	return x.exhaust()
}

// exhaust takes every schedule in depth-first order.
func (x *explorer) exhaust() *violation {
	var s schedule
	for {
		if v := x.one(&s); v != nil {
			return v
		}
		x.stats.Complete = !s.next()
		if limit := x.s.Limits.Executions; x.stats.Complete || limit > 0 && x.stats.Executions >= limit {
			return x.shortest()
		}
	}
}

func (x *explorer) shortest() *violation {
	if x.fewest == nil || !x.fewest.found {
		return nil
	}
	return x.replay(x.fewest.best)
}

// wander takes random schedules.
func (x *explorer) wander() *violation {
	limit := x.s.Limits.Executions
	if limit == 0 {
		limit = 10_000
	}
	for i := range limit {
		s := schedule{random: rand.New(rand.NewPCG(x.s.Limits.Seed, uint64(i)))}
		if v := x.one(&s); v != nil {
			v.how = fmt.Sprintf(" (seed %d, execution %d)", x.s.Limits.Seed, i+1)
			return v
		}
	}
	return x.shortest()
}

// one executes a schedule. On a violation it looks for a shorter way to it and
// tells the steps.
func (x *explorer) one(s *schedule) *violation {
	e, merged, err := x.execute(*s, nil)
	*s = e.schedule
	x.stats.Executions++
	x.stats.Injected += e.injected
	x.stats.Surfaced += e.surfaced
	if merged {
		x.stats.Merged++
	}
	if err != nil {
		return &violation{what: err.Error(), trace: s.String(), faults: x.s.Limits.Faults}
	}
	if e.violation == "" {
		return nil
	}
	if x.fewest != nil {
		x.stats.Violations++
		x.fewest.keep(e.schedule)
		return nil
	}
	return x.replay(x.shorten(s.again(), e.violation))
}

// shorten drops choices that the violation does not need, as long as one of
// the same kind remains.
func (x *explorer) shorten(s schedule, what string) schedule {
	kind, _, _ := strings.Cut(what, ":")
	best := s
	for i := len(best.taken) - 1; i >= 0; i-- {
		if i >= len(best.taken) || best.taken[i].one == 0 {
			continue
		}
		shorter := schedule{given: i, taken: append([]choice(nil), best.taken[:i]...)}
		if e, _, err := x.execute(shorter, new(log)); err == nil && strings.HasPrefix(e.violation, kind) {
			best = e.schedule.again()
		}
	}
	return best
}

// replay executes a schedule and keeps its steps.
func (x *explorer) replay(s schedule) *violation {
	steps := new(log)
	e, _, err := x.execute(s, steps)
	v := &violation{what: e.violation, trace: e.schedule.String(), steps: steps.String(), faults: x.s.Limits.Faults}
	switch {
	case err == nil && v.what == "" && x.s.Limits.Trace != "" && e.schedule.at < s.given:
		v.what = fmt.Sprintf("the trace has %d decisions and the scenario ended after %d: it is of another one", s.given, e.schedule.at)
	case err != nil:
		v.what = err.Error()
	case v.what == "" && x.s.Limits.Trace == "":
		v.what = "a violation that does not come again: the scenario is not repeatable"
	case v.what == "" && x.fewest != nil:
		return nil
	case v.what == "":
		x.t.Logf("no violation:\n%s", v.steps)
		return nil
	}
	return v
}

// execute runs one schedule in a bubble of its own.
func (x *explorer) execute(s schedule, l *log) (e *execution, merged bool, err error) {
	s.at = 0
	e = &execution{
		x: x, s: &x.s, schedule: s, faults: x.s.Limits.Faults, passes: x.s.Passes,
		arrive: make(chan struct{}, 1), hash: newHasher(), ledger: newLedger(), log: l,
	}
	synctest.Test(x.t, func(*testing.T) {
		e.arrive = make(chan struct{}, 1)
		merged, err = e.run()
	})
	return e, merged, err
}

// met reports whether an execution is in a state that was met before, and
// notes it.
func (x *explorer) met(e *execution) bool {
	if x.keepApart || e.log != nil || e.schedule.random != nil || e.hash.opaque {
		return false
	}
	d := e.digest()
	if x.fewest != nil {
		return x.fewest.met(d, e.schedule.at)
	}
	if _, known := x.visited[d]; known {
		return true
	}
	x.visited[d] = struct{}{}
	x.stats.States++
	return false
}
