package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/blobtx/blobtx/store"
)

// Claim is store.RowStore's: two statements in one short transaction.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if p.Limit < 1 {
		return store.Claimed{}, fmt.Errorf("claim: limit %d must be positive: %w", p.Limit, store.ErrInvalid)
	}
	until := int64(math.MaxInt64)
	if !p.Until.IsZero() {
		until = p.Until.UnixMicro()
	}
	var claimed store.Claimed
	err := s.txStep(ctx, "claim", func(ctx context.Context, q session) error {
		claimed = store.Claimed{}
		now, intents, err := s.engine.claimIntents(ctx, q, p.Limit, micros(p.Lease), until)
		if err != nil {
			return err
		}
		retired, err := s.engine.claimRetired(ctx, q, p.Limit, now+micros(p.Lease), min(now, until))
		claimed = store.Claimed{Now: fromMicros(now), Intents: intents, Retired: retired}
		return err
	})
	return result(claimed, err)
}

// settlement is one element of the JSON that the statements unpack: arrays go
// to the database as text because drivers disagree on every other form.
type settlement struct {
	ID      string        `json:"id"`
	State   store.State   `json:"state"`
	Version int64         `json:"version"`
	Due     int64         `json:"due"`
	Verdict store.Verdict `json:"verdict"`
	Delay   int64         `json:"delay"` // µs
	Note    string        `json:"note"`
}

// SettleIntents is store.RowStore's: one statement for a batch where the
// database can, two where it cannot.
func (s *Store) SettleIntents(ctx context.Context, list []store.IntentSettlement) (int, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	batch := make([]settlement, 0, len(list))
	for _, one := range list {
		if !one.To.Follows(one.State) {
			return 0, fmt.Errorf("settle intent %.60q: %q does not become %q: %w", one.ID, one.State, one.To, store.ErrInvalid)
		}
		if err := checkText("intent id", one.ID); err != nil {
			return 0, err
		}
		batch = append(batch, settlement{
			ID: one.ID, State: one.State, Version: one.Version,
			Verdict: one.To, Delay: max(0, micros(one.In)), Note: errorText(one.Err),
		})
	}
	return s.settle(ctx, "settle intents", batch, s.engine.settleIntents)
}

// SettleRetired is store.RowStore's.
func (s *Store) SettleRetired(ctx context.Context, list []store.RetiredSettlement) (int, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	batch := make([]settlement, 0, len(list))
	for _, one := range list {
		if one.To != store.ToWatch && one.To != store.ToGone && one.To != store.ToRetry && one.To != store.ToHeld {
			return 0, fmt.Errorf("settle retired %.60q: it does not become %q: %w", one.BlobName, one.To, store.ErrInvalid)
		}
		if err := checkText("blob name", one.BlobName); err != nil {
			return 0, err
		}
		batch = append(batch, settlement{
			ID: one.BlobName, Due: one.DueAt.UnixMicro(),
			Verdict: one.To, Delay: max(0, micros(one.In)), Note: errorText(one.Err),
		})
	}
	return s.settle(ctx, "settle retired", batch, s.engine.settleRetired)
}

func (s *Store) settle(ctx context.Context, what string, batch []settlement,
	write func(ctx context.Context, q session, batch []settlement) (int, error),
) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	slices.SortStableFunc(batch, func(a, b settlement) int { return cmp.Compare(a.ID, b.ID) })
	run := s.step
	if gone, kept := split(batch); !s.engine.settlesAtOnce() && len(gone) > 0 && len(kept) > 0 {
		run = s.txStep
	}
	n := 0
	err := run(ctx, what, func(ctx context.Context, q session) (err error) {
		n, err = write(ctx, q, batch)
		return err
	})
	return result(n, err)
}

// split tells the rows to delete from those to keep.
func split(batch []settlement) (gone, kept []settlement) {
	for _, one := range batch {
		if one.Verdict == store.ToGone {
			gone = append(gone, one)
		} else {
			kept = append(kept, one)
		}
	}
	return gone, kept
}

// Forget is store.RowStore's.
func (s *Store) Forget(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("forget: limit %d must be positive: %w", limit, store.ErrInvalid)
	}
	n := 0
	err := s.step(ctx, "forget", func(ctx context.Context, q session) (err error) {
		n, err = s.engine.forget(ctx, q, limit)
		return err
	})
	return result(n, err)
}
