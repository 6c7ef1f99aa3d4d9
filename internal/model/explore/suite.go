package explore

// Suite is a protocol with the scenarios it is explored in, and the mistakes
// that those must find.
type Suite struct {
	Name      string
	Scenarios []string
	Mutants   []Mutant

	// Run explores one scenario. Mutant "" is the protocol itself.
	Run func(scenario, mutant string, small bool) Result
}

// Mutant is the protocol with one mistake in it.
type Mutant struct {
	Name     string
	Scenario string // where it is caught
	Breaks   string // the rule that it breaks there: the beginning of its text
}
