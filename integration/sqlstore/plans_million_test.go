package sqlstore_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// manyRows is a million, or BLOBTX_TEST_ROWS in a hurry.
func manyRows(t *testing.T) int {
	text := os.Getenv("BLOBTX_TEST_ROWS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// planned is how a test of plans speaks to a server.
var planned = map[sqlstore.Dialect]struct {
	freeze  string // keeps the statistics as they are; per table
	refresh string // makes them anew; per table
	plans   int    // how many are looked at
}{
	sqlstore.Postgres: {`ALTER TABLE TABLE_ SET (autovacuum_enabled = false)`, `ANALYZE TABLE_`, 24},
	sqlstore.MySQL:    {`ALTER TABLE TABLE_ STATS_AUTO_RECALC = 0`, `ANALYZE TABLE TABLE_`, 28},
	sqlstore.SQLite:   {`ANALYZE TABLE_`, `ANALYZE TABLE_`, 20},
}

// TestPlansAmongManyRows: every statement of a sweeper, and the reading of
// intents, finds its rows by an index, and what takes due rows reads them in the
// order of the index, so that it ends after as many as it wants. So it is with
// the statistics of when the tables were empty, with fresh ones, and with plans
// that a connection has kept from when they were empty (PostgreSQL, PREPARE:
// generic plans).
func TestPlansAmongManyRows(t *testing.T) {
	looked, good := 0, 0
	for _, d := range []database{embedded[1], servers[0], mariadbs[1]} {
		t.Run(d.name, func(t *testing.T) {
			x := newPlans(t, d)
			x.eachTable(planned[d.dialect].freeze)
			for range 8 { // PostgreSQL plans the first five executions for themselves
				x.sweep()
			}
			x.fill(manyRows(t))
			x.kept("kept from empty tables")
			x.asSent("statistics of empty tables")
			x.eachTable(planned[d.dialect].refresh)
			x.asSent("fresh statistics")
			x.kept("kept since there are statistics")
			require.Equal(t, planned[d.dialect].plans, x.looked)
			looked, good = looked+x.looked, good+x.good
		})
	}
	fmt.Printf("plans=%d ok=%d\n", looked, good)
}

// plans looks at the plans of what one connection sends.
type plans struct {
	*testing.T
	database
	sent         *recorded
	store        *sqlstore.Store
	looked, good int
}

func newPlans(t *testing.T, d database) *plans {
	x := &plans{T: t, database: d, sent: d.record(t)}
	x.sent.SetMaxOpenConns(1)
	x.store = d.store(t, x.sent.DB, nil)
	return x
}

func (x *plans) eachTable(statement string) {
	for _, table := range []string{"blobtx_intents", "blobtx_retired"} {
		rows, err := x.sent.plain.QueryContext(x.Context(), strings.ReplaceAll(statement, "TABLE_", table))
		require.NoError(x, err)
		for rows.Next() { // ANALYZE says how it went
		}
		require.NoError(x, rows.Err())
		require.NoError(x, rows.Close())
	}
}

// fill makes n intents and n retired names. A third are due, as after days
// without a sweeper: it would tempt a planner to read the table and sort.
func (x *plans) fill(n int) {
	due := n / 3
	start := time.Now()
	later := fmt.Sprintf("%d + n %% 1000", int64(never))
	x.database.fill(x, x.sent.plain, "due", due, "CASE n % 3 WHEN 0 THEN 'done' WHEN 1 THEN 'abandoned' ELSE 'sealing' END", "1 + n % 7")
	x.database.fill(x, x.sent.plain, "later", n-due, "'done'", later)
	x.Logf("%d rows each, filled in %v", n, time.Since(start).Round(time.Second))
}

// sweep does all that a sweeper does, in both of the ways that a settlement ends.
func (x *plans) sweep() {
	ctx := x.Context()
	c, err := x.store.Claim(ctx, store.ClaimParams{Limit: 60, Lease: time.Hour})
	require.NoError(x, err)
	ids := []string{"nobody", "nobody else"}
	intents := []store.IntentSettlement{{ID: "nobody", State: store.Sealing, To: store.ToDone}}
	verdicts := []store.Verdict{store.ToGone, store.ToWatch}
	for i, in := range c.Intents {
		one := store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToDone, In: time.Hour}
		if in.State == store.Abandoned {
			one.To = verdicts[i/2%2] // every other intent is
		}
		ids, intents = append(ids, in.ID), append(intents, one)
	}
	retired := []store.RetiredSettlement{{BlobName: "nobody", To: store.ToGone}}
	for i, r := range c.Retired {
		retired = append(retired, store.RetiredSettlement{BlobName: r.BlobName, DueAt: r.DueAt, To: verdicts[i%2], In: time.Hour})
	}
	_, err = x.store.GetIntents(ctx, ids)
	require.NoError(x, err)
	_, err = x.store.SettleIntents(ctx, intents)
	require.NoError(x, err)
	_, err = x.store.SettleRetired(ctx, retired)
	require.NoError(x, err)
	_, err = x.store.Forget(ctx, 30)
	require.NoError(x, err)
}

// asSent sweeps and has each statement planned as it was sent.
func (x *plans) asSent(when string) {
	x.sent.take()
	x.sweep()
	for _, one := range x.sent.take() {
		if ofSweeper(one.text) {
			x.look(when, one.text, x.explain(one))
		}
	}
}

// kept looks at the plans that the connection keeps. Only PostgreSQL has any.
func (x *plans) kept(when string) {
	if x.dialect != sqlstore.Postgres {
		return
	}
	for text, plan := range keptPlans(x.T, x.sent.DB, "JSON") {
		if ofSweeper(text) {
			x.look(when, text, postgresPlan(x.T, plan))
		}
	}
}

func ofSweeper(text string) bool {
	return strings.Contains(text, "blobtx_intents") || strings.Contains(text, "blobtx_retired")
}

// look requires that no table is read whole, and that due rows come by their
// index.
func (x *plans) look(when, text string, p plan) {
	x.looked++
	takesDue := strings.Contains(text, "ORDER BY t.due_at") || strings.Contains(text, "ORDER BY r.due_at")
	switch {
	case len(p.reads) == 0:
		x.Errorf("%s: no table is read\n%s\n%s", when, text, p.text)
	case p.whole():
		x.Errorf("%s: a table is read whole\n%s\n%s", when, text, p.text)
	case takesDue && (!p.by("due") || p.sorts):
		x.Errorf("%s: what is due does not come in the order of its index\n%s\n%s", when, text, p.text)
	default:
		x.good++
	}
}
