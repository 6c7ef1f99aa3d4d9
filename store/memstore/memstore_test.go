package memstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
	"github.com/blobtx/blobtx/store/storetest"
)

// clock stands still until it is moved on.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func harness(*testing.T) storetest.RowHarness {
	c := newClock()
	rows := memstore.NewRows(&memstore.RowsOptions{Now: c.now})
	return storetest.RowHarness{
		Store:   rows,
		Begin:   func(ctx context.Context) (storetest.Tx, error) { return rows.Begin(ctx) },
		Advance: c.advance,
	}
}

func TestRows(t *testing.T) { storetest.TestRowStore(t, harness) }

func TestBlobs(t *testing.T) {
	storetest.TestBlobStore(t, func(*testing.T) store.BlobStore { return memstore.NewBlobs(nil) })
}
