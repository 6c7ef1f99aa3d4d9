package sqlstore

import (
	"context"

	"github.com/blobtx/blobtx/store"
)

// returning is the part of an engine that databases with RETURNING share: the
// texts differ, what goes in and comes out does not.
type returning struct {
	setMetadataText   text
	lockIntentText    text
	lockObjectText    text
	insertIntentText  string
	findIntentText    string
	blobNameText      string
	takeOverText      string
	heartbeatText     string
	abandonText       string
	getIntentsText    string
	getObjectText     string
	listText          string
	listBelowText     string
	forgetText        string
	schemaVersionText string
}

// text is a statement in its two forms. Own bounds the wait for locks in a way
// that outlives the statement: for the rest of the transaction.
type text struct{ own, tx string }

func (t text) of(s session) string {
	if s.own {
		return t.own
	}
	return t.tx
}

func (e *returning) schemaVersion(ctx context.Context, s session) (string, error) {
	version, _, err := oneRow(ctx, s, scanString, e.schemaVersionText)
	return version, err
}

func (e *returning) setMetadata(ctx context.Context, s session, p store.MetadataParams, metadata string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.setMetadataText.of(s), p.Key, p.If.String(), metadata, int64(p.Random))
}

func (e *returning) lockIntent(ctx context.Context, s session, id string) (in store.Intent, expired, found bool, err error) {
	in, found, err = oneRow(ctx, s, func(scan func(dest ...any) error) (store.Intent, error) {
		var r intentRow
		var over int64
		if err := scan(r.dest(&over)...); err != nil {
			return store.Intent{}, err
		}
		expired = over != 0
		return r.intent()
	}, e.lockIntentText.of(s), id)
	return in, expired, found, err
}

func (e *returning) lockObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.lockObjectText.of(s), key)
}

func (e *returning) insertIntent(ctx context.Context, s session, p store.InsertParams, metadata string) (store.Intent, bool, error) {
	direct := int64(0)
	if p.Direct {
		direct = 1
	}
	return oneRow(ctx, s, scanInserted(p, metadata), e.insertIntentText, p.ID, p.IdempotencyKey, p.Key, p.Expect.String(), p.BlobName,
		direct, metadata, p.Holder, micros(p.TTL), micros(p.MaxPending))
}

func (e *returning) findIntent(ctx context.Context, s session, idempotencyKey, id string) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.findIntentText, id, idempotencyKey)
}

func (e *returning) blobNameTaken(ctx context.Context, s session, name string) (bool, error) {
	n, _, err := oneRow(ctx, s, scanInt, e.blobNameText, name)
	return n > 0, err
}

func (e *returning) takeOver(ctx context.Context, s session, p store.TakeOverParams) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.takeOverText, p.ID, p.Version, p.Holder, micros(p.TTL))
}

func (e *returning) heartbeat(ctx context.Context, s session, p store.HeartbeatParams) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.heartbeatText, p.ID, p.Version, micros(p.TTL))
}

func (e *returning) abandon(ctx context.Context, s session, p store.AbandonParams) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.abandonText, p.ID, p.Version, p.Holder)
}

func (e *returning) getIntents(ctx context.Context, s session, ids string) ([]store.Intent, error) {
	return allRows(ctx, s, scanIntent, e.getIntentsText, ids)
}

func (e *returning) getObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.getObjectText, key)
}

func (e *returning) listObjects(ctx context.Context, s session, from, after, below string, limit int) ([]store.Object, error) {
	if below == "" {
		return allRows(ctx, s, scanObject, e.listText, from, after, int64(limit))
	}
	return allRows(ctx, s, scanObject, e.listBelowText, from, after, int64(limit), below)
}

func (e *returning) forget(ctx context.Context, s session, limit int) (int, error) {
	n, err := s.Exec(ctx, e.forgetText, int64(limit))
	return int(n), err
}
