package blobtxtest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/blobtx/blobtx/store/faultstore"
)

// log is the readable form of one execution, kept only when it is replayed for
// a person. A nil log takes everything and keeps nothing.
type log struct {
	mu    sync.Mutex
	lines []*line
}

// line is one step and what came of it.
type line struct {
	log  *log
	who  string
	what string
	how  string
	text string
}

var nowhere = &line{}

func (l *log) add(who, what, subject string) *line {
	if l == nil {
		return nowhere
	}
	if subject != "" {
		what += " " + subject
	}
	n := &line{log: l, who: who, what: what}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, n)
	return n
}

// call begins the line of a held call.
func (l *log) call(c *call, kind faultstore.Kind) {
	if l == nil {
		c.line = nowhere
		return
	}
	what := c.op.Name
	if c.op.Store == "sql" {
		what = brief(what)
	}
	if c.gate {
		what = "the lock is free for: " + what
	}
	c.line = l.add(c.r.name, what, c.op.Subject)
	if kind != faultstore.Proceed {
		c.line.how = kind.String()
	}
}

// brief is the beginning of a statement, in one line.
func brief(query string) string {
	const enough = 80
	query = strings.Join(strings.Fields(query), " ")
	if len(query) <= enough {
		return query
	}
	return strings.ToValidUTF8(query[:enough], "") + "…"
}

// result completes the line. It is called by the goroutine that took the step.
func (n *line) result(err error) {
	if n == nil || n.log == nil {
		return
	}
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.text = "ok"
	if err != nil {
		n.text = err.Error()
	}
}

// say completes the line with what came of it.
func (n *line) say(result any) {
	if n.log == nil {
		return
	}
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.text = fmt.Sprintf("%+v", result)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for i, n := range l.lines {
		fmt.Fprintf(&b, "%4d  ", i+1)
		if n.who != "" {
			fmt.Fprintf(&b, "%s: ", n.who)
		}
		b.WriteString(n.what)
		for _, more := range []string{n.how, n.text} {
			if more != "" {
				b.WriteString(": ")
				b.WriteString(more)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
