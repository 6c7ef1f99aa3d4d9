package sqlstore

import (
	"cmp"
	"context"

	"github.com/blobtx/blobtx/store"
)

const (
	// sqlServerFresh is a version that no object has had.
	sqlServerFresh = `({now} / 1000 * 2097152 + @random)`
	sqlServerNext  = `CASE WHEN o.version >= ` + sqlServerFresh + ` THEN o.version + 1 ELSE ` + sqlServerFresh + ` END`

	// sqlServerMatches is for an object that is there.
	sqlServerMatches = `(@expect IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @expect + ',') > 0)`
)

// objectTexts makes the statements on objects.
func (e *sqlServerEngine) objectTexts(x, own func(string) string, both func(string) text) {
	e.lookText = both(`SELECT t.object_key, t.expect, t.blob_name, t.metadata, {now}, coalesce(o.version, 0), coalesce(o.created_at, 0),` +
		` coalesce(o.blob_name, 0x), coalesce(o.intent_id, 0x) FROM {intents} t` + sqlServerRow + ` LEFT JOIN {objects} o` + sqlServerRow +
		` ON o.object_key = t.object_key WHERE t.id = @p1 AND t.version = @p2 AND t.state = 'uploading' AND t.expires_at > {now}`)
	// Of two who found no object one comes too late. That is no error, which
	// with XACT_ABORT would cost the caller the transaction: inside TRY, and
	// without it, only the statement is undone (SQL Server, "SET XACT_ABORT").
	e.createText = both(`SET XACT_ABORT OFF; BEGIN TRY INSERT INTO {objects}` +
		` (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)` +
		` SELECT @p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p10` +
		` WHERE NOT EXISTS (SELECT 1 FROM {objects} o` + sqlServerNewest + ` WHERE o.object_key = @p1); SELECT @@ROWCOUNT; END TRY` +
		` BEGIN CATCH IF ERROR_NUMBER() NOT IN (2601, 2627) THROW; END CATCH`)
	e.replaceText = both(`UPDATE o SET version = @p2, blob_name = @p3, intent_id = @p4, etag = @p5, size = @p6, sha256 = @p7, content_type = @p8,` +
		` metadata = @p9, updated_at = @p10 OUTPUT inserted.version FROM {objects} o` + sqlServerRow + ` WHERE o.object_key = @p1`)
	e.committedText = both(`UPDATE t SET state = 'sealing', version = t.version + 1, attempts = 0, due_at = @p2, updated_at = @p3, result = @p4,` +
		` object_version = @p5, object_created_at = @p6, object_updated_at = @p3 FROM {intents} t` + sqlServerRow + ` WHERE t.id = @p1`)
	e.retireText = both(`INSERT INTO {retired} (blob_name, intent_id, due_at) VALUES (@p1, @p2, {now} + @p3)`)
	e.deleteText = both(`DELETE o OUTPUT ` + changed("deleted", "o.", objectColumns) + ` FROM {objects} o` + sqlServerRow +
		` WHERE o.object_key = @p1 AND ` + named(sqlServerMatches, "@expect", "@p2"))
	e.metadataText = both(`UPDATE o SET version = ` + named(sqlServerNext, "@random", "@p4") + `, metadata = @p3, updated_at = {now}` +
		` OUTPUT ` + changed("inserted", "o.", objectColumns) + ` FROM {objects} o` + sqlServerRow +
		` WHERE o.object_key = @p1 AND ` + named(sqlServerMatches, "@expect", "@p2"))
	e.lockIntentText = both(`SELECT {intent}, CASE WHEN t.expires_at <= {now} THEN 1 ELSE 0 END FROM {intents} t` + sqlServerRow + ` WHERE t.id = @p1`)
	e.lockObjectText = both(`SELECT {object} FROM {objects} o` + sqlServerNewest + ` WHERE o.object_key = @p1`)
	e.getObjectText = own(`SELECT {object} FROM {objects} o WHERE o.object_key = @p1`)
	page := `SELECT TOP (@p3) {object} FROM {objects} o WITH (FORCESEEK) WHERE o.object_key >= @p1 AND o.object_key > @p2`
	e.listText = own(page + ` ORDER BY o.object_key`)
	e.listBelowText = own(page + ` AND o.object_key < @p4 ORDER BY o.object_key`)
	e.clockText = x(`SELECT {now}`)
}

