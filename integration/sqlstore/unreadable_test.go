package sqlstore_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
	"github.com/blobtx/blobtx/store/storetest"
)

// unreadable is what a hand at the database, or another program's bug, makes of
// a row; the empty one is intact.
var unreadable = []string{"", "metadata = '{'", "metadata = '[1]'", "metadata = '{\"a\":1}'", "expect = 'garbage'", "result = 'no JSON'"}

// spoil makes an intent in each state unreadable in each way, and returns the
// rows as they were.
func spoil(t *testing.T, s store.RowStore, exec func(statement, id string)) []store.Intent {
	t.Helper()
	var all []store.Intent
	for i, how := range unreadable {
		for _, key := range []string{"uploading", "sealing"} {
			in := upload(t, s, key+string(rune('a'+i)), store.IfAbsent())
			if key == "sealing" {
				_, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
				require.NoError(t, err)
			}
			all = append(all, in)
			if how != "" {
				exec("UPDATE blobtx_intents SET "+how, in.ID)
			}
		}
	}
	return all
}

// A row that cannot be read is claimed and settled like any other: one of them
// would otherwise keep the sweeper from all that are due after it.
func claimsTheUnreadable(t *testing.T, h storetest.RowHarness, exec func(statement, id string)) {
	s := h.Store
	all := spoil(t, s, exec)
	_, err := s.GetIntents(t.Context(), []string{all[2].ID})
	require.ErrorContains(t, err, "stored metadata", "who asks for the row itself is told")

	h.Advance(3 * time.Hour)
	claimed, err := s.Claim(t.Context(), store.ClaimParams{Limit: 100, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claimed.Intents, len(all))
	byID := map[string]store.Intent{}
	for _, in := range claimed.Intents {
		byID[in.ID] = in
	}
	var settlements []store.IntentSettlement
	for _, was := range all {
		got := byID[was.ID]
		require.Equal(t, []string{was.Key, was.BlobName}, []string{got.Key, got.BlobName}, "what the sweeper needs")
		require.Equal(t, 1, got.Attempts)
		require.EqualValues(t, 2, got.Version)
		want, to := store.Abandoned, store.ToWatch
		if strings.HasPrefix(was.Key, "sealing") {
			want, to = store.Sealing, store.ToDone
		}
		require.Equal(t, want, got.State, was.Key)
		settlements = append(settlements, store.IntentSettlement{ID: got.ID, State: got.State, Version: got.Version, To: to, In: time.Hour})
	}
	n, err := s.SettleIntents(t.Context(), settlements)
	require.NoError(t, err)
	require.Equal(t, len(all), n)
	h.Advance(2 * time.Hour)
	claimed, err = s.Claim(t.Context(), store.ClaimParams{Limit: 100, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claimed.Intents, len(unreadable), "those that are watched")
	forgotten, err := s.Forget(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, len(unreadable), forgotten, "those that are done")
}

func TestAClaimPassesOverNoUnreadableRow(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		claimsTheUnreadable(t, d.harness(t, db), func(statement, id string) {
			changesOne(t, db, statement+" WHERE id = '"+id+"'")
		})
	})
	t.Run("SQL Server's stand-in", func(t *testing.T) {
		t.Parallel()
		in, db := newStandIn(t, 130, 1)
		d := database{name: "stand-in", dialect: sqlstore.SQLServer}
		claimsTheUnreadable(t, d.harness(t, db), func(statement, id string) {
			changesOne(t, in.sqlite, statement+" WHERE CAST(id AS TEXT) = '"+id+"'")
		})
	})
}

func changesOne(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	res, err := db.ExecContext(t.Context(), statement)
	require.NoError(t, err, statement)
	n, err := res.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n, statement)
}

// The whole sweeper: the blobs of unreadable rows go, or are sealed.
func TestTheSweeperFinishesAnUnreadableRow(t *testing.T) {
	each(t, []database{embedded[0], servers[0], mariadbs[0]}, func(t *testing.T, d database) {
		s, db := d.migrated(t, &sqlstore.Options{TestClockOffset: func() time.Duration { return 3 * time.Hour }})
		past := d.store(t, db, nil) // rows that are due
		blobs := memstore.NewBlobs(nil)
		c, err := blobtx.New(s, blobs, nil)
		require.NoError(t, err)
		for _, in := range spoil(t, past, func(statement, id string) { changesOne(t, db, statement+" WHERE id = '"+id+"'") }) {
			_, err := blobs.Create(t.Context(), store.CreateParams{Name: in.BlobName, IntentID: in.ID, Body: store.NewBody(strings.NewReader("x"), -1, "")})
			require.NoError(t, err)
		}
		result, err := c.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, blobtx.SweepResult{Sealed: len(unreadable), Abandoned: len(unreadable)}, result)
		left := blobs.Snapshot()
		require.Len(t, left, len(unreadable))
		for name := range left {
			info, found := blobs.Get(name)
			require.True(t, found)
			require.True(t, info.Sealed, name)
		}
	})
}

// What the sweeper cannot delete is tried again, and the others are not kept
// waiting.
func TestANameThatNoBlobCanHaveStallsNobody(t *testing.T) {
	each(t, []database{embedded[0], servers[0], mariadbs[0]}, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		blobs := memstore.NewBlobs(nil)
		c, err := blobtx.New(s, blobs, &blobtx.Options{ReadGrace: -1})
		require.NoError(t, err)
		var names []string
		for _, key := range []string{"a", "b", "c"} {
			o, err := c.Put(t.Context(), key, strings.NewReader("x"), nil)
			require.NoError(t, err)
			require.NoError(t, c.Delete(t.Context(), key, nil))
			names = append(names, o.Blob.Name)
		}
		changesOne(t, db, "UPDATE blobtx_retired SET blob_name = '/..//' WHERE blob_name = '"+names[1]+"'")
		result, err := c.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, 3, result.Deleted+result.Failed)
		require.Len(t, blobs.Snapshot(), 1, "the one that nothing names any more")
	})
}
