package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// The code moves on: a mutant whose text is gone would never be tried.
func TestEveryMutantIsOfTheCodeAsItIs(t *testing.T) {
	mistakes := map[string]bool{}
	for _, m := range all() {
		t.Run(m.mistake, func(t *testing.T) {
			require.False(t, mistakes[m.mistake], "twice")
			mistakes[m.mistake] = true
			require.NotEqual(t, m.old, m.new)
			source, err := m.mutate(root)
			require.NoError(t, err)
			_, err = parser.ParseFile(token.NewFileSet(), m.file, source, parser.SkipObjectResolution)
			require.NoError(t, err)
			require.NotEmpty(t, m.breaks)
			requireTest(t, m)
		})
	}
	require.GreaterOrEqual(t, len(mistakes), 24)
}

// requireTest: the test's function is in the package.
func requireTest(t *testing.T, m mutant) {
	name, _, _ := strings.Cut(m.test, "/")
	files, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "func "+name+"(t *testing.T)") {
			return
		}
	}
	t.Fatalf("%s has no %s", m.pkg, name)
}

func TestAMutantOfOtherCodeIsRefused(t *testing.T) {
	m := mutant{file: "commit.go", old: "no such text"}
	_, err := m.mutate(root)
	require.ErrorContains(t, err, "occurs 0 times")
	m.old = "ctx"
	_, err = m.mutate(root)
	require.ErrorContains(t, err, "times")
}

func TestVerdicts(t *testing.T) {
	m := mutant{test: "TestScenarios/two replaces", breaks: "dangling: "}
	const found = `--- FAIL: TestScenarios (0.00s)
    --- FAIL: TestScenarios/two_replaces (0.00s)
        scenarios_test.go:36: dangling: object "k" names blob "b",   which is not there

               1  one: insert intent: ok

            replay with Limits{Faults: the same, Trace: "0012"}
FAIL
`
	for name, c := range map[string]struct {
		output string
		passed bool
		want   verdict
	}{
		"caught":              {found, false, verdict{true, `dangling: object "k" names blob "b", which is not there`, "0012"}},
		"the test passes":     {"ok  \tx\t0.1s\n", true, verdict{what: "the test passes"}},
		"it does not compile": {"# x\n./m.go:3:4: undefined: y\nFAIL\tx [build failed]\nFAIL\n", false, verdict{what: "it does not compile: ./m.go:3:4: undefined: y"}},
		"it does not link":    {"FAIL\tx [setup failed]\nFAIL\n", false, verdict{what: "it does not compile: "}},
		"it panics":           {"panic: test timed out after 5m0s\nFAIL\tx\t300s\n", false, verdict{what: "the test does not end: panic: test timed out after 5m0s"}},
		"another fails":       {strings.ReplaceAll(found, "two_replaces", "two_creators"), false, verdict{what: "other tests fail: TestScenarios/two_creators"}},
		"another fails too":   {found + "--- FAIL: TestOther (0.00s)\n", false, verdict{what: "other tests fail: TestScenarios/two_replaces, TestOther"}},
		"it fails otherwise":  {strings.ReplaceAll(found, "dangling", "orphan"), false, verdict{what: `the test does not say "dangling: "`}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, m.judge(c.output, c.passed))
		})
	}
}

func TestPatternsMeanOneTest(t *testing.T) {
	require.Equal(t, `^TestRows$/^Commit$/^a_b\(c\)$`, pattern("TestRows/Commit/a b(c)"))
}

func TestChosen(t *testing.T) {
	of := func(mistakes ...string) (mutants []mutant) {
		for _, mistake := range mistakes {
			mutants = append(mutants, mutant{mistake: mistake})
		}
		return mutants
	}
	list := of("a1", "b1", "a2", "b2", "a3")
	require.Equal(t, list, chosen(list, regexp.MustCompile(""), 0))
	require.Equal(t, of("a1", "a2", "a3"), chosen(list, regexp.MustCompile("^a"), 9))
	require.Equal(t, of("a1", "a2"), chosen(list, regexp.MustCompile(""), 2))
	require.Empty(t, chosen(list, regexp.MustCompile("c"), 0))
}
