package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// sqlite is SQLite 3.35 or later. One writer at a time holds the whole
// database, so after the first write of a transaction nothing else can change:
// the first statement of every step is a write, which also keeps a deferred
// transaction from ending in SQLITE_BUSY_SNAPSHOT half-way (SQLite,
// "Isolation In SQLite").
var sqlite = dialect{
	name: "sqlite",
	// Its clock has milliseconds and stands still within a statement (SQLite,
	// "Date And Time Functions").
	now:    `(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000{offset})`,
	engine: func(names *strings.Replacer) engine { return newSQLiteEngine(names.Replace) },
}

type sqliteEngine struct {
	returning
	commitIntent, commitRetire, commitUpsert string
	deleteText, retireText                   string
	clockText                                string
	dueIntents, takeIntents                  string
	dueRetired, takeRetired                  string
	intentsGone, intentsKept                 string
	retiredGone, retiredKept                 string
	tableCount                               string
}

const (
	sqliteHolds = `CASE %expect WHEN 'always' THEN 1` +
		` WHEN 'absent' THEN NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = %key)` +
		` WHEN 'exists' THEN EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = %key)` +
		` ELSE EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = %key AND instr(',' || %expect || ',', ',' || o.version || ',') > 0) END`
	sqliteMatches = `(?2 IN ('exists', 'always') OR instr(',' || ?2 || ',', ',' || o.version || ',') > 0)`
)

const sqliteSettlements = `(SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.state') AS state, json_extract(value, '$.version') AS version,` +
	` json_extract(value, '$.due') AS due, json_extract(value, '$.verdict') AS verdict, json_extract(value, '$.delay') AS delay, json_extract(value, '$.note') AS note` +
	` FROM json_each(?1))`

func sqliteCondition(expect, key string) string {
	return strings.NewReplacer("%expect", expect, "%key", key).Replace(sqliteHolds)
}

