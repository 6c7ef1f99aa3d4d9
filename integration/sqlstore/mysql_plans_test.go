package sqlstore_test

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// A small table is soonest read whole, which would lock, and wait for, every row
// in it: no statement that locks may do so, though all the rows are wanted.
func TestMySQLNoStatementThatLocksReadsATableWhole(t *testing.T) {
	db, w := mariadbs[0].openCounted(t)
	s := mariadbs[0].store(t, db, nil)
	ctx := t.Context()
	var intents []store.IntentSettlement
	for range 12 {
		in := upload(t, s, "k", store.Always())
		_, err := s.CommitObjects(ctx, []store.CommitParams{commit(in, 1)})
		require.NoError(t, err)
	}
	upload(t, s, "k", store.Always())
	_, err := db.ExecContext(ctx, "ANALYZE TABLE blobtx_intents, blobtx_objects, blobtx_retired")
	require.NoError(t, err)
	w.take()
	claimed, err := s.Claim(ctx, store.ClaimParams{Limit: 100, Lease: time.Hour})
	require.NoError(t, err)
	require.Len(t, claimed.Intents, 12)
	for i, in := range claimed.Intents {
		to := store.ToDone
		if i%3 == 0 {
			to = store.ToHeld
		}
		intents = append(intents, store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: to})
	}
	var retired []store.RetiredSettlement
	for i, r := range claimed.Retired {
		to := store.ToGone
		if i%2 == 0 {
			to = store.ToHeld
		}
		retired = append(retired, store.RetiredSettlement{BlobName: r.BlobName, DueAt: r.DueAt, To: to})
	}
	_, err = s.SettleIntents(ctx, intents)
	require.NoError(t, err)
	_, err = s.SettleRetired(ctx, retired)
	require.NoError(t, err)
	n, err := s.Forget(ctx, 100)
	require.NoError(t, err)
	require.Equal(t, 8, n)

	explained := 0
	for _, text := range w.take() {
		if !strings.Contains(text, "SKIP LOCKED") && !regexp.MustCompile(`^(UPDATE|DELETE)`).MatchString(text) {
			continue
		}
		explained++
		for _, access := range accesses(t, db, text) {
			require.NotContains(t, []string{"ALL", "index"}, access, text)
		}
	}
	require.Equal(t, 12, explained)
}

// accesses is how the server would read each table of a statement.
func accesses(t *testing.T, db *sql.DB, text string) (all []string) {
	t.Helper()
	text = strings.ReplaceAll(onlyMariaDB.ReplaceAllString(text, ""), "LIMIT ?", "LIMIT 100")
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+strings.ReplaceAll(text, "?", "'9000000000000000'"))
	require.NoError(t, err, text)
	defer rows.Close()
	for rows.Next() {
		var id, choice, table, access, possible, key, length, ref, n, extra sql.NullString
		require.NoError(t, rows.Scan(&id, &choice, &table, &access, &possible, &key, &length, &ref, &n, &extra))
		all = append(all, access.String)
	}
	require.NoError(t, rows.Err())
	return all
}
