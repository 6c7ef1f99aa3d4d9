package publish

import "github.com/blobtx/blobtx/internal/model/explore"

// scenario is where it starts, and how much may go wrong.
type scenario struct {
	name  string
	start world
}

func scenarios() []scenario {
	pubs := func(a, b uint8) [2]publisher { return [2]publisher{{budget: a}, {budget: b}} }
	published := world{ // version 1 is published, and the name shows it
		row: row{version: 1, named: true}, versions: 1, stamps: 1, alias: 1, newest: 1,
		debt: debt{paid, 1}, faults: 2, pubs: pubs(3, 3),
	}
	with := func(w world, scripts ...[5]change) world {
		for i, s := range scripts {
			w.txs[i].script = s
		}
		return w
	}
	unpublished := world{row: row{version: 1}, versions: 1, faults: 2, pubs: pubs(3, 3)}
	return []scenario{
		// an object gets its name while it is replaced
		{"publish", with(unpublished, [5]change{replace, replace, remove}, [5]change{publish})},
		// the name follows; the object goes and comes back without a name
		{"republish", with(published, [5]change{replace, remove, create, replace}, [5]change{publish})},
		// the name is given up and taken again
		{"unpublish", with(published, [5]change{replace, replace}, [5]change{unpublish, publish})},
	}
}

// shrink makes the scenario small enough for every test run.
func (s *scenario) shrink() {
	s.start.faults--
	s.start.pubs[0].budget, s.start.pubs[1].budget = 2, 1
}

var mutants = []explore.Mutant{
	{Name: "row-first", Scenario: "publish", Breaks: "the published name went back"},
	{Name: "no-if-match", Scenario: "publish", Breaks: "the published name went back"},
	{Name: "finish-ignores-version", Scenario: "publish", Breaks: "the published name shows another version"},
	{Name: "gone-is-final", Scenario: "publish", Breaks: "the object is gone or not published"},
	{Name: "publish-does-not-write-row", Scenario: "publish", Breaks: "the published name shows another version"},
	{Name: "debt-by-update", Scenario: "publish", Breaks: "the published name shows another version"},
	{Name: "create-overwrites", Scenario: "publish", Breaks: "the published name went back"},
	{Name: "reads-the-key-only", Scenario: "republish", Breaks: "the object is gone or not published"},
	{Name: "unpublish-leaves-no-debt", Scenario: "unpublish", Breaks: "the object is gone or not published"},
	{Name: "right-is-left-alone", Scenario: "unpublish", Breaks: "the published name shows another version"},
	{Name: "stamp-starts-again", Scenario: "unpublish", Breaks: "the published name shows another version"},
}
