package fence

import "github.com/blobtx/blobtx/internal/model/explore"

// scenario is where it starts, and how much may go wrong.
type scenario struct {
	name   string
	start  world
	fork   bool // at any moment a copy of the database begins to live
	accept bool // its sweepers begin once AcceptRestore has run
}

func scenarios() []scenario {
	begun := func(faults uint8, procs ...proc) world {
		w := world{marker: 1, dbs: [2]meta{{cur: 1}}, faults: faults, given: 1}
		copy(w.procs[:], procs)
		return w
	}
	sweep := func(db, budget uint8) proc { return proc{db: db, budget: budget} }
	first := begun(3, sweep(0, 2), sweep(0, 2))
	first.marker, first.dbs[0].cur, first.given = 0, 0, 0
	return []scenario{
		// one database, no marker yet
		{name: "first-marker", start: first},
		// one database, three sweepers
		{name: "one-database", start: begun(3, sweep(0, 3), sweep(0, 2), sweep(0, 1))},
		// a copy begins to live while the original lives on
		{name: "fork", start: begun(2, sweep(0, 2), sweep(0, 1), sweep(1, 2), sweep(1, 1)), fork: true},
		// the copy is the one that counts from now on
		{name: "accept-restore", start: begun(2, sweep(0, 2), sweep(0, 1), sweep(1, 2), proc{db: 1, accepts: true, budget: 2}), fork: true, accept: true},
	}
}

// shrink makes the scenario small enough for every test run.
func (s *scenario) shrink() {
	s.start.faults--
	for i := range s.start.procs {
		if p := &s.start.procs[i]; !p.accepts && p.budget == 1 {
			p.budget = 0
		}
	}
}

var mutants = []explore.Mutant{
	{Name: "next-overwritten", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "next-not-recorded", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "next-not-random", Scenario: "fork", Breaks: "both databases go on"},
	{Name: "marker-without-if-match", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "unanswered-write-is-success", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "refused-write-is-wrong-store", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "no-recheck-of-meta", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "finish-without-compare", Scenario: "first-marker", Breaks: "a false alarm: the only"},
	{Name: "strange-marker-is-taken", Scenario: "fork", Breaks: "both databases go on"},
	{Name: "accept-finishes-next", Scenario: "accept-restore", Breaks: "the database that was given up goes on"},
}
