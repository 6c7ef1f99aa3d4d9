package broken

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/blobtx/blobtx/store"
)

// heartbeatBumps makes a beat a step.
type heartbeatBumps struct{ rows }

func (s heartbeatBumps) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	got, err := s.rows.Heartbeat(ctx, p)
	if err == nil && got.State == store.Uploading && got.Version == p.Version {
		got.Version++
		s.SetIntent(got)
	}
	return got, err
}

// takeOverKeepsVersion changes the holder alone.
type takeOverKeepsVersion struct{ rows }

func (s takeOverKeepsVersion) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	got, err := s.rows.TakeOver(ctx, p)
	if err == nil && got.State == store.Uploading && got.Holder == p.Holder {
		got.Version--
		s.SetIntent(got)
	}
	return got, err
}

// takeOverDoesNotWait settles what is locked by what it can see, as a SELECT
// would.
type takeOverDoesNotWait struct {
	rows
	now func() time.Time
}

func (s takeOverDoesNotWait) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	got, err := s.rows.TakeOver(&impatient{Context: ctx}, p)
	if !errors.Is(err, context.Canceled) {
		return got, err
	}
	s.change(p.ID, func(in *store.Intent) bool {
		now := s.now().UTC().Truncate(time.Microsecond)
		in.Version++
		in.Holder = p.Holder
		in.DueAt = now.Add(p.TTL)
		in.UpdatedAt = now
		got = *in
		return true
	})
	return got, nil
}

// impatient is a context that ends as soon as somebody waits for it.
type impatient struct {
	context.Context
	waited bool
}

func (c *impatient) Done() <-chan struct{} {
	c.waited = true
	done := make(chan struct{})
	close(done)
	return done
}

func (c *impatient) Err() error {
	if c.waited {
		return context.Canceled
	}
	return c.Context.Err()
}

// abandonsCommitted compares the version alone.
type abandonsCommitted struct{ rows }

func (s abandonsCommitted) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	got, err := s.rows.Abandon(ctx, p)
	if err == nil && got.State != store.Abandoned && got.Version == p.Version {
		got.State = store.Abandoned
		got.Version++
		s.SetIntent(got)
	}
	return got, err
}

// abandonKeepsKey leaves the idempotency key with what was abandoned.
type abandonKeepsKey struct{ rows }

func (s abandonKeepsKey) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	before, _ := s.GetIntents(ctx, []string{p.ID})
	got, err := s.rows.Abandon(ctx, p)
	if err == nil && len(before) == 1 {
		got.IdempotencyKey = before[0].IdempotencyKey
		s.SetIntent(got)
	}
	return got, err
}

// claimsTwice keeps nobody away: its leases have ended when they begin.
type claimsTwice struct{ rows }

func (s claimsTwice) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Lease = -time.Hour
	return s.rows.Claim(ctx, p)
}

// claimDoesNotFence tells the sweeper that an upload is abandoned and leaves
// the row uploading.
type claimDoesNotFence struct{ rows }

func (s claimDoesNotFence) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	uploading := make(map[string]store.Intent)
	for _, in := range s.Intents() {
		if in.State == store.Uploading {
			uploading[in.ID] = in
		}
	}
	c, err := s.rows.Claim(ctx, p)
	for _, in := range c.Intents {
		if was, ok := uploading[in.ID]; ok {
			was.DueAt, was.Attempts = in.DueAt, in.Attempts
			s.SetIntent(was)
		}
	}
	return c, err
}

// settlesAnyVersion compares the state alone.
type settlesAnyVersion struct{ rows }

func (s settlesAnyVersion) SettleIntents(ctx context.Context, settlements []store.IntentSettlement) (int, error) {
	settlements = slices.Clone(settlements)
	for i := range settlements {
		found, _ := s.GetIntents(ctx, []string{settlements[i].ID})
		for _, in := range found {
			settlements[i].Version = in.Version
		}
	}
	return s.rows.SettleIntents(ctx, settlements)
}
