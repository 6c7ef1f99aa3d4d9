package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// postgres is PostgreSQL 12 or later. Every step but Claim and a commit of
// several uploads is one statement when it succeeds.
//
// A statement at READ COMMITTED sees the rows committed before it began, but
// what it changes or locks it looks at once more in its newest form
// (PostgreSQL, "Transaction Isolation"). Hence two habits below. A row is
// first locked, in a MATERIALIZED part, and then changed by its key, never by
// a version that the scan of the old snapshot would compare. And a write that
// met no row says nothing: the code that calls it looks under a lock and runs
// it again.
//
// Parameters have casts, because drivers ask the server for types or guess
// them, each in its own way.
var postgres = dialect{
	name:    "postgres",
	schemas: true,
	// Statement time: now() stands still inside a transaction (PostgreSQL,
	// "Date/Time Functions").
	now:    `((extract(epoch FROM clock_timestamp()) * 1000000)::bigint{offset})`,
	engine: func(names *strings.Replacer) engine { return newPostgresEngine(names) },
}

type postgresEngine struct {
	returning
	createText, commitText, deleteText text
	clockText                          string
	claimIntentsText                   string
	claimRetiredText                   string
	settleIntentsText                  string
	settleRetiredText                  string
}

const (
	// postgresClock is the database's clock, read once. In steps of our own it
	// also bounds the wait for locks: set_config with is_local holds until the
	// end of the transaction, which for a lone statement is its own end, and
	// the part is computed before any row that depends on it is locked.
	postgresClock = `WITH clock AS MATERIALIZED (SELECT {now} AS us{bound})`

	postgresMatches = `($2::text IN ('exists', 'always') OR o.version::text = ANY (string_to_array($2::text, ',')))`
	postgresExpects = `(i.expect IN ('exists', 'always') OR o.version::text = ANY (string_to_array(i.expect, ',')))`

	// Each join below says twice which row it means, once as a value. A plan
	// that a connection has kept since the tables were empty would otherwise
	// join by reading them whole, and go on doing so while they grow.
	postgresCommit = postgresClock + `,
i AS MATERIALIZED (
  SELECT t.id, t.object_key, t.expect, t.blob_name, t.metadata FROM {intents} t
  WHERE t.id = $1::text AND t.version = $2::bigint AND t.state = 'uploading' AND t.expires_at > (SELECT us FROM clock)
  FOR NO KEY UPDATE),
old AS MATERIALIZED (
  SELECT o.object_key, o.blob_name, o.intent_id FROM i JOIN {objects} o ON o.object_key = i.object_key
  WHERE o.object_key = (SELECT i.object_key FROM i) AND ` + postgresExpects + ` FOR NO KEY UPDATE OF o),
upd AS (
  UPDATE {objects} o SET version = greatest(o.version + 1, ((c.us / 1000) << 21) | $7::bigint), blob_name = i.blob_name, intent_id = i.id,
    etag = $3::text, size = $4::bigint, sha256 = $5::text, content_type = $6::text, metadata = i.metadata, updated_at = c.us
  FROM old, i, clock c
  WHERE o.object_key = old.object_key AND o.object_key = (SELECT old.object_key FROM old) AND ` + postgresExpects + `
  RETURNING o.intent_id, o.version, o.created_at, o.updated_at, old.blob_name AS old_blob, old.intent_id AS old_intent),
ins AS (
  INSERT INTO {objects} AS o (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)
  SELECT i.object_key, ((c.us / 1000) << 21) | $7::bigint, i.blob_name, i.id, $3::text, $4::bigint, $5::text, $6::text, i.metadata, c.us, c.us
  FROM i, clock c WHERE i.expect IN ('absent', 'always') AND NOT EXISTS (SELECT 1 FROM upd)
  ON CONFLICT (object_key) DO NOTHING RETURNING o.intent_id, o.version, o.created_at, o.updated_at),
gone AS (
  INSERT INTO {retired} (blob_name, intent_id, due_at)
  SELECT upd.old_blob, upd.old_intent, c.us + $8::bigint FROM upd, clock c ON CONFLICT DO NOTHING),
o AS (SELECT intent_id, version, created_at, updated_at FROM upd UNION ALL SELECT intent_id, version, created_at, updated_at FROM ins)
UPDATE {intents} t SET state = 'sealing', version = t.version + 1, attempts = 0, due_at = c.us + $9::bigint, updated_at = c.us, result = $10::text,
  object_version = o.version, object_created_at = o.created_at, object_updated_at = o.updated_at
FROM o, clock c WHERE t.id = o.intent_id AND t.id = $1::text
RETURNING t.object_key, t.blob_name, t.metadata, o.version, o.created_at, o.updated_at`

	// postgresCreate is postgresCommit for an intent that expects no object:
	// fewer parts, and a statement's parts cost as much as its work.
	postgresCreate = postgresClock + `,
i AS MATERIALIZED (
  SELECT t.id, t.object_key, t.blob_name, t.metadata FROM {intents} t
  WHERE t.id = $1::text AND t.version = $2::bigint AND t.state = 'uploading' AND t.expect = 'absent' AND t.expires_at > (SELECT us FROM clock)
  FOR NO KEY UPDATE),
o AS (
  INSERT INTO {objects} AS o (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)
  SELECT i.object_key, ((c.us / 1000) << 21) | $7::bigint, i.blob_name, i.id, $3::text, $4::bigint, $5::text, $6::text, i.metadata, c.us, c.us
  FROM i, clock c ON CONFLICT (object_key) DO NOTHING RETURNING o.intent_id, o.version, o.created_at)
UPDATE {intents} t SET state = 'sealing', version = t.version + 1, attempts = 0, due_at = o.created_at + $8::bigint, updated_at = o.created_at, result = $9::text,
  object_version = o.version, object_created_at = o.created_at, object_updated_at = o.created_at
FROM o WHERE t.id = o.intent_id AND t.id = $1::text
RETURNING t.object_key, t.blob_name, t.metadata, o.version, o.created_at, o.created_at`

	postgresDelete = postgresClock + `,
o AS (
  DELETE FROM {objects} o USING clock c WHERE o.object_key = $1::text AND ` + postgresMatches + `
  RETURNING {object}),
gone AS (
  INSERT INTO {retired} (blob_name, intent_id, due_at)
  SELECT o.blob_name, o.intent_id, c.us + $3::bigint FROM o, clock c ON CONFLICT DO NOTHING)
SELECT {object} FROM o`

	postgresMetadata = postgresClock + `
UPDATE {objects} o SET version = greatest(o.version + 1, ((c.us / 1000) << 21) | $4::bigint), metadata = $3::text, updated_at = c.us
FROM clock c WHERE o.object_key = $1::text AND ` + postgresMatches + `
RETURNING {object}`

	postgresInsert = postgresClock + `
INSERT INTO {intents} AS t (id, idempotency_key, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at)
SELECT $1::text, nullif($2::text, ''), $3::text, $4::text, $5::text, $6::bigint, $7::text, 'uploading', 1, $8::text, c.us + $9::bigint, c.us + $10::bigint, c.us, c.us
FROM clock c
WHERE CASE $4::text
    WHEN 'always' THEN true
    WHEN 'absent' THEN NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = $3::text)
    ELSE EXISTS (SELECT 1 FROM {objects} o WHERE o.object_key = $3::text
      AND ($4::text = 'exists' OR o.version::text = ANY (string_to_array($4::text, ',')))) END
  AND NOT EXISTS (SELECT 1 FROM {objects} o WHERE o.blob_name = $5::text)
  AND NOT EXISTS (SELECT 1 FROM {retired} r WHERE r.blob_name = $5::text)
ON CONFLICT DO NOTHING
RETURNING t.created_at`

	postgresTakeOver = postgresClock + `
UPDATE {intents} t SET version = t.version + 1, holder = $3::text, due_at = least(c.us + $4::bigint, t.expires_at), updated_at = c.us
FROM clock c WHERE t.id = $1::text AND t.state = 'uploading' AND (t.version = $2::bigint OR ($3::text <> '' AND t.holder = $3::text))
RETURNING {intent}`

	// A locked row cannot be claimed, and is left alone.
	postgresHeartbeat = postgresClock + `,
free AS MATERIALIZED (
  SELECT t.id FROM {intents} t WHERE t.id = $1::text AND t.state = 'uploading' AND t.version = $2::bigint
  FOR NO KEY UPDATE SKIP LOCKED)
UPDATE {intents} t SET due_at = least(c.us + $3::bigint, t.expires_at), beats = t.beats + 1
FROM free, clock c WHERE t.id = free.id AND t.id = $1::text
RETURNING {intent}`

	postgresAbandon = postgresClock + `
UPDATE {intents} t SET state = 'abandoned', version = t.version + 1, watched = 0, idempotency_key = NULL, due_at = c.us, updated_at = c.us
FROM clock c WHERE t.id = $1::text AND t.state = 'uploading' AND (t.version = $2::bigint OR ($3::text <> '' AND t.holder = $3::text))
RETURNING {intent}`

	// postgresByIndex is for the transactions of a sweeper. Due rows are found by
	// their index, whatever a connection knew of the tables when it planned: that
	// they were empty, say. Compiling such a plan never pays.
	postgresByIndex = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)`

	// The fence is in the claim: what was uploading is abandoned from here on. A
	// row that is locked stays in its place (ctid).
	postgresClaimIntents = `WITH clock AS MATERIALIZED (SELECT {now} AS us),
