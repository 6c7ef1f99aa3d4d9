package sqlstore_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// A connection keeps the plan of a prepared statement that it made when the
// tables were empty (PostgreSQL, PREPARE: generic plans). None on an upload's way
// may read a whole table, or commits grow slower by the thousand.
func TestPlansKeptFromEmptyTablesStayFlat(t *testing.T) {
	db := open(t, "pgx", services.Postgres(t))
	db.SetMaxOpenConns(1)
	s, err := sqlstore.New(db, sqlstore.Postgres, nil)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	ctx := t.Context()
	for n := range 12 { // more than the five executions that are planned anew
		in := upload(t, s, fmt.Sprint("k", n%3), store.Always())
		_, err := s.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: in.Version, TTL: time.Hour})
		require.NoError(t, err)
		_, err = s.CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
		_, err = s.SettleIntents(ctx, []store.IntentSettlement{{ID: in.ID, State: store.Sealing, Version: in.Version + 1, To: store.ToDone, In: time.Hour}})
		require.NoError(t, err)
		_, err = s.GetObject(ctx, in.Key)
		require.NoError(t, err)
	}
	plans := keptPlans(t, db, "TEXT")
	require.GreaterOrEqual(t, len(plans), 5, "too few statements were prepared")
	for text, plan := range plans {
		for _, table := range []string{"blobtx_intents", "blobtx_objects", "blobtx_retired"} {
			require.NotContains(t, plan, "Seq Scan on "+table, "%s\n%s", text, plan)
		}
	}
}

// keptPlans explains every statement that the one connection has prepared, as
// it would run it next, with a generic plan, in this format.
func keptPlans(t *testing.T, db *sql.DB, format string) map[string]string {
	t.Helper()
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	rows, err := c.QueryContext(t.Context(), `SELECT name, statement, array_to_string(parameter_types, ',') FROM pg_prepared_statements WHERE statement LIKE '%blobtx\_%' AND generic_plans > 0`)
	require.NoError(t, err)
	type prepared struct{ name, text, types string }
	var all []prepared
	for rows.Next() {
		var p prepared
		require.NoError(t, rows.Scan(&p.name, &p.text, &p.types))
		all = append(all, p)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	_, err = c.ExecContext(t.Context(), `SET plan_cache_mode = force_generic_plan`)
	require.NoError(t, err)
	plans := make(map[string]string)
	for _, p := range all {
		explain := `EXPLAIN (FORMAT ` + format + `) EXECUTE "` + p.name + `"`
		if p.types != "" {
			args := strings.Split(p.types, ",")
			for i, kind := range args {
				args[i] = map[string]string{"bigint": "1", "text": "'[]'"}[kind]
				require.NotEmpty(t, args[i], "parameter of type %s", kind)
			}
			explain += "(" + strings.Join(args, ", ") + ")"
		}
		lines, err := c.QueryContext(t.Context(), explain)
		require.NoError(t, err, p.text)
		var plan strings.Builder
		for lines.Next() {
			var line string
			require.NoError(t, lines.Scan(&line))
			plan.WriteString(line + "\n")
		}
		require.NoError(t, lines.Err())
		require.NoError(t, lines.Close())
		plans[p.text] = plan.String()
	}
	return plans
}
