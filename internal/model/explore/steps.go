package explore

import "fmt"

// Steps takes the steps out of one state.
type Steps[S comparable] struct {
	table *table[S]
	from  uint32

	naming bool // only look for the words of a step that leads to this state
	to     S
	words  string
}

// Step is one step: where it leads, and its words for a trace. They are put
// together only when they are printed.
func (v *Steps[S]) Step(to S, format string, args ...any) {
	if !v.naming {
		v.table.add(to, v.from)
	} else if v.words == "" && to == v.to {
		v.words = fmt.Sprintf(format, args...)
	}
}
