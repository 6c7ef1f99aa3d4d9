package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// rowsOfVersion1 are what a store at the first version may hold: one row for
// each state, as that version wrote it. Later versions must go on from them.
var rowsOfVersion1 = []string{
	`INSERT INTO blobtx_objects (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at) VALUES
		('sealing', 3768203430690816777, 'blob/sealing', 'sealing', '"0x1"', 7, '', 'text/plain', '{"a":"b"}', 1700000000000001, 1700000000000002),
		('done', 3768203430690816778, 'blob/done', 'done', '"0x2"', 8, '', 'text/plain', '{}', 1700000000000003, 1700000000000003)`,
	`INSERT INTO blobtx_intents (id, idempotency_key, object_key, expect, blob_name, direct, metadata, state, version, holder,
		due_at, expires_at, result, object_version, object_created_at, object_updated_at, created_at, updated_at) VALUES
		('uploading', 'request', 'new', 'absent', 'blob/new', 0, '{"c":"d"}', 'uploading', 1, 'me', 4000000000000000, 4000000000000000, NULL, NULL, NULL, NULL, 1700000000000000, 1700000000000000),
		('abandoned', NULL, 'late', 'absent', 'blob/late', 0, '{}', 'abandoned', 2, 'me', 1700000000000000, 1700000000000000, NULL, NULL, NULL, NULL, 1700000000000000, 1700000000000000),
		('sealing', NULL, 'sealing', 'always', 'blob/sealing', 0, '{"a":"b"}', 'sealing', 2, 'me', 1700000000000000, 1700000000000000,
			'{"etag":"\"0x1\"","size":7,"sha256":"","content_type":"text/plain"}', 3768203430690816777, 1700000000000001, 1700000000000002, 1700000000000000, 1700000000000002),
		('done', NULL, 'done', 'absent', 'blob/done', 0, '{}', 'done', 3, 'me', 1700000000000000, 1700000000000000,
			'{"etag":"\"0x2\"","size":8,"sha256":"","content_type":"text/plain"}', 3768203430690816778, 1700000000000003, 1700000000000003, 1700000000000000, 1700000000000003),
		('held', NULL, 'restored', 'absent', 'blob/held', 0, '{}', 'held', 2, 'me', NULL, 1700000000000000, NULL, NULL, NULL, NULL, 1700000000000000, 1700000000000000)`,
	`INSERT INTO blobtx_retired (blob_name, intent_id, due_at) VALUES ('blob/old', 'gone', 1700000000000000)`,
}