due AS MATERIALIZED (
  SELECT t.ctid AS place, t.id, t.due_at FROM {intents} t
  WHERE t.state IN ('uploading', 'abandoned', 'sealing') AND t.due_at <= least((SELECT us FROM clock), $3::bigint)
  ORDER BY t.due_at, t.id LIMIT $1::bigint FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE {intents} t SET
    state = CASE t.state WHEN 'uploading' THEN 'abandoned' ELSE t.state END,
    version = CASE t.state WHEN 'uploading' THEN t.version + 1 ELSE t.version END,
    watched = CASE t.state WHEN 'uploading' THEN 0 ELSE t.watched END,
    idempotency_key = CASE t.state WHEN 'uploading' THEN NULL ELSE t.idempotency_key END,
    attempts = CASE t.state WHEN 'uploading' THEN 1 ELSE t.attempts + 1 END,
    updated_at = CASE t.state WHEN 'uploading' THEN c.us ELSE t.updated_at END,
    due_at = c.us + $2::bigint
  FROM due, clock c WHERE t.ctid = due.place AND t.id = due.id
  RETURNING t.*, due.due_at AS was_due)
SELECT {intent}, c.us FROM taken t, clock c ORDER BY t.was_due, t.id`

	postgresClaimRetired = `WITH due AS MATERIALIZED (
  SELECT r.ctid AS place, r.blob_name, r.due_at FROM {retired} r WHERE r.due_at <= $3::bigint
  ORDER BY r.due_at, r.blob_name LIMIT $1::bigint FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE {retired} r SET due_at = $2::bigint, attempts = r.attempts + 1 FROM due WHERE r.ctid = due.place AND r.blob_name = due.blob_name
  RETURNING r.*, due.due_at AS was_due)
