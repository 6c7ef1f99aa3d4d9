// Mutants shows that the tests notice a wrong protocol: each mutant is the code
// of this project with one mistake in it, and names the test that must fail on
// it.
//
//	go run ./internal/mutants              every mutant
//	go run ./internal/mutants -run fence   those whose mistake matches
//	go run ./internal/mutants -slice 4     this many, spread over the list
//
// The code as it is comes first and must pass. Then each mutant is compiled in
// the place of its file, by go's -overlay, and nothing in the tree is touched. It
// is caught when exactly the named test fails, and says what the mutant breaks;
// one that does not compile or fails otherwise is not. The last line is for
// machines, and the exit status is 1 when a mutant was not caught.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"
)

func main() {
	match := flag.String("run", "", "only the mutants whose mistake matches this `regexp`")
	slice := flag.Int("slice", 0, "only this many, spread over the list")
	jobs := flag.Int("p", runtime.NumCPU(), "how many at a time")
	flag.Parse()
	if flag.NArg() > 0 || *jobs < 1 || *slice < 0 {
		flag.Usage()
		os.Exit(2)
	}
	pattern, err := regexp.Compile(*match)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	os.Exit(run(os.Stdout, root, chosen(all(), pattern, *slice), *jobs))
}

// chosen returns the mutants that match, or n of them as far apart as can be.
func chosen(mutants []mutant, pattern *regexp.Regexp, n int) []mutant {
	var matching []mutant
	for _, m := range mutants {
		if pattern.MatchString(m.mistake) {
			matching = append(matching, m)
		}
	}
	if n == 0 || n >= len(matching) {
		return matching
	}
	spread := make([]mutant, n)
	for i := range spread {
		spread[i] = matching[i*len(matching)/n]
	}
	return spread
}

func run(out io.Writer, root string, mutants []mutant, jobs int) (status int) {
	caught := 0
	defer func() {
		fmt.Fprintf(out, "mutants=%d caught=%d\n", len(mutants), caught)
		if caught != len(mutants) || caught == 0 {
			status = 1
		}
	}()
	began := time.Now()
	tests, err := unmutated(root, mutants)
	if err != nil {
		fmt.Fprintf(out, "the code as it is does not pass: %v\n", err)
		return 1
	}
	fmt.Fprintf(out, "the code as it is: %d tests pass (%.0f s)\n", tests, time.Since(began).Seconds())
	table := newTable(out, mutants)
	for i, v := range verdicts(root, mutants, jobs) {
		if v.caught {
			caught++
		}
		table.line(mutants[i], v)
	}
	return 0
}

// verdicts tries the mutants side by side and yields what became of each, in
// order, as soon as it is known.
func verdicts(root string, mutants []mutant, jobs int) func(yield func(int, verdict) bool) {
	return func(yield func(int, verdict) bool) {
		results := make([]chan verdict, len(mutants))
		places := make(chan struct{}, jobs)
		for i := range results {
			results[i] = make(chan verdict, 1)
		}
		go func() {
			for i, m := range mutants {
				places <- struct{}{}
				go func() {
					defer func() { <-places }()
					results[i] <- try(root, m)
				}()
			}
		}()
		for i := range results {
			if !yield(i, <-results[i]) {
				return
			}
		}
	}
}

// table prints aligned lines as they come.
type table struct {
	out                 io.Writer
	mistake, file, test int
}

func newTable(out io.Writer, mutants []mutant) *table {
	t := &table{out: out}
	for _, m := range mutants {
		t.mistake = max(t.mistake, len(m.mistake))
		t.file = max(t.file, len(m.file))
		t.test = max(t.test, len(m.test))
	}
	return t
}

func (t *table) line(m mutant, v verdict) {
	what := v.what
	if !v.caught {
		what = "NOT CAUGHT: " + what
	}
	if v.trace != "" {
		what += ` [trace "` + v.trace + `"]`
	}
	fmt.Fprintf(t.out, "%-*s  %-*s  %-*s  %s\n", t.mistake, m.mistake, t.file, m.file, t.test, m.test, what)
}