func newSQLiteEngine(x func(string) string) *sqliteEngine {
	one := func(s string) text { return text{x(s), x(s)} }
	return &sqliteEngine{
		returning: returning{
			setMetadataText: one(`UPDATE {objects} AS o SET version = max(o.version + 1, (({now} / 1000) << 21) | ?4), metadata = ?3, updated_at = {now}` +
				` WHERE o.object_key = ?1 AND ` + sqliteMatches + ` RETURNING ` + unaliased("o.", objectColumns)),
			// No lock is needed: these come after a write.
			lockIntentText: one(`SELECT {intent}, t.expires_at <= {now} FROM {intents} t WHERE t.id = ?1`),
			lockObjectText: one(`SELECT {object} FROM {objects} o WHERE o.object_key = ?1`),
			insertIntentText: x(`INSERT INTO {intents} (id, idempotency_key, object_key, expect, blob_name, direct, metadata,` +
				` state, version, holder, due_at, expires_at, created_at, updated_at)` +
				` SELECT ?1, nullif(?2, ''), ?3, ?4, ?5, ?6, ?7, 'uploading', 1, ?8, {now} + ?9, {now} + ?10, {now}, {now}` +
				` WHERE ` + sqliteCondition("?4", "?3") +
				` AND NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.blob_name = ?5) AND NOT EXISTS (SELECT 1 FROM {retired} r WHERE r.blob_name = ?5)` +
				` ON CONFLICT DO NOTHING RETURNING created_at`),
			findIntentText: x(`SELECT {intent} FROM {intents} t WHERE t.id = ?1 OR (?2 <> '' AND t.idempotency_key = ?2) ORDER BY t.id = ?1 DESC LIMIT 1`),
			blobNameText: x(`SELECT (SELECT count(*) FROM {intents} WHERE blob_name = ?1) + (SELECT count(*) FROM {objects} WHERE blob_name = ?1)` +
				` + (SELECT count(*) FROM {retired} WHERE blob_name = ?1)`),
			takeOverText: x(`UPDATE {intents} SET version = version + 1, holder = ?3, due_at = min({now} + ?4, expires_at), updated_at = {now}` +
				` WHERE id = ?1 AND state = 'uploading' AND (version = ?2 OR (?3 <> '' AND holder = ?3)) RETURNING ` + unaliased("t.", intentColumns)),
			heartbeatText: x(`UPDATE {intents} SET due_at = min({now} + ?3, expires_at), beats = beats + 1` +
				` WHERE id = ?1 AND state = 'uploading' AND version = ?2 RETURNING ` + unaliased("t.", intentColumns)),
			abandonText: x(`UPDATE {intents} SET state = 'abandoned', version = version + 1, watched = 0, idempotency_key = NULL, due_at = {now}, updated_at = {now}` +
				` WHERE id = ?1 AND state = 'uploading' AND (version = ?2 OR (?3 <> '' AND holder = ?3)) RETURNING ` + unaliased("t.", intentColumns)),
			getIntentsText: x(`SELECT {intent} FROM {intents} t WHERE t.id IN (SELECT value FROM json_each(?1))`),
			getObjectText:  x(`SELECT {object} FROM {objects} o WHERE o.object_key = ?1`),
			listText:       x(`SELECT {object} FROM {objects} o WHERE o.object_key >= ?1 AND o.object_key > ?2 ORDER BY o.object_key LIMIT ?3`),
			listBelowText:  x(`SELECT {object} FROM {objects} o WHERE o.object_key >= ?1 AND o.object_key > ?2 AND o.object_key < ?4 ORDER BY o.object_key LIMIT ?3`),
			forgetText: x(`DELETE FROM {intents} WHERE id IN (SELECT t.id FROM {intents} t WHERE t.state = 'done' AND t.due_at <= {now}` +
				` ORDER BY t.due_at, t.id LIMIT ?1)`),
			schemaVersionText: x(`SELECT value FROM {meta} WHERE name = 'schema_version'`),
		},

		// One statement decides; the two that follow it cannot meet anything else.
		commitIntent: x(`UPDATE {intents} AS t SET state = 'sealing', version = version + 1, attempts = 0, due_at = {now} + ?5, updated_at = {now}, result = ?3,` +
			` object_version = max(coalesce((SELECT o.version FROM {objects} o WHERE o.object_key = t.object_key), 0) + 1, (({now} / 1000) << 21) | ?4),` +
			` object_created_at = coalesce((SELECT o.created_at FROM {objects} o WHERE o.object_key = t.object_key), {now}), object_updated_at = {now}` +
			` WHERE t.id = ?1 AND t.state = 'uploading' AND t.version = ?2 AND t.expires_at > {now} AND ` + sqliteCondition("t.expect", "t.object_key")),
		commitRetire: x(`INSERT INTO {retired} (blob_name, intent_id, due_at) SELECT o.blob_name, o.intent_id, {now} + ?2 FROM {objects} o` +
			` WHERE o.object_key = (SELECT t.object_key FROM {intents} t WHERE t.id = ?1)`),
		commitUpsert: x(`INSERT INTO {objects} (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)` +
			` SELECT t.object_key, t.object_version, t.blob_name, t.id, ?2, ?3, ?4, ?5, t.metadata, t.object_created_at, t.object_updated_at FROM {intents} t WHERE t.id = ?1` +
			` ON CONFLICT (object_key) DO UPDATE SET version = excluded.version, blob_name = excluded.blob_name, intent_id = excluded.intent_id, etag = excluded.etag,` +
			` size = excluded.size, sha256 = excluded.sha256, content_type = excluded.content_type, metadata = excluded.metadata, updated_at = excluded.updated_at` +
			` RETURNING ` + unaliased("o.", objectColumns)),
		deleteText: x(`DELETE FROM {objects} AS o WHERE o.object_key = ?1 AND ` + sqliteMatches + ` RETURNING ` + unaliased("o.", objectColumns)),
		retireText: x(`INSERT INTO {retired} (blob_name, intent_id, due_at) SELECT ?1, ?2, {now} + ?3`),

		clockText:  x(`SELECT {now}`),
		dueIntents: x(`SELECT t.id FROM {intents} t WHERE t.state IN ('uploading', 'abandoned', 'sealing') AND t.due_at <= ?2 ORDER BY t.due_at, t.id LIMIT ?1`),
		takeIntents: x(`UPDATE {intents} SET version = version + (state = 'uploading'), watched = CASE state WHEN 'uploading' THEN 0 ELSE watched END,` +
			` idempotency_key = CASE state WHEN 'uploading' THEN NULL ELSE idempotency_key END,` +
			` attempts = CASE state WHEN 'uploading' THEN 1 ELSE attempts + 1 END,` +
			` updated_at = CASE state WHEN 'uploading' THEN ?2 ELSE updated_at END,` +
			` state = CASE state WHEN 'uploading' THEN 'abandoned' ELSE state END, due_at = ?2 + ?3` +
			` WHERE id IN (SELECT value FROM json_each(?1)) RETURNING ` + unaliased("t.", intentColumns)),
		dueRetired: x(`SELECT r.blob_name FROM {retired} r WHERE r.due_at <= ?2 ORDER BY r.due_at, r.blob_name LIMIT ?1`),
		takeRetired: x(`UPDATE {retired} SET due_at = ?2, attempts = attempts + 1 WHERE blob_name IN (SELECT value FROM json_each(?1))` +
			` RETURNING blob_name, intent_id, due_at, attempts, last_error, watched`),

		intentsGone: x(`DELETE FROM {intents} WHERE (id, state, version) IN (SELECT json_extract(value, '$.id'), json_extract(value, '$.state'), json_extract(value, '$.version') FROM json_each(?1))`),
		intentsKept: x(`UPDATE {intents} AS t SET state = CASE s.verdict WHEN 'done' THEN 'done' WHEN 'held' THEN 'held' ELSE t.state END,` +
			` version = t.version + (s.verdict <> 'retry'), watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END,` +
			` attempts = CASE WHEN s.verdict IN ('done', 'watch') THEN 0 ELSE t.attempts END, last_error = s.note,` +
			` due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE {now} + s.delay END, updated_at = {now}` +
			` FROM ` + sqliteSettlements + ` s WHERE t.id = s.id AND t.state = s.state AND t.version = s.version`),
		retiredGone: x(`DELETE FROM {retired} WHERE (blob_name, due_at) IN (SELECT json_extract(value, '$.id'), json_extract(value, '$.due') FROM json_each(?1))`),
		retiredKept: x(`UPDATE {retired} AS t SET last_error = s.note, due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE {now} + s.delay END,` +
			` watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END, attempts = CASE s.verdict WHEN 'watch' THEN 0 ELSE t.attempts END` +
			` FROM ` + sqliteSettlements + ` s WHERE t.blob_name = s.id AND t.due_at = s.due`),
		tableCount: `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1`,
	}
}