SELECT t.blob_name, t.intent_id, t.due_at, t.attempts, t.last_error, t.watched FROM taken t ORDER BY t.was_due, t.blob_name`

	// The rows are met one by one, and the fate is compared by equality: both
	// keep plans from reading whole tables, see postgresCommit.
	postgresSettlements = `s AS MATERIALIZED (
  SELECT *, CASE verdict WHEN 'gone' THEN 'gone' ELSE 'kept' END AS fate
  FROM jsonb_to_recordset($1::text::jsonb) AS r(id text, state text, version bigint, due bigint, verdict text, delay bigint, note text)
  ORDER BY id COLLATE "C")`

	postgresSettleIntents = `WITH clock AS MATERIALIZED (SELECT {now} AS us),
` + postgresSettlements + `,
free AS MATERIALIZED (
  SELECT t.id, s.verdict, s.delay, s.note, s.fate FROM s CROSS JOIN LATERAL (
    SELECT t.id FROM {intents} t WHERE t.id = s.id AND t.state = s.state AND t.version = s.version FOR UPDATE SKIP LOCKED) t),
gone AS (DELETE FROM {intents} t USING free f WHERE t.id = f.id AND f.fate = 'gone' RETURNING 1),
kept AS (
  UPDATE {intents} t SET
    state = CASE f.verdict WHEN 'done' THEN 'done' WHEN 'held' THEN 'held' ELSE t.state END,
    version = CASE f.verdict WHEN 'retry' THEN t.version ELSE t.version + 1 END,
    watched = CASE f.verdict WHEN 'watch' THEN 1 ELSE t.watched END,
    attempts = CASE WHEN f.verdict IN ('done', 'watch') THEN 0 ELSE t.attempts END,
    due_at = CASE f.verdict WHEN 'held' THEN NULL ELSE c.us + f.delay END,
    last_error = f.note, updated_at = c.us
  FROM free f, clock c WHERE t.id = f.id AND f.fate = 'kept' RETURNING 1)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM kept)`

	postgresSettleRetired = `WITH clock AS MATERIALIZED (SELECT {now} AS us),
` + postgresSettlements + `,
free AS MATERIALIZED (
  SELECT t.blob_name, s.verdict, s.delay, s.note, s.fate FROM s CROSS JOIN LATERAL (
    SELECT t.blob_name FROM {retired} t WHERE t.blob_name = s.id AND t.due_at = s.due FOR UPDATE SKIP LOCKED) t),
