package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestEveryScenarioHolds(t *testing.T) {
	for _, s := range suites() {
		for _, scenario := range s.Scenarios {
			t.Run(s.Name+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				if r := s.Run(scenario, "", true); r.Broken != "" {
					t.Fatalf("%s\n    %s", r.Broken, strings.Join(r.Trace, "\n    "))
				}
			})
		}
	}
}

func TestEveryMutantIsCaught(t *testing.T) {
	for _, s := range suites() {
		for _, m := range s.Mutants {
			t.Run(s.Name+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				r := s.Run(m.Scenario, m.Name, true)
				switch {
				case r.Broken == "":
					t.Fatalf("%s: %d states, nothing violated", m.Scenario, r.States)
				case !(job{breaks: m.Breaks}).caught(r):
					t.Fatalf("%s: breaks another rule: %s\n    %s", m.Scenario, r.Broken, strings.Join(r.Trace, "\n    "))
				case len(r.Trace) == 0:
					t.Fatal("no trace")
				}
			})
		}
	}
}

// The command finds a scenario by its name alone.
func TestNamesAreUnique(t *testing.T) {
	scenarios := map[string]bool{"all": true, "mutants": true, "list": true}
	for _, s := range suites() {
		own, mutants := map[string]bool{}, map[string]bool{}
		for _, scenario := range s.Scenarios {
			if scenarios[scenario] {
				t.Errorf("scenario %q twice", scenario)
			}
			scenarios[scenario], own[scenario] = true, true
		}
		for _, m := range s.Mutants {
			if mutants[m.Name] || !own[m.Scenario] || m.Breaks == "" {
				t.Errorf("mutant %+v of %s: twice, or in no scenario of its own, or breaks nothing", m, s.Name)
			}
			mutants[m.Name] = true
		}
	}
}

func TestTheReadmeSaysWhatEveryMutantTeaches(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites() {
		for _, m := range s.Mutants {
			if row := "| `" + m.Name + "` | " + m.Scenario + " |"; !strings.Contains(string(readme), row) {
				t.Errorf("%s: no row %q", s.Name, row)
			}
		}
	}
}

func TestTheLastLineIsForMachines(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		end    string
	}{
		"mutants":                  {0, "\nmodel states=0 violations=0 mutants=46 caught=46\n"},
		"retention":                {0, " states, nothing violated\n"},
		"create settle-by-select":  {1, "P0 settle (take over) 0: abandoned\n    late: commit 0 lands: ok\n"},
		"create no-such-mistake":   {2, ""},
		"no-such-scenario":         {2, ""},
		"create no-quarantine too": {2, ""},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if status := run(&out, io.Discard, true, strings.Fields(args)); status != want.status || !strings.HasSuffix(out.String(), want.end) {
				t.Fatalf("status %d, output\n%s", status, out.String())
			}
		})
	}
}