// unaliased drops a table's alias, which RETURNING does not know.
func unaliased(alias, columns string) string { return strings.ReplaceAll(columns, alias, "") }

// begin takes the write lock at once: BEGIN IMMEDIATE, which no driver's
// BeginTx sends unless its DSN says so.
func (e *sqliteEngine) begin(ctx context.Context, c *sql.Conn) (ownTx, error) {
	tx := &rawTx{sqlQuerier: sqlQuerier{c}, conn: c, ctx: ctx}
	if _, err := tx.Exec(context.WithoutCancel(ctx), "BEGIN IMMEDIATE"); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return tx, nil
}

// detach: a statement that is interrupted inside a transaction may roll the
// whole of it back, and those that follow run alone (SQLite, "Interrupt A
// Long-Running Query"). Statements here are short, and busy_timeout bounds
// their wait.
func (e *sqliteEngine) detach(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

func (e *sqliteEngine) savepoint() (set, back, release string) {
	return "SAVEPOINT blobtx_commit", "ROLLBACK TO blobtx_commit", "RELEASE blobtx_commit"
}

func (e *sqliteEngine) migrate(ctx context.Context, s session, _, meta string) (bool, error) {
	n, _, err := oneRow(ctx, s, scanInt, e.tableCount, meta)
	return n > 0, err
}

func (e *sqliteEngine) commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	n, err := s.Exec(ctx, e.commitIntent, p.IntentID, p.Version, facts, int64(p.Random), micros(p.SealIn))
	if err != nil || n == 0 {
		return store.Object{}, false, err
	}
	if _, err := s.Exec(ctx, e.commitRetire, p.IntentID, micros(p.ReadGrace)); err != nil {
		return store.Object{}, false, err
	}
	b := p.Blob
	return oneRow(ctx, s, scanObject, e.commitUpsert, p.IntentID, b.ETag, b.Size, b.SHA256, b.ContentType)
}