gone AS (DELETE FROM {retired} t USING free f WHERE t.blob_name = f.blob_name AND f.fate = 'gone' RETURNING 1),
kept AS (
  UPDATE {retired} t SET due_at = CASE f.verdict WHEN 'held' THEN NULL ELSE c.us + f.delay END, last_error = f.note,
    watched = CASE f.verdict WHEN 'watch' THEN 1 ELSE t.watched END, attempts = CASE f.verdict WHEN 'watch' THEN 0 ELSE t.attempts END
  FROM free f, clock c WHERE t.blob_name = f.blob_name AND f.fate = 'kept' RETURNING 1)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM kept)`

	postgresForget = `WITH due AS MATERIALIZED (
  SELECT t.ctid AS place, t.id FROM {intents} t WHERE t.state = 'done' AND t.due_at <= {now}
  ORDER BY t.due_at, t.id LIMIT $1::bigint FOR UPDATE SKIP LOCKED)
DELETE FROM {intents} t USING due WHERE t.ctid = due.place AND t.id = due.id`
)

func newPostgresEngine(names *strings.Replacer) *postgresEngine {
	x := names.Replace
	both := func(s string) text { return text{x(s), x(strings.ReplaceAll(s, "{bound}", ""))} }
	return &postgresEngine{
		returning: returning{
			setMetadataText:  both(postgresMetadata),
			lockIntentText:   both(postgresClock + ` SELECT {intent}, CASE WHEN t.expires_at <= c.us THEN 1 ELSE 0 END FROM clock c, {intents} t WHERE t.id = $1::text FOR NO KEY UPDATE OF t`),
			lockObjectText:   both(postgresClock + ` SELECT {object} FROM clock c, {objects} o WHERE o.object_key = $1::text FOR NO KEY UPDATE OF o`),
			insertIntentText: x(postgresInsert),
			findIntentText: x(`SELECT {intent} FROM {intents} t WHERE t.id = $1::text OR ($2::text <> '' AND t.idempotency_key = $2::text)` +
				` ORDER BY t.id = $1::text DESC LIMIT 1`),
			blobNameText: x(`SELECT (SELECT count(*) FROM {intents} t WHERE t.blob_name = $1::text) + (SELECT count(*) FROM {objects} o WHERE o.blob_name = $1::text)` +
				` + (SELECT count(*) FROM {retired} r WHERE r.blob_name = $1::text)`),
			takeOverText:  x(postgresTakeOver),
			heartbeatText: x(postgresHeartbeat),
			abandonText:   x(postgresAbandon),
			getIntentsText: x(`SELECT {intent} FROM (SELECT DISTINCT jsonb_array_elements_text($1::text::jsonb) AS id) s` +
				` CROSS JOIN LATERAL (SELECT * FROM {intents} t WHERE t.id = s.id OFFSET 0) t`), // one by one, see postgresCommit
			getObjectText:     x(`SELECT {object} FROM {objects} o WHERE o.object_key = $1::text`),
			listText:          x(`SELECT {object} FROM {objects} o WHERE o.object_key >= $1::text AND o.object_key > $2::text ORDER BY o.object_key LIMIT $3::bigint`),
			listBelowText:     x(`SELECT {object} FROM {objects} o WHERE o.object_key >= $1::text AND o.object_key > $2::text AND o.object_key < $4::text ORDER BY o.object_key LIMIT $3::bigint`),
			forgetText:        x(postgresForget),
			schemaVersionText: x(`SELECT value FROM {meta} WHERE name = 'schema_version'`),
		},
		createText:        both(postgresCreate),
		commitText:        both(postgresCommit),
		deleteText:        both(postgresDelete),
		clockText:         x(`SELECT {now}`),
		claimIntentsText:  x(postgresClaimIntents),
		claimRetiredText:  x(postgresClaimRetired),
		settleIntentsText: x(postgresSettleIntents),
		settleRetiredText: x(postgresSettleRetired),
	}
}

func (e *postgresEngine) commitsAtOnce() {}

// driverTx is a transaction of our own, by the driver's BeginTx.
type driverTx struct {
	sqlQuerier
	tx *sqlTx
}

func (t driverTx) commit() error { return t.tx.Commit() }
func (t driverTx) rollback()     { _ = t.tx.Rollback() } // database/sql gives a broken connection up

func (e *postgresEngine) begin(ctx context.Context, c *sql.Conn) (ownTx, error) {
	tx, err := beginSQL(ctx, c, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	return driverTx{sqlQuerier{tx}, tx}, nil
}

// detach: a statement that is cancelled fails its transaction, which then
// refuses everything until it is rolled back.
func (e *postgresEngine) detach(ctx context.Context) context.Context { return ctx }

func (e *postgresEngine) savepoint() (set, back, release string) {
	return "SAVEPOINT blobtx_commit", "ROLLBACK TO SAVEPOINT blobtx_commit", "RELEASE SAVEPOINT blobtx_commit"
}

// migrate takes the lock that others wait for until the transaction ends
// (PostgreSQL, "Explicit Locking": advisory locks), makes the schema, and lets
// the files' unqualified names mean it.
func (e *postgresEngine) migrate(ctx context.Context, s session, schema, meta string) (bool, error) {
	if _, err := s.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('blobtx migrate'))`); err != nil {
		return false, err
	}
	name := `"` + meta + `"`
	if schema != "" {
		n, _, err := oneRow(ctx, s, scanInt, `SELECT count(*) FROM pg_namespace WHERE nspname = $1::text`, schema)
		if err != nil {
			return false, err
		}
		if n == 0 {
			if _, err := s.Exec(ctx, `CREATE SCHEMA "`+schema+`"`); err != nil {
				return false, err
			}
		}
		if _, err := s.Exec(ctx, `SET LOCAL search_path TO "`+schema+`"`); err != nil {
			return false, err
		}
		name = `"` + schema + `".` + name
	}
	n, _, err := oneRow(ctx, s, scanInt, `SELECT CASE WHEN to_regclass($1::text) IS NULL THEN 0 ELSE 1 END`, name)
	return n > 0, err
}

