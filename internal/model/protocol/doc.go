// Package protocol explores every interleaving of writers, a deleter and
// sweepers over one object, with requests lost, replies lost, requests that
// land late or twice, crashes, outcomes forgotten after their retention, and a
// database restored from a copy.
//
// It reads from world.go (what there is) over rows.go and blobs.go (what each
// request does) and writer.go and sweeper.go (who sends which request when) to
// steps.go (the faults) and rules.go (what must never be).
package protocol

import (
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Suite is the protocol's scenarios and mutants.
func Suite() explore.Suite {
	s := explore.Suite{Name: "protocol", Mutants: mutants, Run: run}
	for _, sc := range scenarios() {
		s.Scenarios = append(s.Scenarios, sc.name)
	}
	return s
}

func run(name, mutant string, small bool) explore.Result {
	all := scenarios()
	sc := all[slices.IndexFunc(all, func(sc scenario) bool { return sc.name == name })]
	if small {
		sc.shrink()
	}
	return explore.Run(&model{scenario: sc, mutant: mutant})
}

// model is the protocol, or the protocol with one mistake in it, in a scenario.
type model struct {
	scenario
	mutant string
}

func (m *model) is(mutant string) bool { return m.mutant == mutant }

// Start implements explore.Model.
func (m *model) Start() world { return world{procs: m.procs, faults: m.faults} }
