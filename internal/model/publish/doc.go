// Package publish explores keeping a stable blob name equal to an object's
// current bytes: every commit of an object that has a name records the debt,
// any number of publishers pay it with ETag-guarded writes, and an older one
// never wins. Publish and Unpublish are transactions of their own, which race
// the commits.
//
// It reads from world.go (what there is) over rows.go (transactions and debts)
// and publisher.go (who pays) to steps.go and rules.go.
package publish

import (
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Suite is the scenarios of a published name, and the mutants.
func Suite() explore.Suite {
	s := explore.Suite{Name: "publish", Mutants: mutants, Run: run}
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
func (m *model) Start() world { return m.start }
