package storetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// The suite must end, and pass, on stores whose open transaction keeps every
// other writer waiting, as SQLite's, or everybody else, as a pool of one
// connection does.
func TestStoresWhereTransactionsExclude(t *testing.T) {
	for name, exclusive := range map[string]bool{"single writer": false, "exclusive": true} {
		t.Run(name, func(t *testing.T) {
			skipped := 0
			for _, c := range rowCases() {
				r := record(t, func(r *recorder) {
					s := &oneAtATime{readers: !exclusive, place: make(chan struct{}, 1)}
					at := &moving{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
					s.Rows = memstore.NewRows(&memstore.RowsOptions{Now: at.now})
					c.on(r, RowHarness{
						Store: s, Begin: s.begin, Advance: at.advance, Waiting: synctest.Wait,
						SingleWriter: !exclusive, Exclusive: exclusive,
					})
				})
				require.Empty(t, r.failures, c.name)
				if r.skipped != "" {
					t.Logf("%s: %s", c.name, r.skipped)
					skipped++
				}
			}
			require.Less(t, skipped, 5)
		})
	}
}

// moving is a clock that moves when it is looked at.
type moving struct {
	mu sync.Mutex
	at time.Time
}

func (c *moving) now() time.Time { return c.move(37 * time.Microsecond) }

func (c *moving) advance(d time.Duration) { c.move(d) }

func (c *moving) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// oneAtATime is a store with one place for whoever writes, and, unless readers
// go on, for everybody.
type oneAtATime struct {
	*memstore.Rows
	place   chan struct{}
	readers bool
}

func (s *oneAtATime) take(ctx context.Context) error {
	select {
	case s.place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Second):
		return store.ErrBusy
	}
}

func inPlace[T any](ctx context.Context, s *oneAtATime, fn func() (T, error)) (T, error) {
	if err := s.take(ctx); err != nil {
		var none T
		return none, err
	}
	defer func() { <-s.place }()
	return fn()
}

func reading[T any](ctx context.Context, s *oneAtATime, fn func() (T, error)) (T, error) {
	if s.readers {
		return fn()
	}
	return inPlace(ctx, s, fn)
}

type placedTx struct {
	*memstore.Tx
	leave func()
}

func (t placedTx) Commit() error {
	defer t.leave()
	return t.Tx.Commit()
}

func (t placedTx) Rollback() error {
	defer t.leave()
	return t.Tx.Rollback()
}

func (s *oneAtATime) begin(ctx context.Context) (Tx, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	tx, err := s.Begin(ctx)
	return placedTx{tx, sync.OnceFunc(func() { <-s.place })}, err
}

func (s *oneAtATime) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	return inPlace(ctx, s, func() (store.Intent, error) { return s.Rows.InsertIntent(ctx, p) })
}

func (s *oneAtATime) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	return inPlace(ctx, s, func() (store.Intent, error) { return s.Rows.TakeOver(ctx, p) })
}

func (s *oneAtATime) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	return inPlace(ctx, s, func() (store.Intent, error) { return s.Rows.Heartbeat(ctx, p) })
}

func (s *oneAtATime) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	return inPlace(ctx, s, func() (store.Intent, error) { return s.Rows.Abandon(ctx, p) })
}

func (s *oneAtATime) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return inPlace(ctx, s, func() ([]store.Object, error) { return s.Rows.CommitObjects(ctx, p) })
}

func (s *oneAtATime) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return inPlace(ctx, s, func() (store.Object, error) { return s.Rows.DeleteObject(ctx, p) })
}

func (s *oneAtATime) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return inPlace(ctx, s, func() (store.Object, error) { return s.Rows.SetObjectMetadata(ctx, p) })
}

func (s *oneAtATime) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return inPlace(ctx, s, func() (store.Claimed, error) { return s.Rows.Claim(ctx, p) })
}

func (s *oneAtATime) SettleIntents(ctx context.Context, p []store.IntentSettlement) (int, error) {
	return inPlace(ctx, s, func() (int, error) { return s.Rows.SettleIntents(ctx, p) })
}

func (s *oneAtATime) SettleRetired(ctx context.Context, p []store.RetiredSettlement) (int, error) {
	return inPlace(ctx, s, func() (int, error) { return s.Rows.SettleRetired(ctx, p) })
}

func (s *oneAtATime) Forget(ctx context.Context, limit int) (int, error) {
	return inPlace(ctx, s, func() (int, error) { return s.Rows.Forget(ctx, limit) })
}

func (s *oneAtATime) GetIntents(ctx context.Context, ids []string) ([]store.Intent, error) {
	return reading(ctx, s, func() ([]store.Intent, error) { return s.Rows.GetIntents(ctx, ids) })
}

func (s *oneAtATime) GetObject(ctx context.Context, key string) (store.Object, error) {
	return reading(ctx, s, func() (store.Object, error) { return s.Rows.GetObject(ctx, key) })
}

func (s *oneAtATime) ListObjects(ctx context.Context, p store.ListParams) ([]store.Object, error) {
	return reading(ctx, s, func() ([]store.Object, error) { return s.Rows.ListObjects(ctx, p) })
}
