package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Claim implements store.RowStore.
func (r *Rows) Claim(ctx context.Context, p store.ClaimParams) (c store.Claimed, err error) {
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		until := now
		if !p.Until.IsZero() {
			until = earlier(until, p.Until)
		}
		c.Now = now
		for _, row := range r.dueIntents(until, p.Limit, store.Uploading, store.Abandoned, store.Sealing) {
			next := *row
			next.Attempts++
			if row.State == store.Uploading {
				abandon(&next, now)
				next.Attempts = 1
			}
			next.DueAt = now.Add(p.Lease)
			r.putIntent(&next)
			c.Intents = append(c.Intents, copyIntent(&next))
		}
		for _, row := range r.dueRetired(until, p.Limit) {
			next := *row
			next.Attempts++
			next.DueAt = now.Add(p.Lease)
			r.putRetired(&next)
			c.Retired = append(c.Retired, next)
		}
		return nil, nil
	})
	return c, err
}

// dueIntents returns the first due intents in these states, in the order of
// due_at; those in the hands of an open transaction are passed over.
func (r *Rows) dueIntents(until time.Time, limit int, states ...store.State) []*store.Intent {
	var due []*store.Intent
	for _, row := range r.intents {
		if slices.Contains(states, row.State) && !row.DueAt.After(until) && r.locks[rowID{intentRow, row.ID}] == nil {
			due = append(due, row)
		}
	}
	slices.SortFunc(due, func(a, b *store.Intent) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
	})
	return due[:min(limit, len(due))]
}

func (r *Rows) dueRetired(until time.Time, limit int) []*store.Retired {
	var due []*store.Retired
	for _, row := range r.retired {
		if !row.DueAt.IsZero() && !row.DueAt.After(until) {
			due = append(due, row)
		}
	}
	slices.SortFunc(due, func(a, b *store.Retired) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.BlobName, b.BlobName))
	})
	return due[:min(limit, len(due))]
}

// SettleIntents implements store.RowStore.
func (r *Rows) SettleIntents(ctx context.Context, settlements []store.IntentSettlement) (n int, err error) {
	for _, s := range settlements {
		if !s.To.Follows(s.State) {
			return 0, fmt.Errorf("settle intent %s: %q does not follow %q: %w", s.ID, s.To, s.State, store.ErrInvalid)
		}
	}
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		for _, s := range settlements {
			row := r.intents[s.ID]
			if row == nil || row.State != s.State || row.Version != s.Version || r.locks[rowID{intentRow, s.ID}] != nil {
				continue
			}
			if s.To == store.ToGone {
				r.dropIntent(s.ID)
			} else {
				next := *row
				settle(&next, s, now)
				r.putIntent(&next)
			}
			n++
		}
		return nil, nil
	})
	return n, err
}

func settle(in *store.Intent, s store.IntentSettlement, now time.Time) {
	in.UpdatedAt = now
	in.LastError = s.Err
	in.DueAt = now.Add(s.In)
	switch s.To {
	case store.ToRetry:
		return
	case store.ToDone:
		in.State, in.Attempts = store.Done, 0
	case store.ToWatch:
		in.Watched, in.Attempts = true, 0
	case store.ToHeld:
		in.State, in.DueAt = store.Held, time.Time{}
	}
	in.Version++
}

// SettleRetired implements store.RowStore.
func (r *Rows) SettleRetired(ctx context.Context, settlements []store.RetiredSettlement) (n int, err error) {
	for _, s := range settlements {
		if !slices.Contains([]store.Verdict{store.ToWatch, store.ToGone, store.ToRetry, store.ToHeld}, s.To) {
			return 0, fmt.Errorf("settle retired %q: %q does not apply: %w", s.BlobName, s.To, store.ErrInvalid)
		}
	}
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		for _, s := range settlements {
			row := r.retired[s.BlobName]
			if row == nil || row.DueAt.IsZero() || !row.DueAt.Equal(s.DueAt) {
				continue
			}
			next := *row
			next.LastError = s.Err
			switch s.To {
			case store.ToGone:
				r.dropRetired(s.BlobName)
			case store.ToWatch:
				next.Watched, next.Attempts, next.DueAt = true, 0, now.Add(s.In)
				r.putRetired(&next)
			case store.ToRetry:
				next.DueAt = now.Add(s.In)
				r.putRetired(&next)
			case store.ToHeld:
				next.DueAt = time.Time{}
				r.putRetired(&next)
			}
			n++
		}
		return nil, nil
	})
	return n, err
}

// Forget implements store.RowStore.
func (r *Rows) Forget(ctx context.Context, limit int) (n int, err error) {
	err = r.step(ctx, func(now time.Time) (*Tx, error) {
		for _, row := range r.dueIntents(now, limit, store.Done) {
			r.dropIntent(row.ID)
			n++
		}
		return nil, nil
	})
	return n, err
}
