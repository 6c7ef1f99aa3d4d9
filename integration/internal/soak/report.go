//go:build unix

package soak

import (
	"fmt"
	"io"
	"strings"
)

// Report is what came of a run.
type Report struct {
	Kills   int
	Minutes float64 // of work, without start and judgement
	Acked   int     // operations that clients were told are done
	Reads   int     // reads that showed an object's bytes
	Clients []Tally // of all but the sweepers

	Dangling int // objects whose blob is missing or different
	Orphans  int // blobs that nothing names
	Lost     int // acknowledged and not there, or gone though nobody asked for it
	Lies     int // answers, and things seen by readers, that the history contradicts
	Owed     int // rows that wait for somebody after every deadline has passed
	Findings []string
}

// Tally is one client through all its lives.
type Tally struct {
	Name                           string
	Acked, Refused, Unknown, Reads int
	Unheard                        int // asked, and killed before the answer was written down
}

// done is what the client got done: reads, for one who only reads.
func (t Tally) done() int {
	if isReader(t.Name) {
		return t.Reads
	}
	return t.Acked
}

func isReader(name string) bool { return strings.HasPrefix(name, "reader") }

// AckedPerClientMin is what the slowest of the clients that write was
// acknowledged, per minute.
func (r Report) AckedPerClientMin() float64 {
	least := r.Acked
	for _, t := range r.Clients {
		if !isReader(t.Name) {
			least = min(least, t.Acked)
		}
	}
	return float64(least) / max(r.Minutes, 1e-9)
}

// Passed reports whether there is no fault, and every client got something done:
// those that never get an answer prove nothing.
func (r Report) Passed() bool {
	for _, t := range r.Clients {
		if t.done() == 0 {
			return false
		}
	}
	return r.Dangling+r.Orphans+r.Lost+r.Lies+r.Owed == 0
}

// Print writes every client's share, the findings, and the closing line.
func (r Report) Print(w io.Writer) {
	for _, t := range r.Clients {
		mark := ""
		if t.done() == 0 {
			mark = "   GOT NOTHING DONE"
		}
		fmt.Fprintf(w, "%-12s acked %5d   refused %5d   unknown %4d   unheard %4d   reads %5d%s\n",
			t.Name, t.Acked, t.Refused, t.Unknown, t.Unheard, t.Reads, mark)
	}
	for i, finding := range r.Findings {
		if i == 50 {
			fmt.Fprintf(w, "... and %d more\n", len(r.Findings)-i)
			break
		}
		fmt.Fprintln(w, finding)
	}
	fmt.Fprintf(w, "kills=%d acked=%d reads=%d acked_per_client_min=%.1f dangling=%d orphans=%d lost=%d lies=%d\n",
		r.Kills, r.Acked, r.Reads, r.AckedPerClientMin(), r.Dangling, r.Orphans, r.Lost, r.Lies)
}
