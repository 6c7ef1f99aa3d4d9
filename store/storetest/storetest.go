// Package storetest is the executable form of the comments on store.RowStore
// and store.BlobStore: suites that every implementation runs, and that are its
// whole test. The name of a case is the promise it checks.
//
//	func TestRows(t *testing.T) {
//		storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness {
//			rows := open(t) // fresh and empty
//			return storetest.RowHarness{Store: rows, Begin: rows.begin, Advance: rows.advance}
//		})
//	}
//
// That the suites can fail is proved on stores with exactly one mistake each,
// which are in internal/broken: every mistake fails the cases named beside it,
// and no others.
package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// RowHarness is a fresh, empty store and what the suite must be able to do
// around it.
type RowHarness struct {
	Store store.RowStore

	// Begin opens a transaction of the caller's, at the isolation level that
	// applications get by default.
	Begin func(ctx context.Context) (Tx, error)

	// Advance moves the store's clock on, on top of what passes by itself. A
	// clock that otherwise stands still is fine.
	Advance func(d time.Duration)

	// SingleWriter says that an open transaction keeps every other writer
	// waiting, whatever the row, as on SQLite. Readers go on.
	SingleWriter bool

	// Exclusive says that an open transaction keeps everybody else waiting,
	// readers too, as with a pool of one connection.
	Exclusive bool

	// Concurrency is how many goroutines take part in a race. Defaults to 8.
	Concurrency int

	// Waiting returns once every other goroutine of the case waits for
	// something, as synctest.Wait does. Nil where that cannot be known: cases
	// that want a step to wait for an open transaction then give it a moment,
	// and hold whether it has begun or not.
	Waiting func()
}

// Tx is a transaction of the caller's, with the store's steps bound to it.
type Tx interface {
	store.RowTx
	Commit() error
	Rollback() error
}

// TestRowStore checks every promise of store.RowStore. Open is called once for
// each case and returns a store that is fresh and empty.
func TestRowStore(t *testing.T, open func(*testing.T) RowHarness) {
	for _, c := range rowCases() {
		t.Run(c.name, func(t *testing.T) { c.on(t, open(t)) })
	}
}

// Deviation is a case that a service is known to fail for a reason that lies
// outside the store under test, such as an emulator's.
type Deviation struct {
	Case string // its full name, such as "Seal/refuses a blob of another intent"
	Why  string
}

// TestBlobStore checks every promise of store.BlobStore. Open is called once
// for each case and returns a store on a fresh, empty container. The largest
// body has 9 MiB: a store whose bodies take another path above some size is
// opened with a threshold below that.
//
// Known deviations are skipped, aloud.
func TestBlobStore(t *testing.T, open func(*testing.T) store.BlobStore, known ...Deviation) {
	cases := blobCases()
	for _, k := range known {
		named := func(c blobCase) bool { return c.name == k.Case }
		require.True(t, slices.ContainsFunc(cases, named), "no case is named %q", k.Case)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range known {
				if k.Case == c.name {
					t.Skipf("known deviation: %s", k.Why)
				}
			}
			c.on(t, open(t), bigger)
		})
	}
}

// tester is what a case needs of *testing.T. The proof that the suites can
// fail runs the same cases on a recorder.
type tester interface {
	require.TestingT
	Helper()
	Context() context.Context
	Cleanup(f func())
	Skipf(format string, args ...any)
}

// caseTimeout ends the waiting of a case whose store never answers.
const caseTimeout = 2 * time.Minute

// outcome is what came back from a goroutine.
type outcome[T any] struct {
	value T
	err   error
}

// start runs fn beside the case; the outcome can be received once.
func start[T any](fn func() (T, error)) <-chan outcome[T] {
	back := make(chan outcome[T], 1)
	go func() {
		value, err := fn()
		back <- outcome[T]{value, err}
	}()
	return back
}

// together runs fn n times at once and returns what came back.
func together[T any](n int, fn func(i int) (T, error)) []outcome[T] {
	begin := make(chan struct{})
	backs := make([]<-chan outcome[T], n)
	for i := range n {
		backs[i] = start(func() (T, error) {
			<-begin
			return fn(i)
		})
	}
	close(begin)
	outcomes := make([]outcome[T], n)
	for i, back := range backs {
		outcomes[i] = <-back
	}
	return outcomes
}
