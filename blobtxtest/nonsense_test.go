package blobtxtest

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store/memstore"
)

// Nothing to explore must not look like nothing found.
func TestAScenarioThatMakesNoSenseIsRefused(t *testing.T) {
	one := []Actor{putter("one", "k")}
	for says, s := range map[string]Scenario{
		"no Actors":               {},
		"nil Run":                 {Actors: []Actor{putter("one", "k"), {Name: "two"}}},
		`"two", has -1 Restarts`:  {Actors: []Actor{{Name: "two", Run: one[0].Run, Restarts: -1}}},
		"negative Limits":         {Actors: one, Limits: Limits{Faults: -1}},
		"Executions:-5":           {Actors: one, Limits: Limits{Executions: -5}},
		"negative Passes: [-1h0m": {Actors: one, Passes: []time.Duration{-time.Hour}},
	} {
		t.Run(says, func(t *testing.T) {
			stats, v := Find(s)
			require.NotNil(t, v)
			require.Contains(t, v.What, says)
			require.Zero(t, stats.Executions)
			x := newExplorer(t, s)
			require.Equal(t, v.What, x.explore().String(), "without a trace to replay: nothing was run")
		})
	}
	require.Contains(t, newExplorer(t, Scenario{Actors: one, Limits: Limits{Trace: "x"}}).explore().what,
		"the trace is not of this scenario: decision 1 takes option 33, and there are ")
}

// A failed assertion ends the goroutine that it is in. That ends an actor with a
// violation, which its trace replays, unless the process was dead anyway.
func TestAnActorWhoseGoroutineEndsIsCaught(t *testing.T) {
	ends := Scenario{Actors: []Actor{act("actor", func(ctx context.Context, p *Process) error {
		_, _ = p.Put(ctx, "k", strings.NewReader("x"), nil)
		runtime.Goexit() // as t.FailNow does
		return nil
	})}}
	finds(t, "actor: its goroutine was ended, as t.FailNow and require do", ends)
	_, v := Find(ends)
	require.NotNil(t, v)

	Explore(t, Scenario{Limits: Limits{Faults: 1}, Actors: []Actor{act("actor", func(ctx context.Context, p *Process) error {
		_, _ = p.Put(ctx, "k", strings.NewReader("x"), nil)
		if ctx.Err() != nil {
			runtime.Goexit()
		}
		return nil
	})}})
}

// What the scenario's own functions do to their goroutine is told as a
// violation that names them.
func TestAPanicInTheScenariosChecksIsAViolation(t *testing.T) {
	panics := func(context.Context, *View) error { panic("boom") }
	exits := func(context.Context, *View) error { runtime.Goexit(); return nil }
	actors := []Actor{putter("one", "k")}
	for says, s := range map[string]Scenario{
		"Always: panicked: boom": {Actors: actors, Always: panics},
		"AtRest: panicked: boom": {Actors: actors, AtRest: panics},
		"Named: panicked: boom":  {Actors: actors, Named: func(context.Context, *View) ([]string, error) { panic("boom") }},
	} {
		v := newExplorer(t, s).explore()
		require.NotNil(t, v)
		require.Contains(t, v.what, says)
		require.Contains(t, v.what, "nonsense_test.go", "the stack says where")
		require.Contains(t, v.steps, "one: ")
	}
	finds(t, "Always: its goroutine was ended", Scenario{Actors: actors, Always: exits})
	finds(t, "AtRest: its goroutine was ended", Scenario{Actors: actors, AtRest: exits})
	for says, setup := range map[string]func(context.Context, *Process) error{
		"setup: panicked: boom":           func(context.Context, *Process) error { panic("boom") },
		"setup: its goroutine was ended,": func(context.Context, *Process) error { runtime.Goexit(); return nil },
	} {
		for _, world := range []World{Memory(), Azure()} {
			_, v := Find(Scenario{World: world, Actors: actors, Setup: setup})
			require.NotNil(t, v)
			require.Contains(t, v.What, says)
		}
	}
}

// verdicts is a test that notes what is said of it.
type verdicts struct {
	testing.TB
	errs []string
}

func (v *verdicts) Helper()                           {}
func (v *verdicts) Errorf(format string, args ...any) { v.errs = append(v.errs, format) }

// t.Context ends before Cleanup, and that is where a check at the end belongs.
func TestCheckInCleanup(t *testing.T) {
	rows, blobs := memstore.NewRows(nil), memstore.NewBlobs(nil)
	var good, bad verdicts
	t.Run("of a test", func(t *testing.T) {
		good.TB, bad.TB = t, t
		c, err := blobtx.New(rows, blobs, nil)
		require.NoError(t, err)
		o, err := c.Put(t.Context(), "k", strings.NewReader("x"), nil)
		require.NoError(t, err)
		t.Cleanup(func() {
			require.Error(t, t.Context().Err())
			Check(&good, rows, blobs)
			blobs.Remove(o.Blob.Name)
			Check(&bad, rows, blobs)
		})
	})
	require.Empty(t, good.errs)
	require.Len(t, bad.errs, 1)
}

func TestATraceThatGoesOnIsRefused(t *testing.T) {
	s := Scenario{Actors: []Actor{{Name: "a", Run: func(ctx context.Context, p *Process) error {
		_, err := p.Put(ctx, "k", strings.NewReader("x"), nil)
		return err
	}}}}
	s.Limits.Trace = strings.Repeat("0", 500)
	v := newExplorer(t, s).explore()
	require.NotNil(t, v)
	require.Contains(t, v.what, "of another one")
}
