package sqlstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/blobtx/blobtx/store"
)

// sqlServerSettlements unpacks settlements. Texts of two columns compare only
// under a collation that is named.
const sqlServerSettlements = ` FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$.id', state NVARCHAR(16) '$.state', version BIGINT '$.version',` +
	` due BIGINT '$.due', verdict NVARCHAR(16) '$.verdict', delay BIGINT '$.delay', note NVARCHAR(1000) '$.note') s`

// sweepTexts makes the statements of claims and settlements.
func (e *sqlServerEngine) sweepTexts(own func(string) string) {
	due := `SELECT TOP (@p1) t.* FROM {intents} t` + sqlServerFree
	e.claimIntentsText = own(`WITH due AS (` + due + ` WHERE t.state IN ('uploading', 'abandoned', 'sealing') AND t.due_at <= @p2 ORDER BY t.due_at, t.id)` +
		` UPDATE due SET state = CASE state WHEN 'uploading' THEN 'abandoned' ELSE state END,` +
		` version = CASE state WHEN 'uploading' THEN version + 1 ELSE version END,` +
		` watched = CASE state WHEN 'uploading' THEN 0 ELSE watched END,` +
		` idempotency_key = CASE state WHEN 'uploading' THEN NULL ELSE idempotency_key END,` +
		` attempts = CASE state WHEN 'uploading' THEN 1 ELSE attempts + 1 END,` +
		` updated_at = CASE state WHEN 'uploading' THEN @p3 ELSE updated_at END, due_at = @p4` +
		` OUTPUT ` + changed("inserted", "t.", sqlServerIntent) + `, deleted.due_at`)
	e.claimRetiredText = own(`WITH due AS (SELECT TOP (@p1) r.* FROM {retired} r` + sqlServerFree + ` WHERE r.due_at <= @p2 ORDER BY r.due_at, r.blob_name)` +
		` UPDATE due SET due_at = @p3, attempts = attempts + 1` +
		` OUTPUT inserted.blob_name, inserted.intent_id, inserted.due_at, inserted.attempts, inserted.last_error, inserted.watched, deleted.due_at`)

	intents := sqlServerSettlements + ` JOIN {intents} t` + sqlServerFree + ` ON t.id = ` + sqlServerID +
		` WHERE t.version = s.version AND t.state = s.state COLLATE Latin1_General_100_BIN2`
	e.intentsGoneText = own(`DELETE t` + intents)
	e.intentsKeptText = own(`UPDATE t SET state = CASE s.verdict WHEN 'done' THEN 'done' WHEN 'held' THEN 'held' ELSE t.state END,` +
		` version = CASE s.verdict WHEN 'retry' THEN t.version ELSE t.version + 1 END,` +
		` watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END,` +
		` attempts = CASE WHEN s.verdict IN ('done', 'watch') THEN 0 ELSE t.attempts END,` +
		` due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE {now} + s.delay END, last_error = s.note, updated_at = {now}` + intents)
	retired := sqlServerSettlements + ` JOIN {retired} t` + sqlServerFree + ` ON t.blob_name = ` + sqlServerID + ` WHERE t.due_at = s.due`
	e.retiredGoneText = own(`DELETE t` + retired)
	e.retiredKeptText = own(`UPDATE t SET due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE {now} + s.delay END, last_error = s.note,` +
		` watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END, attempts = CASE s.verdict WHEN 'watch' THEN 0 ELSE t.attempts END` + retired)
	e.forgetText = own(`WITH due AS (` + due + ` WHERE t.state = 'done' AND t.due_at <= {now} ORDER BY t.due_at, t.id) DELETE FROM due`)
}

// claimed is a row and when it was due: what OUTPUT returns has no order.
type claimed[T any] struct {
	row  T
	name string
	due  int64
}

func byDue[T any](rows []claimed[T]) []T {
	slices.SortFunc(rows, func(a, b claimed[T]) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.name, b.name)) })
	all := make([]T, len(rows))
	for i, one := range rows {
		all[i] = one.row
	}
	return all
}

func (e *sqlServerEngine) claimIntents(ctx context.Context, s session, limit int, lease, until int64) (int64, []store.Intent, error) {
	now, _, err := oneRow(ctx, s, scanInt, e.clockText)
	if err != nil {
		return 0, nil, err
	}
	rows, err := allRows(ctx, s, func(scan func(dest ...any) error) (claimed[store.Intent], error) {
		var r intentRow
		var was int64
		if err := scan(r.dest(&was)...); err != nil {
			return claimed[store.Intent]{}, err
		}
		in := r.claimed()
		return claimed[store.Intent]{in, in.ID, was}, nil
	}, e.claimIntentsText, int64(limit), min(now, until), now, now+lease)
	return now, byDue(rows), err
}

func (e *sqlServerEngine) claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error) {
	rows, err := allRows(ctx, s, func(scan func(dest ...any) error) (claimed[store.Retired], error) {
		var was int64
		r, err := scanRetired(func(dest ...any) error { return scan(append(dest, &was)...) })
		return claimed[store.Retired]{r, r.BlobName, was}, err
	}, e.claimRetiredText, int64(limit), until, due)
	return byDue(rows), err
}

func (e *sqlServerEngine) settlesAtOnce() bool { return false }

func (e *sqlServerEngine) settleIntents(ctx context.Context, s session, batch []settlement) (int, error) {
	return e.settle(ctx, s, batch, e.intentsGoneText, e.intentsKeptText)
}

func (e *sqlServerEngine) settleRetired(ctx context.Context, s session, batch []settlement) (int, error) {
	return e.settle(ctx, s, batch, e.retiredGoneText, e.retiredKeptText)
}

func (e *sqlServerEngine) settle(ctx context.Context, s session, batch []settlement, goneText, keptText string) (int, error) {
	hexed := make([]settlement, 0, len(batch))
	for _, one := range batch {
		if len(one.ID) <= sqlServerMaxBlobName { // others are not stored
			one.ID = hex.EncodeToString([]byte(one.ID))
			hexed = append(hexed, one)
		}
	}
	return settleParts(ctx, s, hexed, goneText, keptText)
}

func (e *sqlServerEngine) forget(ctx context.Context, s session, limit int) (int, error) {
	n, err := s.Exec(ctx, e.forgetText, int64(limit))
	return int(n), err
}
