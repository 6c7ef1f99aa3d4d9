package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// InsertIntent is store.RowStore's: one statement when it succeeds.
func (s *Store) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	metadata, err := checkInsert(p)
	if err != nil {
		return store.Intent{}, err
	}
	var in store.Intent
	err = s.step(ctx, "insert intent", func(ctx context.Context, q session) (err error) {
		in, err = s.insertIntent(ctx, q, p, metadata)
		return err
	})
	return result(in, err)
}

func checkInsert(p store.InsertParams) (metadata string, err error) {
	if err := store.ValidateKey(p.Key); err != nil {
		return "", err
	}
	if err := store.ValidateIdempotencyKey(p.IdempotencyKey); err != nil {
		return "", err
	}
	if err := store.ValidateBlobName(p.BlobName); err != nil {
		return "", err
	}
	if err := p.Expect.Validate(); err != nil {
		return "", err
	}
	if err := checkText("intent id", p.ID); err != nil {
		return "", err
	}
	if err := checkHolder(p.Holder); err != nil {
		return "", err
	}
	return formatMetadata(p.Metadata)
}

// checkHolder accepts the empty holder, which is nobody's.
func checkHolder(holder string) error {
	if holder == "" {
		return nil
	}
	return checkText("holder", holder)
}

func (s *Store) insertIntent(ctx context.Context, q session, p store.InsertParams, metadata string) (store.Intent, error) {
	for range maxRuns {
		in, ok, err := s.engine.insertIntent(ctx, q, p, metadata)
		if err != nil || ok {
			return in, err
		}
		// No row: find out why, the id and the idempotency key before the condition.
		in, found, err := s.engine.findIntent(ctx, q, p.IdempotencyKey, p.ID)
		if err != nil || found {
			return in, err
		}
		o, found, err := s.engine.getObject(ctx, q, p.Key)
		if err != nil {
			return store.Intent{}, err
		}
		conflict := &store.ConflictError{Key: p.Key, Want: p.Expect, Deleted: !found}
		if found {
			conflict.Current = &o
		}
		if !p.Expect.Holds(conflict.Current) {
			return store.Intent{}, conflict
		}
		taken, err := s.engine.blobNameTaken(ctx, q, p.BlobName)
		if err != nil {
			return store.Intent{}, err
		}
		if taken {
			return store.Intent{}, fmt.Errorf("blob name %.60q is in use: %w", p.BlobName, store.ErrInvalid)
		}
		// Whatever was in the way is gone.
	}
	return store.Intent{}, fmt.Errorf("%w: lost every race for the idempotency key or the object", store.ErrBusy)
}

// asItStands returns what the write returned or, if it met no row, the intent
// as it stands.
func (s *Store) asItStands(ctx context.Context, q session, id string, in store.Intent, ok bool, err error) (store.Intent, error) {
	if err != nil || ok {
		return in, err
	}
	in, found, err := s.engine.findIntent(ctx, q, "", id)
	if err == nil && !found {
		err = fmt.Errorf("intent %.60q: %w", id, store.ErrNotFound)
	}
	return in, err
}

// TakeOver is store.RowStore's.
func (s *Store) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	if err := checkText("intent id", p.ID); err != nil {
		return store.Intent{}, err
	}
	if err := checkHolder(p.Holder); err != nil {
		return store.Intent{}, err
	}
	var in store.Intent
	err := s.step(ctx, "take over intent", func(ctx context.Context, q session) error {
		got, ok, err := s.engine.takeOver(ctx, q, p)
		in, err = s.asItStands(ctx, q, p.ID, got, ok, err)
		return err
	})
	return result(in, err)
}

// Heartbeat is store.RowStore's. On SQLite, which locks the whole database for
// one writer, it waits for that one like any write, within the bound.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	if err := checkText("intent id", p.ID); err != nil {
		return store.Intent{}, err
	}
	var in store.Intent
	err := s.step(ctx, "heartbeat", func(ctx context.Context, q session) error {
		got, ok, err := s.engine.heartbeat(ctx, q, p)
		in, err = s.asItStands(ctx, q, p.ID, got, ok, err)
		return err
	})
	return result(in, err)
}

// Abandon is store.RowStore's.
func (s *Store) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	if err := checkText("intent id", p.ID); err != nil {
		return store.Intent{}, err
	}
	if err := checkHolder(p.Holder); err != nil {
		return store.Intent{}, err
	}
	var in store.Intent
	err := s.step(ctx, "abandon intent", func(ctx context.Context, q session) error {
		got, ok, err := s.engine.abandon(ctx, q, p)
		in, err = s.asItStands(ctx, q, p.ID, got, ok, err)
		return err
	})
	return result(in, err)
}

// GetIntents is store.RowStore's.
func (s *Store) GetIntents(ctx context.Context, ids []string) ([]store.Intent, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	for _, id := range ids {
		if err := checkText("intent id", id); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("get intents: %w", err)
	}
	var found []store.Intent
	err = s.step(ctx, "get intents", func(ctx context.Context, q session) (err error) {
		found, err = s.engine.getIntents(ctx, q, string(text))
		return err
	})
	if err != nil {
		return nil, err
	}
	byID := make(map[string]store.Intent, len(found))
	for _, in := range found {
		byID[in.ID] = in
	}
	ordered := make([]store.Intent, 0, len(found))
	for _, id := range ids {
		if in, ok := byID[id]; ok {
			ordered = append(ordered, in)
		}
	}
	return ordered, nil
}
