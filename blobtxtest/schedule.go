package blobtxtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/blobtx/blobtx/store/faultstore"
)

// schedule is a list of choices: the first are given, the rest is chosen as it
// goes and recorded. What is not given is 0, or random.
type schedule struct {
	given  int // how many of taken were given
	at     int
	taken  []choice
	random *rand.Rand
}

// choice is one of n options.
type choice struct{ one, n uint16 }

// beyond reports whether the next choice is not a given one.
func (s *schedule) beyond() bool { return s.at >= s.given }

// choose returns which of the options to take.
func (s *schedule) choose(options []option) (int, error) {
	n := len(options)
	if !s.beyond() {
		c := &s.taken[s.at]
		s.at++
		if c.n == 0 { // of a trace
			if int(c.one) >= n {
				return 0, fmt.Errorf("the trace is not of this scenario: decision %d takes option %d, and there are %d", s.at, c.one, n)
			}
			c.n = uint16(n)
		}
		if int(c.n) != n || int(c.one) >= n {
			return 0, fmt.Errorf("the scenario is not repeatable: at decision %d there were %d options and now there are %d", s.at, c.n, n)
		}
		return int(c.one), nil
	}
	one := 0
	if s.random != nil {
		one = s.weighted(options)
	}
	s.taken = append(s.taken[:s.at], choice{uint16(one), uint16(n)})
	s.at++
	return one, nil
}

// weighted prefers steps to faults, so that random executions get somewhere.
func (s *schedule) weighted(options []option) int {
	normal := 0
	for normal < len(options) && options[normal].kind != inject {
		normal++
	}
	if normal == 0 || normal < len(options) && s.random.IntN(8) == 0 {
		return normal + s.random.IntN(len(options)-normal)
	}
	return s.random.IntN(normal)
}

// next moves to the next schedule in depth-first order, or reports that there
// is none.
func (s *schedule) next() bool {
	for n := s.at; n > 0; n-- {
		if c := &s.taken[n-1]; c.one+1 < c.n {
			c.one++
			s.taken, s.given, s.at = s.taken[:n], n, 0
			return true
		}
	}
	return false
}

// again replays what was taken.
func (s *schedule) again() schedule {
	taken := append([]choice(nil), s.taken[:s.at]...)
	return schedule{given: len(taken), taken: taken}
}

// String writes the choices, one character each, a longer one in brackets;
// zeros at the end are left out.
func (s *schedule) String() string {
	var b strings.Builder
	for _, c := range s.taken[:s.at] {
		if c.one < 36 {
			b.WriteString(strconv.FormatUint(uint64(c.one), 36))
		} else {
			fmt.Fprintf(&b, "(%d)", c.one)
		}
	}
	if text := strings.TrimRight(b.String(), "0"); text != "" {
		return text
	}
	return "0"
}

func parseTrace(text string) (schedule, error) {
	var s schedule
	for i := 0; i < len(text); i++ {
		digits, base := text[i:i+1], 36
		if text[i] == '(' {
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				return s, fmt.Errorf("trace %q: no closing bracket", text)
			}
			digits, base = text[i+1:i+end], 10
			i += end
		}
		one, err := strconv.ParseUint(digits, base, 16)
		if err != nil {
			return s, fmt.Errorf("trace %q: %w", text, err)
		}
		s.taken = append(s.taken, choice{one: uint16(one)})
	}
	s.given = len(s.taken)
	return s, nil
}

// option is one thing that may happen next.
type option struct {
	kind  optionKind
	call  *call
	fault faultstore.Kind
	late  int
}

type optionKind byte

const (
	step     optionKind = iota // a held call goes on
	deliver                    // a late request arrives
	pass                       // time passes on the database's clock
	wait                       // local time passes, until somebody wakes
	rest                       // at rest: what is still on its way stays there for now
	copyRows                   // the database is copied
	putBack                    // the copy is put back
	inject                     // a fault
)

// next lists what may happen, faults last, so that the first option is always
// the plain one.
func (e *execution) next() []option {
	e.options = e.options[:0]
	calls := e.calls()
	for _, r := range e.procs {
		r.waiting = 0
	}
	for _, c := range calls {
		e.options = append(e.options, option{kind: step, call: c})
		if c.op.Store != asides && !c.late {
			c.r.waiting++
		}
	}
	for i := range e.late {
		e.options = append(e.options, option{kind: deliver, late: i})
	}
	sleepers, alive := false, false
	for _, r := range e.procs {
		if !r.crashed && !r.buried {
			alive = true
			sleepers = sleepers || r.waiting == 0
		}
	}
	if alive && len(e.passes) > 0 {
		e.options = append(e.options, option{kind: pass})
	}
	if sleepers {
		e.options = append(e.options, option{kind: wait})
	}
	e.restoring.options(e, calls)
	if !alive && len(calls) == 0 {
		if len(e.late) > 0 {
			e.options = append(e.options, option{kind: rest})
		}
		return e.options
	}
	if e.faults > 0 {
		e.injections(calls)
	}
	return e.options
}

func (e *execution) injections(calls []*call) {
	var died *running // calls of one process stand together
	for _, c := range calls {
		if c.late || c.r.buried {
			continue
		}
		add := func(kind faultstore.Kind) {
			e.options = append(e.options, option{kind: inject, call: c, fault: kind})
		}
		if !c.gate && !isMoment(&c.op) {
			add(faultstore.FailBefore)
			if c.op.Write {
				add(faultstore.LoseReply)
				add(faultstore.Late)
			}
			if c.op.Parts {
				add(faultstore.Midway)
			}
		}
		if c.r != died {
			died = c.r
			add(faultstore.Die)
		}
	}
}