// atVersion makes a database that began at the first version, got rows, and has
// been brought to version v by its files.
func (d database) atVersion(t *testing.T, db *sql.DB, v int64) {
	t.Helper()
	p := d.goose(t, db)
	_, err := p.UpTo(t.Context(), 1)
	require.NoError(t, err)
	for _, text := range rowsOfVersion1 {
		if d.dialect == sqlstore.MySQL {
			text = strings.ReplaceAll(text, `\`, `\\`)
		}
		_, err := db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	_, err = p.UpTo(t.Context(), v)
	require.NoError(t, err)
	recorded := query(t, db, "SELECT value FROM blobtx_meta WHERE name = 'schema_version'")
	require.Equal(t, []string{fmt.Sprint(v)}, recorded)
}

// fromEach runs the test from every version that there ever was.
func fromEach(t *testing.T, fn func(t *testing.T, d database, v int64)) {
	each(t, databases, func(t *testing.T, d database) {
		for _, v := range d.versions(t) {
			t.Run(fmt.Sprint(v), func(t *testing.T) { fn(t, d, v) })
		}
	})
}

func TestMigrateGoesUpFromEveryVersion(t *testing.T) {
	fresh := map[string][]string{}
	for _, d := range databases {
		t.Run(d.name+"/0", func(t *testing.T) {
			_, db := d.migrated(t, nil)
			fresh[d.name] = d.schema(t, db)
		})
	}
	fromEach(t, func(t *testing.T, d database, v int64) {
		db := d.open(t)
		d.atVersion(t, db, v)
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		current := v == slices.Max(d.versions(t))
		if !current {
			require.ErrorContains(t, s.Check(t.Context()), "run Migrate")
		}
		require.NoError(t, s.Migrate(t.Context()))
		require.NoError(t, s.Check(t.Context()))
		require.Equal(t, fresh[d.name], d.schema(t, db))
		require.NoError(t, s.Migrate(t.Context()), "and again")
		oldRowsGoOn(t, s)
	})
}

// oldRowsGoOn takes every old row through the step that it waits for.
func oldRowsGoOn(t *testing.T, s *sqlstore.Store) {
	ctx := t.Context()
	us := func(n int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + n).UTC() }
	o, err := s.GetObject(ctx, "sealing")
	require.NoError(t, err)
	sealing := store.Object{
		Key: "sealing", Version: 3768203430690816777, IntentID: "sealing", Metadata: map[string]string{"a": "b"}, CreatedAt: us(1), UpdatedAt: us(2),
		Blob: store.Blob{Name: "blob/sealing", ETag: `"0x1"`, Size: 7, ContentType: "text/plain"},
	}
	require.Equal(t, sealing, o)
	intents, err := s.GetIntents(ctx, []string{"uploading", "abandoned", "sealing", "done", "held"})
	require.NoError(t, err)
	states := map[string]store.State{}
	for _, in := range intents {
		states[in.ID] = in.State
		if in.ID == "sealing" {
			require.Equal(t, sealing, *in.Result)
		}
	}
	require.Equal(t, map[string]store.State{
		"uploading": store.Uploading, "abandoned": store.Abandoned, "sealing": store.Sealing, "done": store.Done, "held": store.Held,
	}, states)

	replay, err := s.InsertIntent(ctx, store.InsertParams{ID: "retry", IdempotencyKey: "request", Holder: "me", Key: "new", BlobName: "blob/retry", TTL: time.Hour, MaxPending: time.Hour})
	require.NoError(t, err)
	require.Equal(t, "uploading", replay.ID)
	made, err := s.CommitObjects(ctx, []store.CommitParams{commit(replay, 1)})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"c": "d"}, made[0].Metadata)
	replaced, err := s.CommitObjects(ctx, []store.CommitParams{commit(upload(t, s, "done", store.IfVersion(3768203430690816778)), 1)})
	require.NoError(t, err)
	require.Greater(t, replaced[0].Version, store.Version(3768203430690816778))
	require.Equal(t, us(3), replaced[0].CreatedAt)

	claimed, err := s.Claim(ctx, store.ClaimParams{Limit: 10, Lease: time.Hour})
	require.NoError(t, err)
	var due []string
	for _, in := range claimed.Intents {
		due = append(due, in.ID)
	}
	for _, r := range claimed.Retired {
		due = append(due, r.BlobName)
	}
	slices.Sort(due)
	require.Subset(t, due, []string{"abandoned", "blob/old", "sealing"})
	require.NotContains(t, due, "held")
	n, err := s.Forget(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestEightMayGoUpAtOnceFromEveryVersion(t *testing.T) {
	fromEach(t, func(t *testing.T, d database, v int64) {
		dsn := d.dsn(t)
		d.atVersion(t, open(t, d.driver, dsn), v)
		migrateTogether(t, d, dsn, nil)
		s, err := sqlstore.New(open(t, d.driver, dsn), d.dialect, nil)
		require.NoError(t, err)
		oldRowsGoOn(t, s)
	})
}

// migrateTogether is eight processes that start at once.
func migrateTogether(t *testing.T, d database, dsn string, o *sqlstore.Options) {
	t.Helper()
	starters := make([]*sqlstore.Store, 8)
	for i := range starters {
		s, err := sqlstore.New(open(t, d.driver, dsn), d.dialect, o)
		require.NoError(t, err)
		starters[i] = s
	}
	require.NoError(t, together(len(starters), func(i int) error {
		if err := starters[i].Migrate(t.Context()); err != nil {
			return err
		}
		return starters[i].Check(t.Context())
	}))
}

// The schema is made by the first of them, too; and whatever isolation level
// their transactions begin at.
func TestEightMayMakeASchemaAtOnce(t *testing.T) {
	serializable := database{"pgx, serializable", sqlstore.Postgres, "pgx", func(t testing.TB) string {
		return servers[0].dsn(t) + "&default_transaction_isolation=serializable" // after sslmode
	}}
	each(t, append(append(servers[:2:2], serializable), mariadbs...), func(t *testing.T, d database) {
		dsn := d.dsn(t)
		o := &sqlstore.Options{Schema: "eight", Prefix: "own_"}
		if d.dialect == sqlstore.MySQL { // schemas are databases, of the whole server
			config, err := mysql.ParseDSN(dsn)
			require.NoError(t, err)
			o.Schema = "e_" + config.DBName[len(config.DBName)-10:]
			db := open(t, d.driver, dsn)
			t.Cleanup(func() {
				_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+o.Schema)
				require.NoError(t, err)
			})
		}
		migrateTogether(t, d, dsn, o)
		db := open(t, d.driver, dsn)
		works(t, d.store(t, db, o), "k")
		tables := query(t, db, "SELECT count(*) FROM information_schema.tables WHERE table_schema = '"+o.Schema+"' AND table_name LIKE 'own#_%' ESCAPE '#'")
		require.Equal(t, []string{"4"}, tables)
	})
}
