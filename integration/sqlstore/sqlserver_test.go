package sqlstore_test

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

// sqlServerTexts reads the statements that sqlstore's own tests say are all.
func sqlServerTexts(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.ReadFile("../../sqlstore/testdata/sqlserver.sql")
	require.NoError(t, err)
	texts := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSuffix(string(file), "\n;\n"), "\n;\n") {
		name, text, ok := strings.Cut(strings.TrimPrefix(part, "-- "), "\n")
		require.True(t, ok, part)
		texts[name] = text
	}
	require.Greater(t, len(texts), 50)
	return texts
}

func newStandIn(t *testing.T, level, snapshot int) (*standIn, *sql.DB) {
	t.Helper()
	s := &standIn{
		sqlite: embedded[0].open(t), seen: map[string][]any{}, broken: map[string]bool{},
		settings: fmt.Sprintf("%d AS compatibility_level, %d AS is_read_committed_snapshot_on", level, snapshot),
	}
	db := sql.OpenDB(s)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return s, db
}

// The conformance suite issues every statement that there is, each with the
// parameters that it uses.
func TestSQLServerStatementsSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	in, db := newStandIn(t, 130, 1)
	d := database{name: "stand-in", dialect: sqlstore.SQLServer}
	storetest.TestRowStore(t, func(t *testing.T) storetest.RowHarness {
		h := d.harness(t, db)
		h.SingleWriter = true
		return h
	})
	other, elsewhere := newStandIn(t, 130, 1)
	d.store(t, elsewhere, &sqlstore.Options{Schema: "app"})
	texts := sqlServerTexts(t)
	require.Equal(t, []any{"[app].[blobtx_meta]"}, other.seen[texts["table"]])
	maps.Copy(in.seen, other.seen)

	maps.Copy(in.broken, other.broken)
	require.Empty(t, in.broken)
	for name, text := range texts {
		if !strings.Contains(name, ".up.sql") { // with another prefix
			require.Contains(t, in.seen, text, "never issued: %s", name)
		}
	}
	requireSentAsMeant(t, in.seen)
}

func TestSQLServerIsRefusedWithoutItsSettings(t *testing.T) {
	for _, settings := range [][2]int{{120, 1}, {130, 0}} {
		in, db := newStandIn(t, settings[0], settings[1])
		s, err := sqlstore.New(db, sqlstore.SQLServer, nil)
		require.NoError(t, err)
		require.ErrorIs(t, s.Migrate(t.Context()), store.ErrSetup)
		in.settings = "130 AS compatibility_level, 1 AS is_read_committed_snapshot_on"
		require.NoError(t, s.Migrate(t.Context()))
		in.settings = fmt.Sprintf("%d AS compatibility_level, %d AS is_read_committed_snapshot_on", settings[0], settings[1])
		require.ErrorIs(t, s.Check(t.Context()), store.ErrSetup)
		require.NotContains(t, s.Check(t.Context()).Error(), "run Migrate")
	}
}

// Of two who insert one key at once, one has an error that it looks into, and of
// two who create one object, one has no row.
func TestSQLServerLooksAgainAfterALostRace(t *testing.T) {
	in, db := newStandIn(t, 130, 1)
	s, err := sqlstore.New(db, sqlstore.SQLServer, nil)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	for _, number := range []int32{2601, 2627, 50000} {
		lost := 0
		in.answer = func(query string) (bool, error) {
			if !strings.Contains(query, `INSERT INTO "blobtx_intents"`) || lost > 0 {
				return false, nil
			}
			lost++
			return true, mssql.Error{Number: number}
		}
		id := fmt.Sprint("i", number)
		_, err := s.InsertIntent(t.Context(), store.InsertParams{ID: id, Key: id, BlobName: id, Expect: store.IfAbsent(), TTL: time.Hour, MaxPending: time.Hour})
		require.Equal(t, number == 50000, err != nil, err)
		require.Equal(t, 1, lost)
	}
	lost := 0
	in.answer = func(query string) (bool, error) {
		if strings.Contains(query, "BEGIN TRY") {
			lost++
		}
		return strings.Contains(query, "BEGIN TRY") && lost == 1, nil
	}
	o, err := s.CommitObjects(t.Context(), []store.CommitParams{{Key: "i2627", IntentID: "i2627", Version: 1, Blob: store.Blob{ETag: "e"}}})
	require.NoError(t, err)
	require.Equal(t, "i2627", o[0].Blob.Name)
	require.Equal(t, 2, lost)
}

func TestSQLServerErrorsAreRecognised(t *testing.T) {
	for number, retryable := range map[int32]bool{
		1205: true, 3960: true, 3961: true, // deadlock, snapshot
		1222: false, 2601: false, 2627: false, 208: false, 3930: false, // lock timeout, duplicates, no table, doomed
	} {
		err := fmt.Errorf("commit: %w", mssql.Error{Number: number})
		require.Equal(t, retryable, sqlstore.IsRetryable(err), number)
	}
}
