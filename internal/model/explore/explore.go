// Package explore visits every state that a small model of a protocol can
// reach, and finds the shortest way to one that breaks a rule.
//
// It is exhaustive and exact: states are compared whole, none is left out, and
// nothing is drawn at random. What a model leaves out it cannot find.
package explore

import "slices"

// Model is a protocol in one scenario, or the protocol with one mistake in it.
// S holds everything that can differ: two equal states have the same future.
type Model[S comparable] interface {
	// Start is the state before the first step.
	Start() S

	// Steps takes each step that can come next from s, and reports whether
	// s is at rest: nobody has anything left to do that must be done.
	Steps(s S, next *Steps[S]) (atRest bool)

	// Broken names the rule that s breaks, "" if it breaks none.
	Broken(s S) string

	// BrokenAtRest is asked of states at rest, after Broken.
	BrokenAtRest(s S) string
}

// Result is what an exploration found.
type Result struct {
	States int      // visited
	Broken string   // the first rule broken, by the fewest steps; "": none
	Trace  []string // the steps to it
}

// Run visits every state of m, in the order of their distance from the start,
// until one breaks a rule.
func Run[S comparable](m Model[S]) Result {
	var (
		states = newTable[S]()
		steps  = &Steps[S]{table: states}
	)
	states.add(m.Start(), 0)
	for i := uint32(0); i < states.len; i++ {
		s := states.at(i).state
		broken := m.Broken(s)
		if broken == "" {
			steps.from = i
			if m.Steps(s, steps) {
				broken = m.BrokenAtRest(s)
			}
		}
		if broken != "" {
			return Result{int(states.len), broken, trace(m, states, i)}
		}
	}
	return Result{States: int(states.len)}
}

// trace finds the words for the way to a state, which were not kept: it takes
// the steps again.
func trace[S comparable](m Model[S], states *table[S], last uint32) []string {
	var words []string
	for i := last; i != 0; {
		n := states.at(i)
		again := &Steps[S]{to: n.state, naming: true}
		m.Steps(states.at(n.before).state, again)
		words = append(words, again.words)
		i = n.before
	}
	slices.Reverse(words)
	return words
}