// commitObject looks, which locks the intent and the object, and writes what the
// look decided.
func (e *sqlServerEngine) commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	var l sqlServerLook
	o, ok, err := oneRow(ctx, s, l.scan(p), e.lookText.of(s), []byte(p.IntentID), p.Version)
	if err != nil || !ok || !l.holds() {
		return store.Object{}, false, err
	}
	query := e.createText
	if l.old.Version != 0 {
		query = e.replaceText
	}
	b := o.Blob
	n, _, err := oneRow(ctx, s, scanInt, query.of(s), []byte(o.Key), int64(o.Version), []byte(b.Name), []byte(o.IntentID), b.ETag, b.Size, b.SHA256,
		b.ContentType, l.metadata, l.now)
	if err != nil || n == 0 {
		return store.Object{}, false, err
	}
	if l.old.Version != 0 {
		if err := e.retire(ctx, s, l.old, micros(p.ReadGrace)); err != nil {
			return store.Object{}, false, err
		}
	}
	_, err = s.Exec(ctx, e.committedText.of(s), []byte(o.IntentID), l.now+micros(p.SealIn), l.now, facts, int64(o.Version), o.CreatedAt.UnixMicro())
	return o, err == nil, err
}

// sqlServerLook is what a commit finds. Old has what its successor must know of
// the object; its version is 0 if there is none.
type sqlServerLook struct {
	expect   store.Condition
	metadata string
	now      int64
	old      store.Object
}

func (l *sqlServerLook) holds() bool {
	if l.old.Version == 0 {
		return l.expect.Holds(nil)
	}
	return l.expect.Holds(&l.old)
}

// scan returns the object as it will be.
func (l *sqlServerLook) scan(p store.CommitParams) func(scan func(dest ...any) error) (store.Object, error) {
	return func(scan func(dest ...any) error) (store.Object, error) {
		o := store.Object{IntentID: p.IntentID, Blob: p.Blob}
		var expect string
		var version, created int64
		err := scan(&o.Key, &expect, &o.Blob.Name, &l.metadata, &l.now, &version, &created, &l.old.Blob.Name, &l.old.IntentID)
		if err == nil {
			err = l.expect.UnmarshalText([]byte(expect))
		}
		if err != nil {
			return store.Object{}, err
		}
		l.old.Version = store.Version(version)
		o.Version = store.NextVersion(l.old.Version, fromMicros(l.now), p.Random)
		o.CreatedAt, o.UpdatedAt = fromMicros(cmp.Or(created, l.now)), fromMicros(l.now)
		o.Metadata, err = parseMetadata(l.metadata)
		return o, err
	}
}

// retire records a name that the object has given up. No other can have done
// so: this one has the object locked.
func (e *sqlServerEngine) retire(ctx context.Context, s session, o store.Object, grace int64) error {
	_, err := s.Exec(ctx, e.retireText.of(s), []byte(o.Blob.Name), []byte(o.IntentID), grace)
	return err
}

func (e *sqlServerEngine) deleteObject(ctx context.Context, s session, p store.DeleteParams) (store.Object, bool, error) {
	o, ok, err := oneRow(ctx, s, scanObject, e.deleteText.of(s), []byte(p.Key), p.If.String())
	if err != nil || !ok {
		return o, ok, err
	}
	err = e.retire(ctx, s, o, micros(p.ReadGrace))
	return o, err == nil, err
}

func (e *sqlServerEngine) setMetadata(ctx context.Context, s session, p store.MetadataParams, metadata string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.metadataText.of(s), []byte(p.Key), p.If.String(), metadata, int64(p.Random))
}

func (e *sqlServerEngine) lockIntent(ctx context.Context, s session, id string) (in store.Intent, expired, found bool, err error) {
	in, found, err = oneRow(ctx, s, func(scan func(dest ...any) error) (store.Intent, error) {
		var r intentRow
		var over int64
		if err := scan(r.dest(&over)...); err != nil {
			return store.Intent{}, err
		}
		expired = over != 0
		return r.intent()
	}, e.lockIntentText.of(s), []byte(id))
	return in, expired, found, err
}

// lockObject does not keep the row: whatever is written next locks it itself.
func (e *sqlServerEngine) lockObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.lockObjectText.of(s), []byte(key))
}

func (e *sqlServerEngine) getObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.getObjectText, []byte(key))
}

func (e *sqlServerEngine) listObjects(ctx context.Context, s session, from, after, below string, limit int) ([]store.Object, error) {
	if below == "" {
		return allRows(ctx, s, scanObject, e.listText, atLeast(from), atLeast(after), int64(limit))
	}
	return allRows(ctx, s, scanObject, e.listBelowText, atLeast(from), atLeast(after), int64(limit), []byte(below))
}

// atLeast is where a listing begins: every key is greater than NUL.
func atLeast(key string) []byte {
	if key == "" {
		return []byte{0}
	}
	return []byte(key)
}
