package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/blobtx/blobtx/store"
)

// mysqlMaxID is the bytes that the columns hold. INSERT IGNORE would cut what is
// longer, and say nothing.
const mysqlMaxID = 255

// insertIntent looks, for the clock and for an early refusal, and inserts.
func (e *mysqlEngine) insertIntent(ctx context.Context, s session, p store.InsertParams, metadata string) (store.Intent, bool, error) {
	if len(p.ID) > mysqlMaxID || len(p.Holder) > mysqlMaxID {
		return store.Intent{}, false, fmt.Errorf("the id or the holder has more than %d bytes: %w", mysqlMaxID, store.ErrInvalid)
	}
	var now, version, taken int64
	err := s.Query(ctx, e.lookToInsertText, []any{p.Key, p.BlobName, p.BlobName}, func(scan func(dest ...any) error) error {
		return scan(&now, &version, &taken)
	})
	if err != nil || taken > 0 {
		return store.Intent{}, false, err
	}
	var current *store.Object
	if version != 0 {
		current = &store.Object{Version: store.Version(version)}
	}
	if !p.Expect.Holds(current) {
		return store.Intent{}, false, nil
	}
	direct := int64(0)
	if p.Direct {
		direct = 1
	}
	n := int64(0)
	err = e.bounded(ctx, s, func(ctx context.Context, s session) (err error) {
		n, err = s.Exec(ctx, e.insertIntentText, p.ID, p.IdempotencyKey, p.Key, p.Expect.String(), p.BlobName, direct, metadata,
			p.Holder, now+micros(p.TTL), now+micros(p.MaxPending), now, now)
		return err
	})
	if err != nil || n == 0 {
		return store.Intent{}, false, err
	}
	in, err := scanInserted(p, metadata)(func(dest ...any) error {
		*dest[0].(*int64) = now
		return nil
	})
	return in, err == nil, err
}

// bounded runs a statement whose text bounds its waits on MariaDB alone.
func (e *mysqlEngine) bounded(ctx context.Context, s session, fn func(ctx context.Context, s session) error) error {
	if e.isMariaDB.Load() {
		return fn(ctx, s)
	}
	return e.inTx(ctx, s, fn)
}

func (e *mysqlEngine) findIntent(ctx context.Context, s session, idempotencyKey, id string) (store.Intent, bool, error) {
	in, found, err := oneRow(ctx, s, scanIntent, e.intentByIDText, id)
	if err != nil || found || idempotencyKey == "" {
		return in, found, err
	}
	return oneRow(ctx, s, scanIntent, e.intentByKeyText, idempotencyKey)
}

func (e *mysqlEngine) blobNameTaken(ctx context.Context, s session, name string) (bool, error) {
	n, _, err := oneRow(ctx, s, scanInt, e.blobNameText, name, name, name)
	return n > 0, err
}

// lockedIntent reads an intent and the clock.
func (e *mysqlEngine) lockedIntent(ctx context.Context, s session, query string, args ...any) (in store.Intent, now int64, found bool, err error) {
	in, found, err = oneRow(ctx, s, func(scan func(dest ...any) error) (store.Intent, error) {
		var r intentRow
		if err := scan(r.dest(&now)...); err != nil {
			return store.Intent{}, err
		}
		return r.intent()
	}, query, args...)
	return in, now, found, err
}

func (e *mysqlEngine) lockIntent(ctx context.Context, s session, id string) (in store.Intent, expired, found bool, err error) {
	in, now, found, err := e.lockedIntent(ctx, s, e.lockIntentText.of(s), id)
	return in, found && !in.ExpiresAt.After(fromMicros(now)), found, err
}

// mine reports whether the intent is the caller's to take or to give up.
func mine(in store.Intent, version int64, holder string) bool {
	return in.State == store.Uploading && (in.Version == version || holder != "" && in.Holder == holder)
}

// takeOver and abandon return the intent under its lock, changed or not.
func (e *mysqlEngine) takeOver(ctx context.Context, s session, p store.TakeOverParams) (in store.Intent, found bool, err error) {
	if len(p.Holder) > mysqlMaxID {
		return in, false, fmt.Errorf("the holder has more than %d bytes: %w", mysqlMaxID, store.ErrInvalid)
	}
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		in, now, found, err = e.lockedIntent(ctx, s, e.lockIntentText.of(s), p.ID)
		if err != nil || !found || !mine(in, p.Version, p.Holder) {
			return err
		}
		due := min(now+micros(p.TTL), in.ExpiresAt.UnixMicro())
		in.Version, in.Holder, in.DueAt, in.UpdatedAt = in.Version+1, p.Holder, fromMicros(due), fromMicros(now)
		_, err = s.Exec(ctx, e.takeOverText, p.Holder, due, now, p.ID)
		return err
	})
	return in, found && err == nil, err
}

func (e *mysqlEngine) abandon(ctx context.Context, s session, p store.AbandonParams) (in store.Intent, found bool, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		in, now, found, err = e.lockedIntent(ctx, s, e.lockIntentText.of(s), p.ID)
		if err != nil || !found || !mine(in, p.Version, p.Holder) {
			return err
		}
		in.State, in.Version, in.Watched, in.IdempotencyKey = store.Abandoned, in.Version+1, false, ""
		in.DueAt, in.UpdatedAt = fromMicros(now), fromMicros(now)
		_, err = s.Exec(ctx, e.abandonText, now, now, p.ID)
		return err
	})
	return in, found && err == nil, err
}

func (e *mysqlEngine) heartbeat(ctx context.Context, s session, p store.HeartbeatParams) (in store.Intent, free bool, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		in, now, free, err = e.lockedIntent(ctx, s, e.freeIntentText, p.ID, p.Version)
		if err != nil || !free {
			return err
		}
		due := min(now+micros(p.TTL), in.ExpiresAt.UnixMicro())
		in.DueAt, in.Beats = fromMicros(due), in.Beats+1
		_, err = s.Exec(ctx, e.beatText, due, p.ID)
		return err
	})
	return in, free && err == nil, err
}

func (e *mysqlEngine) getIntents(ctx context.Context, s session, ids string) ([]store.Intent, error) {
	var all []string
	if err := json.Unmarshal([]byte(ids), &all); err != nil {
		return nil, err
	}
	var found []store.Intent
	for part := range slices.Chunk(all, mysqlMaxList) {
		query, args := inList(e.getIntentsText, part)
		some, err := allRows(ctx, s, scanIntent, query, args...)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}
