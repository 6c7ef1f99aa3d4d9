package protocol

import "github.com/blobtx/blobtx/internal/model/explore"

// scenario is who is there, and how much may go wrong.
type scenario struct {
	name      string
	faults    uint8
	small     uint8 // faults, for every test run
	procs     [4]proc
	retention bool // outcomes are forgotten, however early
	restore   bool // a copy is taken at any moment, put back at any later one

	unannounced bool // nobody holds the copy's open uploads: only the guard protects
}

func scenarios() []scenario {
	write := func(id, expect, content, retries uint8) proc {
		return proc{role: writer, at: opInsert, id: id, expect: expect, content: content, retries: retries}
	}
	sweep := func(budget uint8) proc { return proc{role: sweeper, budget: budget} }
	idle := proc{role: deleter, over: true}
	remove := proc{role: deleter, at: opDeleteObject, expect: 1}
	return []scenario{
		// one writer, two sweepers
		{name: "create", faults: 3, small: 2, procs: [4]proc{write(0, 0, 1, 1), sweep(3), sweep(2), idle}},
		{name: "two-creators", faults: 3, small: 1, procs: [4]proc{write(0, 0, 1, 1), write(1, 0, 2, 0), sweep(3), idle}},
		// one request, sent to two processes
		{name: "retry", faults: 3, small: 2, procs: [4]proc{write(0, 0, 1, 1), write(0, 0, 1, 0), sweep(2), idle}},
		// the same key with other bytes
		{name: "retry-different", faults: 3, small: 1, procs: [4]proc{write(0, 0, 1, 0), write(0, 0, 2, 0), sweep(2), idle}},
		// a name watched for late requests until it is forgotten
		{name: "quarantine", faults: 3, small: 1, procs: [4]proc{write(0, 0, 1, 0), sweep(3), sweep(3), sweep(2)}},
		// an outcome asked for after it was forgotten
		{name: "retention", faults: 3, small: 2, procs: [4]proc{write(0, 0, 1, 2), sweep(2), idle, idle}, retention: true},
		// create, a replace and a delete of version 1, a sweeper
		{name: "replace-delete", faults: 2, small: 1, procs: [4]proc{write(0, 0, 1, 0), write(1, 1, 2, 0), remove, sweep(3)}},
		{name: "two-replaces", faults: 2, small: 0, procs: [4]proc{write(0, 0, 1, 0), write(1, 1, 2, 0), write(2, 1, 3, 0), sweep(3)}},
		{name: "restore", faults: 1, small: 0, procs: [4]proc{write(0, 0, 1, 0), write(1, 1, 2, 0), sweep(2), sweep(2)}, restore: true},
		{name: "restore-unannounced", faults: 2, small: 2, procs: [4]proc{write(0, 0, 1, 0), sweep(3), idle, idle}, restore: true, unannounced: true},
	}
}

// shrink makes the scenario small enough for every test run.
func (s *scenario) shrink() {
	s.faults = s.small
	for i := range s.procs {
		if p := &s.procs[i]; p.role == sweeper {
			p.budget = max(1, p.budget-1)
		}
	}
}

var mutants = []explore.Mutant{
	{Name: "compensation-without-fence", Scenario: "retry", Breaks: "dangling row"},
	{Name: "unknown-commit-is-failure", Scenario: "create", Breaks: "a lie: told no"},
	{Name: "claim-does-not-fence", Scenario: "create", Breaks: "dangling row"},
	{Name: "no-quarantine", Scenario: "create", Breaks: "orphan"},
	{Name: "flip-before-commit", Scenario: "create", Breaks: "stuck"},
	{Name: "conflict-code-is-success", Scenario: "retry-different", Breaks: "dangling row"},
	{Name: "create-overwrites", Scenario: "create", Breaks: "a ready row whose blob still says pending"},
	{Name: "takeover-without-bump", Scenario: "create", Breaks: "a lie: told no"},
	{Name: "commit-ignores-intent-version", Scenario: "create", Breaks: "a lie: told no"},
	{Name: "commit-ignores-object-version", Scenario: "two-creators", Breaks: "lost update"},
	{Name: "conflict-leaves-intent-committed", Scenario: "two-creators", Breaks: "a lie: told yes"},
	{Name: "abandon-ignores-state", Scenario: "retry", Breaks: "dangling row"},
	{Name: "replaced-blob-not-recorded", Scenario: "replace-delete", Breaks: "orphan"},
	{Name: "deleted-blob-not-recorded", Scenario: "replace-delete", Breaks: "orphan"},
	{Name: "delete-ignores-object-version", Scenario: "replace-delete", Breaks: "lost update"},
	{Name: "restore-without-hold", Scenario: "restore", Breaks: "after a restore"},
	{Name: "settle-by-select", Scenario: "create", Breaks: "a lie: told no"},
	{Name: "gone-is-not-committed", Scenario: "retention", Breaks: "a lie: told no"},
	{Name: "abandon-ignores-version", Scenario: "retry", Breaks: "a holder that had been fenced out aborted"},
	{Name: "final-round-creates", Scenario: "create", Breaks: "orphan"},
	{Name: "failed-round-counts-as-watched", Scenario: "create", Breaks: "orphan"},
	{Name: "later-round-creates", Scenario: "create", Breaks: "orphan"},
	{Name: "quarantine-too-short", Scenario: "create", Breaks: "orphan"},
	{Name: "retired-without-quarantine", Scenario: "replace-delete", Breaks: "orphan"},
	{Name: "guard-dropped", Scenario: "restore-unannounced", Breaks: "after a restore"},
}
