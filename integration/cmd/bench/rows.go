package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// commitPairs compares an intent and its commit with two explicit transactions
// written by hand. Same pool.
func commitPairs(ctx context.Context, rounds int, span time.Duration) ([]figure, error) {
	var figures []figure
	for _, s := range servers {
		err := s.measured(ctx, func(db *sql.DB, rows *sqlstore.Store) error {
			byHand, err := s.pairByHand(ctx, db)
			if err != nil {
				return err
			}
			rates, err := alternate(ctx, s.workers, rounds, span, byHand, pair(rows))
			if err != nil {
				return err
			}
			fmt.Printf("%s, %d at once: intent and commit %6.0f/s, the same rows in two transactions by hand %6.0f/s\n", s.name, s.workers, rates[1], rates[0])
			figures = append(figures, figure{s.name + "_pairs_ratio", rates[1] / rates[0], s.pairs, false})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("commit pairs on %s: %w", s.name, err)
		}
	}
	return figures, nil
}

// alternate runs each contestant in turn, and returns the medians of their
// rates. The first round warms up.
func alternate(ctx context.Context, workers, rounds int, span time.Duration, contestants ...func(ctx context.Context, id string) error) ([]float64, error) {
	rates := make([][]float64, len(contestants))
	for round := range rounds + 1 {
		for i, one := range contestants {
			rate, err := rate(ctx, workers, span, one)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[i] = append(rates[i], rate)
			}
		}
	}
	medians := make([]float64, len(contestants))
	for i := range rates {
		medians[i] = median(rates[i])
	}
	return medians, nil
}

