package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
	"github.com/blobtx/blobtx/store/storetest/internal/broken"
)

// recorder is a tester that notes a failure and ends the case, and nothing
// else.
type recorder struct {
	ctx      context.Context
	failures []string
	skipped  string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow()                 { runtime.Goexit() }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// record runs one case in a bubble of its own, in which the waits of a step
// pass at once and the bubble ends only when every goroutine has.
func record(t *testing.T, run func(r *recorder)) *recorder {
	t.Helper()
	r := new(recorder)
	synctest.Test(t, func(t *testing.T) {
		r.ctx = t.Context()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				for _, f := range slices.Backward(r.cleanups) {
					f()
				}
			}()
			run(r)
		}()
		<-done
	})
	return r
}

// failed returns the names of the cases that were recorded as failed, sorted,
// and logs how.
func failed(t *testing.T, recorded map[string]*recorder) []string {
	t.Helper()
	names := []string{}
	for name, r := range recorded {
		require.Empty(t, r.skipped, "%s was skipped", name)
		if len(r.failures) > 0 {
			names = append(names, name)
			t.Logf("%s: %s", name, strings.Join(r.failures, "\n"))
		}
	}
	slices.Sort(names)
	return names
}

func runRows(t *testing.T, open func(memstore.RowsOptions) broken.RowStore) []string {
	t.Helper()
	recorded := make(map[string]*recorder)
	for _, c := range rowCases() {
		recorded[c.name] = record(t, func(r *recorder) {
			var mu sync.Mutex
			at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) // stands still
			rows := open(memstore.RowsOptions{Now: func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return at
			}})
			c.on(r, RowHarness{
				Store:   rows,
				Begin:   func(ctx context.Context) (Tx, error) { return rows.Begin(ctx) },
				Waiting: synctest.Wait,
				Advance: func(d time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					at = at.Add(d)
				},
			})
		})
	}
	return failed(t, recorded)
}

func runBlobs(t *testing.T, open func(*memstore.Blobs) store.BlobStore) []string {
	t.Helper()
	recorded := make(map[string]*recorder)
	for _, c := range blobCases() {
		recorded[c.name] = record(t, func(r *recorder) { c.on(r, open(memstore.NewBlobs(nil)), 200<<10) })
	}
	return failed(t, recorded)
}

func TestTheRightStoresFailNothing(t *testing.T) {
	require.Empty(t, runRows(t, broken.Right))
	require.Empty(t, runBlobs(t, func(b *memstore.Blobs) store.BlobStore { return b }))
}

func TestEveryMistakeFailsItsCasesAndNoOthers(t *testing.T) {
	for _, m := range broken.RowMistakes {
		t.Run("rows/"+m.Name, func(t *testing.T) {
			require.NotEmpty(t, m.Fails)
			require.Equal(t, slices.Sorted(slices.Values(m.Fails)), runRows(t, m.Open))
		})
	}
	for _, m := range broken.BlobMistakes {
		t.Run("blobs/"+m.Name, func(t *testing.T) {
			require.NotEmpty(t, m.Fails)
			require.Equal(t, slices.Sorted(slices.Values(m.Fails)), runBlobs(t, m.Open))
		})
	}
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range rowCases() {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
	t.Logf("%d cases of rows", len(seen))
	clear(seen)
	for _, c := range blobCases() {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
	t.Logf("%d cases of blobs", len(seen))
}
