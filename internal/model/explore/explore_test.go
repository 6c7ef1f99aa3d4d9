package explore

import (
	"slices"
	"testing"
)

// counters is two processes that each read a shared counter and write it back
// plus one.
type counters struct{ atomic bool }

type counted struct {
	shared uint8
	read   [2]uint8
	at     [2]uint8
}

func (c counters) Start() counted { return counted{} }

func (c counters) Steps(s counted, next *Steps[counted]) bool {
	atRest := true
	for i, at := range s.at {
		to := s
		to.at[i]++
		switch {
		case at == 2:
			continue
		case at == 0 && c.atomic:
			to.at[i], to.shared = 2, s.shared+1
			next.Step(to, "P%d adds one", i)
		case at == 0:
			to.read[i] = s.shared
			next.Step(to, "P%d reads %d", i, s.shared)
		default:
			to.shared, to.read[i] = s.read[i]+1, 0
			next.Step(to, "P%d writes %d", i, to.shared)
		}
		atRest = false
	}
	return atRest
}

func (c counters) Broken(counted) string { return "" }

func (c counters) BrokenAtRest(s counted) string {
	if s.shared != 2 {
		return "an addition was lost"
	}
	return ""
}

func TestTheShortestTraceIsFound(t *testing.T) {
	r := Run(counters{})
	if r.Broken != "an addition was lost" {
		t.Fatalf("%+v", r)
	}
	if want := []string{"P0 reads 0", "P1 reads 0", "P0 writes 1", "P1 writes 1"}; !slices.Equal(r.Trace, want) {
		t.Fatalf("trace %q", r.Trace)
	}
}

func TestEveryStateIsVisitedOnce(t *testing.T) {
	if r := Run(counters{atomic: true}); r.Broken != "" || r.States != 4 || r.Trace != nil {
		t.Fatalf("%+v", r)
	}
}

// grid has n*n states, each reached by many ways.
type grid struct{ n uint16 }

func (g grid) Start() [2]uint16 { return [2]uint16{} }

func (g grid) Steps(s [2]uint16, next *Steps[[2]uint16]) bool {
	for i := range s {
		to := s
		if to[i]++; to[i] < g.n {
			next.Step(to, "axis %d", i)
		}
	}
	return false
}

func (g grid) Broken(s [2]uint16) string {
	if s[0] == g.n-1 && s[1] == g.n-1 {
		return "the far corner"
	}
	return ""
}

func (g grid) BrokenAtRest([2]uint16) string { return "" }

func TestTheTableGrows(t *testing.T) {
	const n = 300
	r := Run(grid{n})
	if r.States != n*n || r.Broken != "the far corner" || len(r.Trace) != 2*(n-1) {
		t.Fatalf("%d states, %d steps, %q", r.States, len(r.Trace), r.Broken)
	}
}
