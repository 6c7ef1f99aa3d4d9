package blobtxtest

import (
	"fmt"
	"testing"
	"time"
)

// Violation is a schedule on which a promise is broken.
type Violation struct {
	What  string // which promise, and how
	Steps string // a numbered line for each step, with what came of it
	Trace string // replays it, as Limits.Trace
}

// String tells it as a failed Explore does.
func (v *Violation) String() string {
	return fmt.Sprintf("%s\n\n%s\ntrace %q\n", v.What, v.Steps, v.Trace)
}

// Find explores like Explore and returns what it found instead of failing a
// test, so that a program can call it, or a test of a handler that is known to
// be wrong. It goes on after a violation, to the end of the limits; of all that
// break a promise it returns the schedule with the fewest steps, or nil. It must
// not be called from inside a testing/synctest bubble. A scenario that makes no
// sense, such as one without Actors, is a Violation without Steps.
func Find(s Scenario) (Stats, *Violation) {
	x := newExplorer(new(testing.T), s) // which a bubble needs, and nobody reads
	x.fewest = &fewest{depths: make(map[digest]int)}
	began := time.Now()
	v := x.explore()
	x.stats.Seconds = time.Since(began).Seconds()
	if v == nil {
		return x.stats, nil
	}
	x.stats.Violations = max(x.stats.Violations, 1)
	return x.stats, &Violation{What: v.what, Steps: v.steps, Trace: v.trace}
}

// fewest looks for the shortest schedule that ends in a violation.
type fewest struct {
	found  bool
	best   schedule
	depths map[digest]int // of the states that were met, the fewest steps to each
}

// keep notes a schedule with a violation.
func (f *fewest) keep(s schedule) {
	if !f.found || s.at < f.best.at {
		f.found, f.best = true, s.again()
		f.best.at = s.at
	}
}

// met reports whether going on after so many steps leads to nothing shorter.
func (f *fewest) met(d digest, steps int) bool {
	if f.found && steps+1 >= f.best.at {
		return true
	}
	if known, ok := f.depths[d]; ok && known <= steps {
		return true
	}
	f.depths[d] = steps
	return false
}
