package sqlstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// What the columns hold, in bytes.
const (
	sqlServerMaxID       = 255
	sqlServerMaxBlobName = 1690 // with due_at, an index entry has 1,698 of 1,700
)

func named(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// intentTexts makes the statements on intents outside a commit.
func (e *sqlServerEngine) intentTexts(x, own func(string) string) {
	// Who comes too late for an id, a key or a name while it is being inserted
	// has an error that says so. This statement stands alone, so nothing else
	// is lost with it.
	insert := func(key, free string) string {
		return own(`INSERT INTO {intents} (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at, idempotency_key)` +
			` OUTPUT inserted.created_at` +
			` SELECT @p1, @p2, @p3, @p4, @p5, @p6, 'uploading', 1, @p7, {now} + @p8, {now} + @p9, {now}, {now}, ` + key +
			` WHERE (@p3 = 'always' OR (@p3 = 'absent' AND NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = @p2))` +
			` OR EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = @p2 AND ` + named(sqlServerMatches, "@expect", "@p3") + `))` +
			` AND NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM {retired} r WHERE r.blob_name = @p4)` +
			` AND NOT EXISTS (SELECT 1 FROM {intents} t WHERE t.id = @p1) AND NOT EXISTS (SELECT 1 FROM {intents} t WHERE t.blob_name = @p4)` + free)
	}
	// The index of idempotency keys has only those that are set; IS NOT NULL
	// says that it is enough.
	byKey := ` WHERE t.idempotency_key = %key AND t.idempotency_key IS NOT NULL`
	e.insertText = insert(`NULL`, ``)
	e.insertKeyedText = insert(`@p10`, ` AND NOT EXISTS (SELECT 1 FROM {intents} t`+named(byKey, "%key", "@p10")+`)`)
	e.intentByIDText = own(`SELECT {intent} FROM {intents} t WHERE t.id = @p1`)
	e.intentByKeyText = own(`SELECT {intent} FROM {intents} t` + named(byKey, "%key", "@p1"))
	e.blobNameText = own(`SELECT (SELECT COUNT_BIG(*) FROM {intents} t WHERE t.blob_name = @p1) + (SELECT COUNT_BIG(*) FROM {objects} o WHERE o.blob_name = @p1)` +
		` + (SELECT COUNT_BIG(*) FROM {retired} r WHERE r.blob_name = @p1)`)

	changedIntent := ` OUTPUT ` + changed("inserted", "t.", sqlServerIntent) + ` FROM {intents} t`
	mine := ` WHERE t.id = @p1 AND t.state = 'uploading' AND (t.version = @p2 OR (@p3 <> 0x AND t.holder = @p3))`
	due := `CASE WHEN {now} + @ttl < t.expires_at THEN {now} + @ttl ELSE t.expires_at END`
	e.takeOverText = own(`UPDATE t SET version = t.version + 1, holder = @p3, due_at = ` + named(due, "@ttl", "@p4") + `, updated_at = {now}` +
		changedIntent + sqlServerRow + mine)
	e.beatText = own(`UPDATE t SET due_at = ` + named(due, "@ttl", "@p3") + `, beats = t.beats + 1` +
		changedIntent + sqlServerFree + ` WHERE t.id = @p1 AND t.state = 'uploading' AND t.version = @p2`)
	e.abandonText = own(`UPDATE t SET state = 'abandoned', version = t.version + 1, watched = 0, idempotency_key = NULL, due_at = {now}, updated_at = {now}` +
		changedIntent + sqlServerRow + mine)
	e.getIntentsText = own(`SELECT {intent} FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$') s JOIN {intents} t WITH (FORCESEEK) ON t.id = ` + sqlServerID)
}

// sqlServerID is a name out of a JSON text, where it is in hexadecimal: JSON is
// UTF-16 there.
const sqlServerID = `CONVERT(VARBINARY(1700), s.id, 2)`

// hexNames returns what can be stored.
func hexNames(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		if len(name) <= sqlServerMaxBlobName {
			all = append(all, hex.EncodeToString([]byte(name)))
		}
	}
	return all
}

func (e *sqlServerEngine) insertIntent(ctx context.Context, s session, p store.InsertParams, metadata string) (store.Intent, bool, error) {
	for _, one := range []struct {
		what, text string
		limit      int
	}{{"intent id", p.ID, sqlServerMaxID}, {"holder", p.Holder, sqlServerMaxID}, {"blob name", p.BlobName, sqlServerMaxBlobName}} {
		if err := tooLong(one.what, one.text, one.limit); err != nil {
			return store.Intent{}, false, err
		}
	}
	direct := int64(0)
	if p.Direct {
		direct = 1
	}
	query := e.insertText
	args := []any{
		[]byte(p.ID), []byte(p.Key), p.Expect.String(), []byte(p.BlobName), direct, metadata,
		[]byte(p.Holder), micros(p.TTL), micros(p.MaxPending),
	}
	if p.IdempotencyKey != "" {
		query = e.insertKeyedText
		args = append(args, []byte(p.IdempotencyKey))
	}
	in, ok, err := oneRow(ctx, s, scanInserted(p, metadata), query, args...)
	if classify(err)&duplicate != 0 {
		return store.Intent{}, false, nil
	}
	return in, ok, err
}

func (e *sqlServerEngine) findIntent(ctx context.Context, s session, idempotencyKey, id string) (store.Intent, bool, error) {
	in, found, err := oneRow(ctx, s, scanIntent, e.intentByIDText, []byte(id))
	if err != nil || found || idempotencyKey == "" {
		return in, found, err
	}
	return oneRow(ctx, s, scanIntent, e.intentByKeyText, []byte(idempotencyKey))
}

func (e *sqlServerEngine) blobNameTaken(ctx context.Context, s session, name string) (bool, error) {
	n, _, err := oneRow(ctx, s, scanInt, e.blobNameText, []byte(name))
	return n > 0, err
}

func (e *sqlServerEngine) takeOver(ctx context.Context, s session, p store.TakeOverParams) (store.Intent, bool, error) {
	if err := tooLong("holder", p.Holder, sqlServerMaxID); err != nil {
		return store.Intent{}, false, err
	}
	return oneRow(ctx, s, scanIntent, e.takeOverText, []byte(p.ID), p.Version, []byte(p.Holder), micros(p.TTL))
}

func (e *sqlServerEngine) heartbeat(ctx context.Context, s session, p store.HeartbeatParams) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.beatText, []byte(p.ID), p.Version, micros(p.TTL))
}

func (e *sqlServerEngine) abandon(ctx context.Context, s session, p store.AbandonParams) (store.Intent, bool, error) {
	return oneRow(ctx, s, scanIntent, e.abandonText, []byte(p.ID), p.Version, []byte(p.Holder))
}

func (e *sqlServerEngine) getIntents(ctx context.Context, s session, ids string) ([]store.Intent, error) {
	var all []string
	if err := json.Unmarshal([]byte(ids), &all); err != nil {
		return nil, err
	}
	text, err := json.Marshal(hexNames(all))
	if err != nil {
		return nil, err
	}
	return allRows(ctx, s, scanIntent, e.getIntentsText, string(text))
}
