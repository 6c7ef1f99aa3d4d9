// Model explores the protocols of this project as explicit-state models: every
// interleaving, with faults anywhere, within the bounds of each scenario.
//
//	go run ./internal/model all                   every scenario and every mutant
//	go run ./internal/model mutants               every mutant: the protocol with one mistake in it
//	go run ./internal/model SCENARIO [MUTANT]     one scenario; a violation is printed as a trace
//	go run ./internal/model list                  the names
//
// With -small before these, scenarios run in the bounds of the tests. The last
// line of all and mutants is for machines, and the exit status is 1 when a rule
// was broken or a mutant was not caught.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/blobtx/blobtx/internal/model/explore"
	"github.com/blobtx/blobtx/internal/model/fence"
	"github.com/blobtx/blobtx/internal/model/protocol"
	"github.com/blobtx/blobtx/internal/model/publish"
)

func suites() []explore.Suite {
	return []explore.Suite{protocol.Suite(), publish.Suite(), fence.Suite()}
}

const usage = "usage: model [-small] all | mutants | list | SCENARIO [MUTANT]"

func main() {
	small := flag.Bool("small", false, "the bounds of the tests")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	// The states are nearly all there is in memory, and stay until the end of
	// a scenario: to collect often costs nothing and keeps the peak low.
	debug.SetGCPercent(10)
	os.Exit(run(os.Stdout, os.Stderr, *small, flag.Args()))
}

func run(out, complaints io.Writer, small bool, args []string) (status int) {
	var t tally
	switch {
	case len(args) == 1 && args[0] == "all":
		t.scenarios(out, small)
		t.mutants(out)
	case len(args) == 1 && args[0] == "mutants":
		t.mutants(out)
	case len(args) == 1 && args[0] == "list":
		list(out)
		return 0
	case len(args) == 1:
		return one(out, complaints, small, args[0], "")
	case len(args) == 2:
		return one(out, complaints, small, args[0], args[1])
	default:
		fmt.Fprintln(complaints, usage)
		return 2
	}
	fmt.Fprintf(out, "model states=%d violations=%d mutants=%d caught=%d\n", t.states, t.violations, t.tried, t.caught)
	if t.violations > 0 || t.caught != t.tried {
		return 1
	}
	return 0
}

type tally struct{ states, violations, tried, caught int }

func (t *tally) scenarios(out io.Writer, small bool) {
	var jobs []job
	for _, s := range suites() {
		for _, scenario := range s.Scenarios {
			jobs = append(jobs, job{s, scenario, "", small, ""})
		}
	}
	for j, r := range results(jobs) {
		t.states += r.States
		verdict := "nothing violated"
		if r.Broken != "" {
			t.violations++
			verdict = "violated: " + r.Broken
		}
		fmt.Fprintf(out, "%-10s %-20s %9d states  %s\n", j.suite.Name, j.scenario, r.States, verdict)
		printTrace(out, r)
	}
}

// mutants are explored in small bounds always: what is caught only in larger
// ones is not caught by the tests.
func (t *tally) mutants(out io.Writer) {
	var jobs []job
	for _, s := range suites() {
		for _, m := range s.Mutants {
			jobs = append(jobs, job{s, m.Scenario, m.Name, true, m.Breaks})
		}
	}
	for j, r := range results(jobs) {
		t.tried++
		verdict := "NOT CAUGHT"
		if j.caught(r) {
			t.caught++
			verdict = r.Broken
		}
		fmt.Fprintf(out, "%-10s %-34s in %s, %d steps: %s\n", j.suite.Name, j.mutant, j.scenario, len(r.Trace), verdict)
	}
}

// one prints one exploration; the mutant need not be one that this scenario
// catches.
func one(out, complaints io.Writer, small bool, scenario, mutant string) int {
	for _, s := range suites() {
		if !slices.Contains(s.Scenarios, scenario) {
			continue
		}
		if mutant != "" && !slices.ContainsFunc(s.Mutants, func(m explore.Mutant) bool { return m.Name == mutant }) {
			fmt.Fprintf(complaints, "model: %s has no mutant %q\n", s.Name, mutant)
			return 2
		}
		r := s.Run(scenario, mutant, small)
		if r.Broken != "" {
			fmt.Fprintln(out, "violated:", r.Broken)
			printTrace(out, r)
			return 1
		}
		fmt.Fprintf(out, "%s: %d states, nothing violated\n", scenario, r.States)
		return 0
	}
	fmt.Fprintf(complaints, "model: no scenario %q\n", scenario)
	return 2
}

func list(out io.Writer) {
	for _, s := range suites() {
		fmt.Fprintf(out, "%s\n  scenarios: %s\n  mutants:\n", s.Name, strings.Join(s.Scenarios, " "))
		for _, m := range s.Mutants {
			fmt.Fprintf(out, "    %-34s caught in %s\n", m.Name, m.Scenario)
		}
	}
}

func printTrace(out io.Writer, r explore.Result) {
	for _, step := range r.Trace {
		fmt.Fprintln(out, "   ", step)
	}
}