func rate(ctx context.Context, workers int, span time.Duration, do func(ctx context.Context, id string) error) (float64, error) {
	var (
		wg    sync.WaitGroup
		done  atomic.Int64
		first atomic.Pointer[error]
		start = time.Now()
	)
	for range workers {
		wg.Go(func() {
			for time.Since(start) < span && first.Load() == nil {
				if err := do(ctx, uuid.NewString()); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), nil
}

func pair(rows *sqlstore.Store) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		_, err := rows.InsertIntent(ctx, store.InsertParams{
			ID: id, Key: "key/" + id, BlobName: "blob/" + id, Holder: id, TTL: time.Hour, MaxPending: time.Hour,
		})
		if err != nil {
			return err
		}
		_, err = rows.CommitObjects(ctx, []store.CommitParams{{
			IntentID: id, Version: 1, Key: "key/" + id, Creates: true, SealIn: time.Hour,
			Blob: store.Blob{ETag: `"0x8DC000000000000"`, Size: 4096, SHA256: digest, ContentType: "application/octet-stream"},
		}})
		return err
	}
}

// pairByHand writes the same rows, in tables of the same form: the intent; then
// its compare-and-set and the object.
func (s server) pairByHand(ctx context.Context, db *sql.DB) (func(ctx context.Context, id string) error, error) {
	tables, err := sqlstore.New(db, s.dialect, &sqlstore.Options{Prefix: "hand_"})
	if err != nil {
		return nil, err
	}
	if err := tables.Migrate(ctx); err != nil {
		return nil, err
	}
	var prepared []*sql.Stmt
	for _, query := range []string{
		`INSERT INTO hand_intents (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at)
			VALUES (?, ?, 'absent', ?, 0, '{}', 'uploading', 1, ?, ?, ?, ?, ?)`,
		`UPDATE hand_intents SET state = 'sealing', version = 2, due_at = ?, updated_at = ?, result = ? WHERE id = ? AND version = 1 AND state = 'uploading'`,
		`INSERT INTO hand_objects (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, 4096, ?, 'application/octet-stream', '{}', ?, ?)`,
	} {
		one, err := db.PrepareContext(ctx, s.text(query))
		if err != nil {
			return nil, err
		}
		prepared = append(prepared, one)
	}
	insert, update, object := prepared[0], prepared[1], prepared[2]
	hour := time.Hour.Microseconds()
	return func(ctx context.Context, id string) error {
		now := time.Now().UnixMicro()
		err := inTx(ctx, db, func(tx *sql.Tx) error {
			return one(tx.StmtContext(ctx, insert).ExecContext(ctx, id, "key/"+id, "blob/"+id, id, now+hour, now+hour, now, now))
		})
		if err != nil {
			return err
		}
		now = time.Now().UnixMicro()
		return inTx(ctx, db, func(tx *sql.Tx) error {
			result := `{"etag":"\"0x8DC000000000000\"","size":4096,"sha256":"` + digest + `"}`
			if err := one(tx.StmtContext(ctx, update).ExecContext(ctx, now+hour, now, result, id)); err != nil {
				return err
			}
			return one(tx.StmtContext(ctx, object).ExecContext(ctx, "key/"+id, now, "blob/"+id, id, `"0x8DC000000000000"`, digest, now, now))
		})
	}, nil
}

// claims compares claiming in batches with what a loop over due rows does that
// changes each by compare-and-set.
func claims(ctx context.Context, rounds int, _ time.Duration) ([]figure, error) {
	const due, batch = 1024, 256
	var figures []figure
	for _, s := range servers {
		err := s.measured(ctx, func(db *sql.DB, rows *sqlstore.Store) error {
			var ours, byHand []float64
			for range rounds {
				if err := abandonable(ctx, rows, due); err != nil {
					return err
				}
				start, n := time.Now(), 0
				for n < due {
					claimed, err := rows.Claim(ctx, store.ClaimParams{Limit: batch, Lease: time.Hour})
					if err != nil {
						return err
					}
					n += len(claimed.Intents)
				}
				ours = append(ours, due/time.Since(start).Seconds())
				if err := abandonable(ctx, rows, due); err != nil {
					return err
				}
				start = time.Now()
				if err := s.claimEach(ctx, db, due); err != nil {
					return err
				}
				byHand = append(byHand, due/time.Since(start).Seconds())
			}
			fmt.Printf("%s: claims %6.0f/s, a compare-and-set for each row %6.0f/s\n", s.name, median(ours), median(byHand))
			figures = append(figures, figure{s.name + "_claims_ratio", median(ours) / median(byHand), 5, false})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("claims on %s: %w", s.name, err)
		}
	}
	return figures, nil
}

// abandonable inserts intents that are due at once.
func abandonable(ctx context.Context, rows *sqlstore.Store, n int) error {
	for range n {
		id := uuid.NewString()
		_, err := rows.InsertIntent(ctx, store.InsertParams{ID: id, Key: "due/" + id, BlobName: "due/" + id, Holder: id, MaxPending: time.Hour})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s server) claimEach(ctx context.Context, db *sql.DB, n int) error {
	list, err := db.QueryContext(ctx, s.text(`SELECT id, version FROM blobtx_intents WHERE state = 'uploading' ORDER BY due_at, id LIMIT ?`), n)
	if err != nil {
		return err
	}
	type row struct {
		id      string
		version int64
	}
	var due []row
	for list.Next() {
		var r row
		if err := list.Scan(&r.id, &r.version); err != nil {
			return err
		}
		due = append(due, r)
	}
	if err := list.Close(); err != nil {
		return err
	}
	if len(due) != n {
		return fmt.Errorf("%d rows are due, not %d", len(due), n)
	}
	claim, err := db.PrepareContext(ctx, s.text(`UPDATE blobtx_intents SET state = 'abandoned', version = version + 1, due_at = ? WHERE id = ? AND version = ? AND state = 'uploading'`))
	if err != nil {
		return err
	}
	defer claim.Close()
	for _, r := range due {
		if _, err := claim.ExecContext(ctx, time.Now().Add(time.Hour).UnixMicro(), r.id, r.version); err != nil {
			return err
		}
	}
	return nil
}

// dueCost compares what a due intent costs beside a million objects, each with
// its intent, with what it costs beside ten thousand.
func dueCost(ctx context.Context, rounds int, _ time.Duration) ([]figure, error) {
	var figures []figure
	for _, s := range servers {
		err := s.measured(ctx, func(few *sql.DB, small *sqlstore.Store) error {
			return s.measured(ctx, func(many *sql.DB, large *sqlstore.Store) error {
				if err := s.fill(ctx, few, 10_000); err != nil {
					return err
				}
				if err := s.fill(ctx, many, 1_000_000); err != nil {
					return err
				}
				var cost [2][]float64
				for round := range rounds + 1 {
					for i, rows := range []*sqlstore.Store{small, large} {
						us, err := settleDue(ctx, rows)
						if err != nil {
							return err
						}
						if round > 0 {
							cost[i] = append(cost[i], us)
						}
					}
				}
				a, b := median(cost[0]), median(cost[1])
				fmt.Printf("%s: a due intent claimed and settled in %.0f µs beside 10,000 objects, %.0f µs beside 1,000,000\n", s.name, a, b)
				figures = append(figures, figure{s.name + "_due_ratio", b / a, 1.2, true})
				return nil
			})
		})
		if err != nil {
			return nil, fmt.Errorf("due intents on %s: %w", s.name, err)
		}
	}
	return figures, nil
}

// fill makes n objects, each with the intent that made it, still remembered.
func (s server) fill(ctx context.Context, db *sql.DB, n int) error {
	numbers := strings.ReplaceAll(s.numbers, "COUNT", fmt.Sprint(n))
	name := "lpad(n, 9, '0')"
	switch s.driver {
	case "pgx":
		name = "lpad(n::text, 9, '0')"
	case "sqlite":
		name = "printf('%09d', n)"
	}
	if s.driver == "mysql" {
		name = "CAST(" + name + " AS BINARY)"
	}
	for _, statement := range []string{
		`INSERT INTO blobtx_objects (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at)
			SELECT NAME, 1, NAME, NAME, 'e', 4096, '` + digest + `', '', '{}', 1, 1 FROM (NUMBERS) numbers`,
		`INSERT INTO blobtx_intents (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at)
			SELECT NAME, NAME, 'absent', NAME, 0, '{}', 'done', 3, '', 4000000000000000 + n, 1, 1, 1 FROM (NUMBERS) numbers`,
	} {
		statement = strings.NewReplacer("NAME", name, "NUMBERS", numbers).Replace(statement)
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	for _, table := range []string{"blobtx_objects", "blobtx_intents"} {
		list, err := db.QueryContext(ctx, strings.ReplaceAll(s.refresh, "TABLE_", table))
		if err != nil {
			return err
		}
		if err := list.Close(); err != nil {
			return err
		}
	}
	return nil
}

// settleDue returns what it takes to claim an intent and to settle it, in µs.
func settleDue(ctx context.Context, rows *sqlstore.Store) (float64, error) {
	const due = 512
	if err := abandonable(ctx, rows, due); err != nil {
		return 0, err
	}
	start := time.Now()
	for n := 0; n < due; {
		claimed, err := rows.Claim(ctx, store.ClaimParams{Limit: 128, Lease: time.Hour})
		if err != nil {
			return 0, err
		}
		settled := make([]store.IntentSettlement, len(claimed.Intents))
		for i, in := range claimed.Intents {
			settled[i] = store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToGone}
		}
		done, err := rows.SettleIntents(ctx, settled)
		if err != nil {
			return 0, err
		}
		n += done
	}
	return float64(time.Since(start).Microseconds()) / due, nil
}
