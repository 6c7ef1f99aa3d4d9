package sqlstore

import (
	"context"
	"slices"

	"github.com/blobtx/blobtx/store"
)

// sweepTexts makes the statements of claims and settlements. What is taken is
// read under locks that skip those of others, then written by its names: in a
// derived table of an UPDATE, MariaDB reads SKIP LOCKED and waits all the same.
func (e *mysqlEngine) sweepTexts(x, own func(string) string) {
	e.dueIntentsText = own(`SELECT {intent} FROM {intents} t FORCE INDEX (due) WHERE t.state IN ('uploading', 'abandoned', 'sealing') AND t.due_at <= ?` +
		` ORDER BY t.due_at, t.id LIMIT ? FOR UPDATE SKIP LOCKED`)
	// Assignments are made one after the other: the state is the last.
	e.takeIntentsText = x(`UPDATE {intents} t FORCE INDEX (PRIMARY) SET t.version = CASE t.state WHEN 'uploading' THEN t.version + 1 ELSE t.version END,` +
		` t.watched = CASE t.state WHEN 'uploading' THEN 0 ELSE t.watched END,` +
		` t.idempotency_key = CASE t.state WHEN 'uploading' THEN NULL ELSE t.idempotency_key END,` +
		` t.attempts = CASE t.state WHEN 'uploading' THEN 1 ELSE t.attempts + 1 END,` +
		` t.updated_at = CASE t.state WHEN 'uploading' THEN ? ELSE t.updated_at END, t.due_at = ?,` +
		` t.state = CASE t.state WHEN 'uploading' THEN 'abandoned' ELSE t.state END WHERE t.id IN ` + list)
	e.dueRetiredText = own(`SELECT r.blob_name, r.intent_id, r.due_at, r.attempts, r.last_error, r.watched FROM {retired} r FORCE INDEX (due) WHERE r.due_at <= ?` +
		` ORDER BY r.due_at, r.blob_name LIMIT ? FOR UPDATE SKIP LOCKED`)
	e.takeRetiredText = x(`UPDATE {retired} r FORCE INDEX (PRIMARY) SET r.due_at = ?, r.attempts = r.attempts + 1 WHERE r.blob_name IN ` + list)

	e.freeIntentsText = own(`SELECT t.id, t.state, t.version, {now} FROM {intents} t FORCE INDEX (PRIMARY) WHERE t.id IN ` + list + ` ORDER BY t.id FOR UPDATE SKIP LOCKED`)
	e.intentsKeptText = x(`UPDATE {intents} t FORCE INDEX (PRIMARY) SET t.version = t.version + ?, t.watched = greatest(t.watched, ?), t.attempts = t.attempts * ?,` +
		` t.last_error = ?, t.due_at = nullif(?, 0), t.updated_at = ?, t.state = ? WHERE t.id IN ` + list)
	e.freeRetiredText = own(`SELECT r.blob_name, coalesce(r.due_at, 0), {now} FROM {retired} r FORCE INDEX (PRIMARY) WHERE r.blob_name IN ` + list + ` ORDER BY r.blob_name FOR UPDATE SKIP LOCKED`)
	e.retiredKeptText = x(`UPDATE {retired} r FORCE INDEX (PRIMARY) SET r.watched = greatest(r.watched, ?), r.attempts = r.attempts * ?,` +
		` r.last_error = ?, r.due_at = nullif(?, 0) WHERE r.blob_name IN ` + list)
	e.dueDoneText = own(`SELECT t.id FROM {intents} t FORCE INDEX (due) WHERE t.state = 'done' AND t.due_at <= {now}` +
		` ORDER BY t.due_at, t.id LIMIT ? FOR UPDATE SKIP LOCKED`)
	// An alias would need a default database.
	e.intentsGoneText = x(`DELETE {intents} FROM {intents} FORCE INDEX (PRIMARY) WHERE id IN ` + list)
	e.retiredGoneText = x(`DELETE {retired} FROM {retired} FORCE INDEX (PRIMARY) WHERE blob_name IN ` + list)
}

func (e *mysqlEngine) claimIntents(ctx context.Context, s session, limit int, lease, until int64) (int64, []store.Intent, error) {
	now, _, err := oneRow(ctx, s, scanInt, e.clockText)
	if err != nil {
		return 0, nil, err
	}
	taken, err := allRows(ctx, s, scanClaimed, e.dueIntentsText, min(now, until), int64(min(limit, mysqlMaxList)))
	if err != nil || len(taken) == 0 {
		return now, nil, err
	}
	ids := make([]string, len(taken))
	for i := range taken {
		in := &taken[i]
		ids[i] = in.ID
		in.Attempts++
		in.DueAt = fromMicros(now + lease)
		if in.State == store.Uploading {
			in.State, in.Version, in.Watched, in.IdempotencyKey = store.Abandoned, in.Version+1, false, ""
			in.Attempts, in.UpdatedAt = 1, fromMicros(now)
		}
	}
	query, args := inList(e.takeIntentsText, ids, now, now+lease)
	_, err = s.Exec(ctx, query, args...)
	return now, taken, err
}

