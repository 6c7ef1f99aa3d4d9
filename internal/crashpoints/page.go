package crashpoints

import (
	"fmt"
	"strings"
	"testing"

	"github.com/blobtx/blobtx/store/faultstore"
)

// Update is the command that writes the page.
const Update = "go test ./internal/crashpoints -update"

const intro = `# Crash points

<!-- Written by ` + "`" + Update + "`" + ` (and by make explore). Do not edit. -->

One table per operation, one row per request that the operation makes to either
store: *rows* is the database, *tx* a transaction of the caller's own, *azure* an
HTTP request of ` + "`azstore`" + `, whose SDK tries a request twice. The requests are
counted by running the operation, and every cell is an execution of the real
code: this request met this fault, every other request went through.

- **crash before it**: the process dies as it is about to send the request.
- **request lost**: the store never sees it; the caller's code gets an error.
- **reply lost**: the store applies it; the caller's code gets the same error.
- **request late**: the caller's code gets the same error; the request arrives
  when the operation has ended. (Each was also run with the arrival after a first
  sweep; where that ends otherwise, the cell says so.)

A request that changes nothing has no reply to lose and cannot be late: only its
loss counts. A statement inside a transaction is rolled back with the connection
that breaks, so there too the rest is as the loss.

A cell says what is **left** right after that: after the crash, after the loss and
before the caller's code tries again, after the late arrival. Then what the
caller was **told** in the end, and after the arrow what is left once deadlines
have passed and a sweeper has run. An *object* is a row that readers see;
*pending* and *committed* are the blob's tag; *given up* is recorded for deletion.
Blocks that are only *staged* are no blob: nobody can read them, and the service
discards them after a week. [How the states follow each other](states.md).
`

var kinds = []faultstore.Kind{faultstore.Die, faultstore.FailBefore, faultstore.LoseReply, faultstore.Late}

// page runs everything and returns docs/crash-points.md, what states were gone
// through, and what must not be.
func page(t *testing.T) (text string, seen *moves, executions int, problems []string) {
	var b strings.Builder
	b.WriteString(intro)
	seen = newMoves()
	for _, op := range operations() {
		run := func(fault faultAt) outcome {
			executions++
			out := execute(t, &op, fault, seen)
			for _, p := range out.problems {
				problems = append(problems, fmt.Sprintf("%s, request %d, %s: %s", op.name, fault.at+1, fault.kind, p))
			}
			return out
		}
		plain := run(faultAt{at: -1})
		fmt.Fprintf(&b, "\n## %s\n\n%s Without a fault: %s.\n\n", op.name, op.about, plain.sentence())
		b.WriteString("| | request | crash before it | request lost | reply lost | request late |\n| --- | --- | --- | --- | --- | --- |\n")
		for at, asked := range plain.requests {
			fmt.Fprintf(&b, "| %d | %s: %s |", at+1, asked.Store, asked.Name)
			for _, kind := range kinds {
				if !asked.Write && kind != faultstore.Die && kind != faultstore.FailBefore {
					b.WriteString(" as lost |")
					continue
				}
				out := run(faultAt{at: at, kind: kind})
				if kind == faultstore.Late {
					out.afterwards = run(faultAt{at: at, kind: kind, after: true}).swept
				}
				if len(out.requests) <= at || out.requests[at] != asked {
					problems = append(problems, fmt.Sprintf("%s, request %d is another one in another execution: not repeatable", op.name, at+1))
				}
				fmt.Fprintf(&b, " %s |", out.cell())
			}
			b.WriteByte('\n')
		}
	}
	return b.String(), seen, executions, problems
}

func (o *outcome) cell() string {
	text := o.left
	if o.told != "" {
		text += "<br>told: " + o.told
	}
	text += "<br>→ " + o.swept
	if o.afterwards != "" && o.afterwards != o.swept {
		text += "<br>or, after a sweep → " + o.afterwards
	}
	return text
}

func (o *outcome) sentence() string {
	return fmt.Sprintf("%d requests; left: %s; told: %s; after the sweep: %s", len(o.requests), o.left, o.told, o.swept)
}
