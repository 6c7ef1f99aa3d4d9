package sqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

func TestEightMayMigrateAtOnce(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		for range 3 {
			dsn := d.dsn(t)
			starters := make([]*sqlstore.Store, 8)
			for i := range starters {
				s, err := sqlstore.New(open(t, d.driver, dsn), d.dialect, nil) // a process of its own
				require.NoError(t, err)
				starters[i] = s
			}
			require.NoError(t, together(len(starters), func(i int) error { return starters[i].Migrate(t.Context()) }))
			s, err := sqlstore.New(open(t, d.driver, dsn), d.dialect, nil)
			require.NoError(t, err)
			require.NoError(t, s.Check(t.Context()))
			require.NoError(t, s.Migrate(t.Context()))
		}
	})
}

func TestStoresWithDifferentPrefixesShareADatabase(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		a, b := d.store(t, db, &sqlstore.Options{Prefix: "a_"}), d.store(t, db, &sqlstore.Options{Prefix: "b_"})
		_, err := a.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, a, "k", store.IfAbsent()), 1)})
		require.NoError(t, err)
		_, err = b.GetObject(t.Context(), "k")
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestASchemaIsMadeAndUsed(t *testing.T) {
	each(t, servers, func(t *testing.T, d database) {
		db := d.open(t)
		s := d.store(t, db, &sqlstore.Options{Schema: "user"}) // a reserved word
		require.NoError(t, s.Migrate(t.Context()))
		require.NoError(t, s.Check(t.Context()))
		_, err := s.CommitObjects(t.Context(), []store.CommitParams{commit(upload(t, s, "k", store.IfAbsent()), 1)})
		require.NoError(t, err)
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM "user".blobtx_objects`).Scan(&n))
		require.Equal(t, 1, n)
		plain, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		require.ErrorIs(t, plain.Check(t.Context()), store.ErrSetup)
	})
}

func TestWithoutTablesEveryStepNamesMigrate(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db := d.open(t)
		s, err := sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		ctx := t.Context()
		_, insert := s.InsertIntent(ctx, store.InsertParams{ID: "i", Holder: "h", Key: "k", BlobName: "b"})
		_, get := s.GetObject(ctx, "k")
		_, claim := s.Claim(ctx, store.ClaimParams{Limit: 1})
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, inTx := s.Tx(tx).DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always()})
		require.NoError(t, tx.Rollback())
		for _, err := range []error{s.Check(ctx), insert, get, claim, inTx} {
			require.ErrorIs(t, err, store.ErrSetup)
			require.NotErrorIs(t, err, store.ErrNewerSchema)
			require.ErrorContains(t, err, "run Migrate")
			require.False(t, sqlstore.IsRetryable(err))
		}
		require.ErrorIs(t, inTx, store.ErrTxUnusable)
	})
}

func TestANewerSchemaIsRefusedBeforeTheFirstWrite(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		upload(t, s, "k", store.IfAbsent())
		_, err := db.ExecContext(t.Context(), "UPDATE blobtx_meta SET value = '2' WHERE name = 'schema_version'")
		require.NoError(t, err)
		s, err = sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		_, err = s.InsertIntent(t.Context(), store.InsertParams{ID: "i", Holder: "h", Key: "k", BlobName: "b"})
		tx, begin := db.BeginTx(t.Context(), nil)
		require.NoError(t, begin)
		_, inTx := s.Tx(tx).DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
		require.ErrorIs(t, inTx, store.ErrNotFound, "nothing was written, so there was nothing to refuse")
		require.NoError(t, tx.Rollback())
		for _, err := range []error{err, s.Check(t.Context()), s.Migrate(t.Context())} {
			require.ErrorIs(t, err, store.ErrNewerSchema)
			require.ErrorIs(t, err, store.ErrSetup)
			require.ErrorContains(t, err, "upgrade")
		}
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM blobtx_intents").Scan(&n))
		require.Equal(t, 1, n)
	})
}

// A step that did write inside a caller's transaction is taken back with it.
func TestANewerSchemaMakesACallersTransactionUnusable(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		in := upload(t, s, "k", store.IfAbsent())
		_, err := db.ExecContext(t.Context(), "UPDATE blobtx_meta SET value = '2' WHERE name = 'schema_version'")
		require.NoError(t, err)
		s, err = sqlstore.New(db, d.dialect, nil)
		require.NoError(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = s.Tx(tx).CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
		require.ErrorIs(t, err, store.ErrTxUnusable)
		require.ErrorIs(t, err, store.ErrNewerSchema)
		require.NoError(t, tx.Rollback())
	})
}

func TestAnOlderSchemaNamesMigrate(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		_, err := db.ExecContext(t.Context(), "UPDATE blobtx_meta SET value = '0' WHERE name = 'schema_version'")
		require.NoError(t, err)
		err = s.Check(t.Context())
		require.ErrorIs(t, err, store.ErrSetup)
		require.ErrorContains(t, err, "run Migrate")
	})
}