func (e *postgresEngine) commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	b := p.Blob
	if p.Creates {
		return oneRow(ctx, s, scanCommitted(p), e.createText.of(s), p.IntentID, p.Version, b.ETag, b.Size, b.SHA256, b.ContentType,
			int64(p.Random), micros(p.SealIn), facts)
	}
	return oneRow(ctx, s, scanCommitted(p), e.commitText.of(s), p.IntentID, p.Version, b.ETag, b.Size, b.SHA256, b.ContentType,
		int64(p.Random), micros(p.ReadGrace), micros(p.SealIn), facts)
}

func (e *postgresEngine) deleteObject(ctx context.Context, s session, p store.DeleteParams) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.deleteText.of(s), p.Key, p.If.String(), micros(p.ReadGrace))
}

func (e *postgresEngine) claimIntents(ctx context.Context, s session, limit int, lease, until int64) (now int64, in []store.Intent, err error) {
	if _, err = s.Exec(ctx, postgresByIndex); err != nil {
		return 0, nil, err
	}
	err = s.Query(ctx, e.claimIntentsText, []any{int64(limit), lease, until}, func(scan func(dest ...any) error) error {
		var r intentRow
		if err := scan(r.dest(&now)...); err != nil {
			return err
		}
		in = append(in, r.claimed())
		return nil
	})
	if err == nil && len(in) == 0 {
		now, _, err = oneRow(ctx, s, scanInt, e.clockText)
	}
	return now, in, err
}

func (e *postgresEngine) forget(ctx context.Context, s session, limit int) (int, error) {
	tx, err := e.begin(ctx, s.alone)
	if err != nil {
		return 0, err
	}
	defer tx.rollback() // nothing after a commit
	if _, err := tx.Exec(ctx, postgresByIndex); err != nil {
		return 0, err
	}
	n, err := s.within(tx).Exec(ctx, e.forgetText, int64(limit))
	if err != nil {
		return 0, err
	}
	return int(n), tx.commit()
}

func (e *postgresEngine) claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error) {
	return allRows(ctx, s, scanRetired, e.claimRetiredText, int64(limit), due, until)
}

func (e *postgresEngine) settlesAtOnce() bool { return true }

func (e *postgresEngine) settleIntents(ctx context.Context, s session, batch []settlement) (int, error) {
	return e.settle(ctx, s, e.settleIntentsText, batch)
}

func (e *postgresEngine) settleRetired(ctx context.Context, s session, batch []settlement) (int, error) {
	return e.settle(ctx, s, e.settleRetiredText, batch)
}

func (e *postgresEngine) settle(ctx context.Context, s session, query string, batch []settlement) (int, error) {
	text, err := json.Marshal(batch)
	if err != nil {
		return 0, err
	}
	n, _, err := oneRow(ctx, s, scanInt, query, string(text))
	return int(n), err
}