func (e *mysqlEngine) claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error) {
	taken, err := allRows(ctx, s, scanRetired, e.dueRetiredText, until, int64(min(limit, mysqlMaxList)))
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	names := make([]string, len(taken))
	for i := range taken {
		names[i] = taken[i].BlobName
		taken[i].Attempts++
		taken[i].DueAt = fromMicros(due)
	}
	query, args := inList(e.takeRetiredText, names, due)
	_, err = s.Exec(ctx, query, args...)
	return taken, err
}

// fate is what a settlement writes. Rows with one fate are written together.
type fate struct {
	verdict store.Verdict
	state   store.State // before
	delay   int64
	note    string
}

// fates sorts a batch by what is to be written; what is false stays as it is.
func fates(batch []settlement, free func(settlement) bool) (gone []string, kept map[fate][]string, order []fate) {
	kept = make(map[fate][]string)
	for _, one := range batch {
		if !free(one) {
			continue
		}
		if one.Verdict == store.ToGone {
			gone = append(gone, one.ID)
			continue
		}
		f := fate{one.Verdict, one.State, one.Delay, one.Note}
		if kept[f] == nil {
			order = append(order, f)
		}
		kept[f] = append(kept[f], one.ID)
	}
	return gone, kept, order
}

// due is 0 for never.
func (f fate) due(now int64) int64 {
	if f.verdict == store.ToHeld {
		return 0
	}
	return now + f.delay
}

func (f fate) next() (state store.State, step, watched, attempts int64) {
	state, step, attempts = f.state, 1, 1
	switch f.verdict {
	case store.ToDone:
		state, attempts = store.Done, 0
	case store.ToHeld:
		state = store.Held
	case store.ToWatch:
		watched, attempts = 1, 0
	case store.ToRetry:
		step = 0
	}
	return state, step, watched, attempts
}

func names(batch []settlement) []string {
	ids := make([]string, len(batch))
	for i, one := range batch {
		ids[i] = one.ID
	}
	return ids
}

// rowVersion is what a settlement compares.
type rowVersion struct {
	state store.State
	n     int64 // an intent's version, or when a retired name is due
}

// settleIntents locks what is free in the order of the ids, and compares.
func (e *mysqlEngine) settleIntents(ctx context.Context, s session, batch []settlement) (n int, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		free := make(map[string]rowVersion)
		query, args := inList(e.freeIntentsText, names(batch))
		err := s.Query(ctx, query, args, func(scan func(dest ...any) error) error {
			var id, state string
			var version int64
			err := scan(&id, &state, &version, &now)
			free[id] = rowVersion{store.State(state), version}
			return err
		})
		if err != nil {
			return err
		}
		gone, kept, order := fates(batch, func(one settlement) bool { return take(free, one.ID, rowVersion{one.State, one.Version}) })
		n = len(gone)
		if err := e.remove(ctx, s, e.intentsGoneText, gone); err != nil {
			return err
		}
		for _, f := range order {
			state, step, watched, attempts := f.next()
			query, args := inList(e.intentsKeptText, kept[f], step, watched, attempts, f.note, f.due(now), now, string(state))
			if _, err := s.Exec(ctx, query, args...); err != nil {
				return err
			}
			n += len(kept[f])
		}
		return nil
	})
	return n, err
}

func (e *mysqlEngine) settleRetired(ctx context.Context, s session, batch []settlement) (n int, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		free := make(map[string]rowVersion)
		query, args := inList(e.freeRetiredText, names(batch))
		err := s.Query(ctx, query, args, func(scan func(dest ...any) error) error {
			var name string
			var due int64
			err := scan(&name, &due, &now)
			free[name] = rowVersion{"", due}
			return err
		})
		if err != nil {
			return err
		}
		gone, kept, order := fates(batch, func(one settlement) bool { return take(free, one.ID, rowVersion{"", one.Due}) })
		n = len(gone)
		if err := e.remove(ctx, s, e.retiredGoneText, gone); err != nil {
			return err
		}
		for _, f := range order {
			_, _, watched, attempts := f.next()
			query, args := inList(e.retiredKeptText, kept[f], watched, attempts, f.note, f.due(now))
			if _, err := s.Exec(ctx, query, args...); err != nil {
				return err
			}
			n += len(kept[f])
		}
		return nil
	})
	return n, err
}

// take reports whether the row is free and as expected; a second settlement of
// it in one batch comes too late.
func take(free map[string]rowVersion, id string, want rowVersion) bool {
	got, ok := free[id]
	if !ok || got != want {
		return false
	}
	delete(free, id)
	return true
}

func (e *mysqlEngine) remove(ctx context.Context, s session, query string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	query, args := inList(query, ids)
	_, err := s.Exec(ctx, query, args...)
	return err
}

func (e *mysqlEngine) forget(ctx context.Context, s session, limit int) (n int, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		ids, err := allRows(ctx, s, scanString, e.dueDoneText, int64(min(limit, mysqlMaxList)))
		if err != nil {
			return err
		}
		slices.Sort(ids)
		n = len(ids)
		return e.remove(ctx, s, e.intentsGoneText, ids)
	})
	return n, err
}
