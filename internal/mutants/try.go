package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is the code with one mistake in it.
type mutant struct {
	mistake  string // its name
	file     string // that has it
	old, new string // old text, which occurs once, and what stands in its place

	pkg    string // whose tests are run
	test   string // that must fail, and no other; with its subtests, "Test/a case"
	faults int    // of a scenario, in one execution
	breaks string // what the test must say, in one line
}

// verdict is what became of a mutant.
type verdict struct {
	caught bool
	what   string // the line that tells the violation, or why it was not caught
	trace  string // of the execution that shows it, if Explore found it
}

// mutate returns the file with the mistake.
func (m mutant) mutate(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return nil, fmt.Errorf("%s: the text to replace occurs %d times: %q", m.file, n, m.old)
	}
	return []byte(strings.Replace(string(source), m.old, m.new, 1)), nil
}

// try runs the mutant's test on it.
func try(root string, m mutant) verdict {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return verdict{what: err.Error()}
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return verdict{what: err.Error()}
	}
	output, passed, err := goTest(root, m.faults, "-overlay", overlay, "-run", pattern(m.test), "./"+m.pkg)
	if err != nil {
		return verdict{what: err.Error()}
	}
	return m.judge(output, passed)
}

// overlay writes the mutated file and what go's -overlay reads, into dir.
func (m mutant) overlay(root, dir string) (string, error) {
	source, err := m.mutate(root)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, source, 0o600), os.WriteFile(overlay, text, 0o600))
}

var (
	failLine  = regexp.MustCompile(`(?m)^\s*--- FAIL: (.*) \([0-9.]+s\)$`)
	passLine  = regexp.MustCompile(`(?m)^\s*--- PASS: (.*) \([0-9.]+s\)$`)
	traceText = regexp.MustCompile(`Trace: "([^"]+)"`)
	position  = regexp.MustCompile(`^\s*\S+\.go:\d+: `)
	wrong     = regexp.MustCompile(`(?m)^(panic: |.*\.go:\d+:\d+: ).*$`)
)

// judge reads the output of go test.
func (m mutant) judge(output string, passed bool) verdict {
	failed := leaves(failLine, output)
	switch {
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return verdict{what: "it does not compile: " + wrong.FindString(output)}
	case passed:
		return verdict{what: "the test passes"}
	case len(failed) == 0:
		return verdict{what: "the test does not end: " + wrong.FindString(output)}
	case len(failed) > 1 || failed[0] != rewritten(m.test):
		return verdict{what: "other tests fail: " + strings.Join(failed, ", ")}
	}
	for line := range strings.Lines(output) {
		line = strings.Join(strings.Fields(position.ReplaceAllString(line, "")), " ")
		if strings.Contains(line, m.breaks) {
			v := verdict{caught: true, what: line}
			if trace := traceText.FindStringSubmatch(output); trace != nil {
				v.trace = trace[1]
			}
			return v
		}
	}
	return verdict{what: fmt.Sprintf("the test does not say %q", m.breaks)}
}

// leaves returns the tests on such lines that have no subtests among them.
func leaves(lines *regexp.Regexp, output string) []string {
	var names []string
	for _, match := range lines.FindAllStringSubmatch(output, -1) {
		names = append(names, match[1])
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// unmutated runs every test of the mutants on the code as it is, and returns how
// many those were. One that is not there has not passed.
func unmutated(root string, mutants []mutant) (int, error) {
	type group struct {
		pkg    string
		faults int
	}
	groups := make(map[group][]string)
	var order []group
	for _, m := range mutants {
		g := group{m.pkg, m.faults}
		if groups[g] == nil {
			order = append(order, g)
		}
		if !slices.Contains(groups[g], m.test) {
			groups[g] = append(groups[g], m.test)
		}
	}
	total := 0
	for _, g := range order {
		tests := groups[g]
		total += len(tests)
		patterns := make([]string, len(tests))
		for i, test := range tests {
			patterns[i] = pattern(test)
		}
		output, passed, err := goTest(root, g.faults, "-v", "-run", strings.Join(patterns, "|"), "./"+g.pkg)
		switch {
		case err != nil:
			return 0, err
		case !passed:
			return 0, fmt.Errorf("%s:\n%s", g.pkg, output)
		}
		ran := leaves(passLine, output)
		for _, test := range tests {
			if !slices.Contains(ran, rewritten(test)) {
				return 0, fmt.Errorf("%s: no test %q passed", g.pkg, test)
			}
		}
	}
	return total, nil
}

// goTest returns what go test printed and whether it passed.
func goTest(root string, faults int, args ...string) (output string, passed bool, err error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout=5m"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "BLOBTX_EXPLORE="+strconv.Itoa(faults))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(text), false, nil
	}
	return string(text), err == nil, err
}

// rewritten is a test's name as go test prints it.
func rewritten(test string) string { return strings.ReplaceAll(test, " ", "_") }

// pattern is what go test's -run takes for exactly this test.
func pattern(test string) string {
	parts := strings.Split(rewritten(test), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// moduleRoot is where the module's go.mod is.
func moduleRoot() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/blobtx/blobtx")
	cmd.Stderr = os.Stderr
	dir, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}