func (e *sqliteEngine) deleteObject(ctx context.Context, s session, p store.DeleteParams) (store.Object, bool, error) {
	o, ok, err := oneRow(ctx, s, scanObject, e.deleteText, p.Key, p.If.String())
	if err != nil || !ok {
		return o, ok, err
	}
	_, err = s.Exec(ctx, e.retireText, o.Blob.Name, o.IntentID, micros(p.ReadGrace))
	return o, err == nil, err
}

func (e *sqliteEngine) claimIntents(ctx context.Context, s session, limit int, lease, until int64) (int64, []store.Intent, error) {
	now, _, err := oneRow(ctx, s, scanInt, e.clockText)
	if err != nil {
		return 0, nil, err
	}
	due, err := allRows(ctx, s, scanString, e.dueIntents, int64(limit), min(now, until))
	if err != nil || len(due) == 0 {
		return now, nil, err
	}
	ids, err := json.Marshal(due)
	if err != nil {
		return 0, nil, err
	}
	taken, err := allRows(ctx, s, scanClaimed, e.takeIntents, string(ids), now, lease)
	inOrder(taken, due, func(in store.Intent) string { return in.ID })
	return now, taken, err
}

func (e *sqliteEngine) claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error) {
	names, err := allRows(ctx, s, scanString, e.dueRetired, int64(limit), until)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	text, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	taken, err := allRows(ctx, s, scanRetired, e.takeRetired, string(text), due)
	inOrder(taken, names, func(r store.Retired) string { return r.BlobName })
	return taken, err
}

// inOrder sorts rows as their names are listed: RETURNING has no order.
func inOrder[T any](rows []T, names []string, name func(T) string) {
	at := make(map[string]int, len(names))
	for i, n := range names {
		at[n] = i
	}
	slices.SortFunc(rows, func(a, b T) int { return cmp.Compare(at[name(a)], at[name(b)]) })
}

func (e *sqliteEngine) settlesAtOnce() bool { return false }

func (e *sqliteEngine) settleIntents(ctx context.Context, s session, batch []settlement) (int, error) {
	return settleParts(ctx, s, batch, e.intentsGone, e.intentsKept)
}

func (e *sqliteEngine) settleRetired(ctx context.Context, s session, batch []settlement) (int, error) {
	return settleParts(ctx, s, batch, e.retiredGone, e.retiredKept)
}

func settleParts(ctx context.Context, s session, batch []settlement, goneText, keptText string) (int, error) {
	gone, kept := split(batch)
	total := int64(0)
	for _, part := range []struct {
		query string
		batch []settlement
	}{{goneText, gone}, {keptText, kept}} {
		if len(part.batch) == 0 {
			continue
		}
		text, err := json.Marshal(part.batch)
		if err != nil {
			return 0, err
		}
		n, err := s.Exec(ctx, part.query, string(text))
		if err != nil {
			return 0, err
		}
		total += n
	}
	return int(total), nil
}
