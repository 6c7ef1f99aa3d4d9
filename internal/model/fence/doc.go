// Package fence explores the token by which a database notices that a copy of
// it lives on: one database, or two forked from one, several sweepers each, and
// one marker blob between them. Requests are lost, answered in vain, late or
// doubled, and processes crash.
//
// The marker holds a random token; the database holds cur, the token that it
// knows there, and next, the one that it is about to write. Each sweeper
// advances the token before its first deletion, and then once a minute.
//
// It reads from world.go (what there is) over advance.go (the steps of one
// advance) to steps.go (the faults) and rules.go.
package fence

import (
	"slices"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// Suite is the scenarios of the fence token, and the mutants.
func Suite() explore.Suite {
	s := explore.Suite{Name: "fence", Mutants: mutants, Run: run}
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
