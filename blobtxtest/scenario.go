package blobtxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/blobtx/blobtx"
)

// Scenario is what Explore runs, once per schedule.
type Scenario struct {
	// World is where it takes place. Defaults to Memory().
	World World
	// Options configures the Coordinator of every process.
	Options blobtx.Options
	// Setup runs first, alone and without faults. Nil: nothing.
	Setup func(ctx context.Context, p *Process) error
	// Actors are the processes that run at once: at least one.
	Actors []Actor
	// Passes is the time that may pass on the database's clock, at any moment
	// and in this order, while every process stands still: so a sweeper may act
	// at any moment. Defaults to one IntentTTL and a second. Keep the sum below
	// Quarantine while an upload is in hand: a request that arrives after the
	// quarantine is no fault that blobtx survives.
	Passes []time.Duration
	// Always is checked after every step that changed something. It must not
	// keep state from one call to the next.
	Always func(ctx context.Context, v *View) error
	// AtRest is checked at the end: all processes ended, deadlines passed, swept.
	AtRest func(ctx context.Context, v *View) error
	// Named returns the blobs that rows of the application's own name, beside
	// objects: at rest they are no orphans. Nil: none.
	Named func(ctx context.Context, v *View) ([]string, error)
	// Held says that an intent which at rest waits for a person is no failure:
	// for a scenario that brings a restored database or foreign blobs along.
	Held bool
	// Restore says that the database is copied at one moment and the copy put
	// back at a later one, each of them any; then every actor starts again, as a
	// new process. It is not for SQL. Defaults to NoRestore.
	Restore Restore
	Limits  Limits
}

// refused says what of a scenario makes no sense. An exploration of nothing would
// pass for one that found nothing.
func (s *Scenario) refused() error {
	negative := func(d time.Duration) bool { return d < 0 }
	switch {
	case len(s.Actors) == 0:
		return errors.New("the scenario has no Actors")
	case s.Limits.Faults < 0 || s.Limits.Executions < 0:
		return fmt.Errorf("the scenario has negative Limits: %+v", s.Limits)
	case slices.ContainsFunc(s.Passes, negative):
		return fmt.Errorf("the scenario has negative Passes: %v", s.Passes)
	}
	for i, a := range s.Actors {
		switch {
		case a.Run == nil:
			return fmt.Errorf("the scenario's actor %d, %q, has a nil Run", i, a.Name)
		case a.Restarts < 0:
			return fmt.Errorf("the scenario's actor %d, %q, has %d Restarts", i, a.Name, a.Restarts)
		}
	}
	return nil
}

// sheltered runs a function of the scenario's: what it does to its goroutine is
// an error, and not the end of the exploration.
func sheltered(fn func() error) error {
	err := errors.New("its goroutine was ended, as t.FailNow and require do: return an error instead")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
			}
		}()
		err = fn()
	}()
	<-done
	return err
}

// Limits bounds an exploration.
type Limits struct {
	// Faults is how many faults one execution may have: requests or replies
	// lost, requests delayed, bodies broken, processes that die.
	Faults int
	// Executions ends the exploration, which is then not complete. Defaults to
	// no bound in exhaustive mode and 10,000 in random mode.
	Executions int
	// Seed, if not 0, chooses random schedules instead of all: for scenarios
	// too large to exhaust. It is printed with a failure.
	Seed uint64
	// Trace replays the one schedule that a failure printed.
	Trace string
}

// Actor is one OS process.
type Actor struct {
	// Name stands in traces.
	Name string
	// Restarts is how often it is started again after it died, as a new process
	// that remembers nothing. Defaults to never.
	Restarts int
	// Run is its main function. It reports what its client was told through p;
	// the error it returns stands in the trace and is no failure. Its context
	// ends when the process dies; what it reports after that is not recorded. A
	// panic is a violation, and so is the end of its goroutine by t.FailNow, as
	// package require calls it.
	Run func(ctx context.Context, p *Process) error
}

// View is what Always and AtRest see: both stores as they are, past every
// fault. It must not be changed or kept.
type View struct {
	// DB is a database handle without faults; nil in Memory.
	DB *sql.DB
	// Objects in the order of their keys.
	Objects []blobtx.Object
	// Blobs is every readable blob's bytes by name.
	Blobs map[string][]byte
	// Acked is what clients were told last, by key (Process.Acked).
	Acked map[string]blobtx.Object
}
