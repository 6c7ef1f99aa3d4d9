package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

func TestANilTransactionIsRefusedAtItsFirstStep(t *testing.T) {
	s, _ := embedded[0].migrated(t, nil)
	var none *sql.Tx
	var nobody *pgxQuerier
	for name, tx := range map[string]store.RowTx{
		"nil": s.Tx(nil), "a nil *sql.Tx": s.Tx(none), "a nil Querier": s.TxOf(nil), "a nil pointer as Querier": s.TxOf(nobody),
		"of a zero Store": (&sqlstore.Store{}).Tx(&sql.Tx{}), "of a nil Store": (*sqlstore.Store)(nil).Tx(&sql.Tx{}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tx.CommitObjects(t.Context(), []store.CommitParams{commit(store.Intent{ID: "i", Key: "k"}, 1)})
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = tx.DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = tx.SetObjectMetadata(t.Context(), store.MetadataParams{Key: "k", If: store.Always()})
			require.ErrorIs(t, err, store.ErrInvalid)
		})
	}
}

func TestAStoreThatNewDidNotMakeIsRefused(t *testing.T) {
	for name, s := range map[string]*sqlstore.Store{"nil": nil, "zero": {}} {
		all := steps(s, store.Intent{ID: "i", Key: "k", Version: 1})
		all["migrate"] = s.Migrate
		all["in tx"] = func(ctx context.Context) error {
			return s.InTx(ctx, nil, func(context.Context, *sql.Tx) error { return nil })
		}
		all["get intents"] = func(ctx context.Context) error { _, err := s.GetIntents(ctx, []string{"i"}); return err }
		all["list"] = func(ctx context.Context) error {
			_, err := s.ListObjects(ctx, store.ListParams{Limit: 1})
			return err
		}
		all["settle retired"] = func(ctx context.Context) error {
			_, err := s.SettleRetired(ctx, []store.RetiredSettlement{{BlobName: "b", To: store.ToGone}})
			return err
		}
		for what, step := range all {
			require.ErrorIs(t, step(t.Context()), store.ErrInvalid, "%s: %s", name, what)
		}
	}
}

// An id comes from a URL or a queue. What cannot be one is ErrInvalid, before
// the database is asked; what is none is not found; and no error repeats an id
// of any length, nor its control characters.
func TestAnIDThatNobodyGave(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, _ := d.migrated(t, nil)
		for id, want := range map[string]error{
			"x\x00y": store.ErrInvalid, "\xff": store.ErrInvalid, "": store.ErrInvalid,
			"a' OR 1=1": store.ErrNotFound, "line\nbreak": store.ErrNotFound, strings.Repeat("i", 5000): store.ErrNotFound,
		} {
			found, err := s.GetIntents(t.Context(), []string{id})
			require.Empty(t, found)
			if errors.Is(want, store.ErrInvalid) {
				require.ErrorIs(t, err, store.ErrInvalid, "%.20q", id)
			} else {
				require.NoError(t, err, "%.20q", id)
			}
			_, err = s.Abandon(t.Context(), store.AbandonParams{ID: id, Version: 1})
			require.ErrorIs(t, err, want, "%.20q", id)
			require.Less(t, len(err.Error()), 300)
			require.NotContains(t, err.Error(), "\n")
			_, err = s.CommitObjects(t.Context(), []store.CommitParams{commit(store.Intent{ID: id, Key: "k", Version: 1}, 1)})
			require.Error(t, err)
			require.Less(t, len(err.Error()), 300)
			require.NotContains(t, err.Error(), "\n")
		}
	})
}

// More ids than a statement has placeholders: 65,535 on MySQL.
func TestGetIntentsTakesAnyNumberOfIDs(t *testing.T) {
	each(t, []database{embedded[0], servers[0], mariadbs[0], mariadbs[1]}, func(t *testing.T, d database) {
		s, _ := d.migrated(t, nil)
		first, last := upload(t, s, "first", store.IfAbsent()), upload(t, s, "last", store.IfAbsent())
		ids := []string{first.ID}
		for i := range 70_000 {
			ids = append(ids, fmt.Sprintf("none-%d", i))
		}
		found, err := s.GetIntents(t.Context(), append(ids, last.ID))
		require.NoError(t, err)
		require.Equal(t, []store.Intent{first, last}, found)
	})
}

// The longest blob names of four bytes a character are indexed in every table.
// They must not compress: PostgreSQL would shorten what it stores.
func TestTheLongestBlobNameFitsEveryIndex(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, _ := d.migrated(t, nil)
		for n := range 2 {
			name := make([]rune, store.MaxBlobNameBytes/4)
			for i := range name {
				name[i] = rune(0x20000 + (i*7919+n*104729)%40000)
			}
			in, err := s.InsertIntent(t.Context(), store.InsertParams{
				ID: fmt.Sprint("long", n), Holder: "h", Key: "k", Expect: store.Always(), BlobName: string(name), TTL: 1e9, MaxPending: 1e12,
			})
			require.NoError(t, err)
			_, err = s.CommitObjects(t.Context(), []store.CommitParams{commit(in, 1)})
			require.NoError(t, err, "the second retires the first")
		}
		_, err := s.DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
		require.NoError(t, err)
		_, err = s.InsertIntent(t.Context(), store.InsertParams{
			ID: "longer", Key: "k", Expect: store.Always(), BlobName: strings.Repeat("\U00020000", store.MaxBlobNameBytes/4+1), TTL: 1e9, MaxPending: 1e12,
		})
		require.ErrorIs(t, err, store.ErrInvalid)
	})
}

// Tables that Migrate made on one connection are not there on another.
func TestAMemoryDatabaseOnAPoolIsExplained(t *testing.T) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		db := open(t, driver, ":memory:")
		first, err := db.Conn(t.Context()) // the pool makes another one
		require.NoError(t, err)
		s, err := sqlstore.New(db, sqlstore.SQLite, nil)
		require.NoError(t, err)
		require.NoError(t, s.Migrate(t.Context()))
		second, err := db.Conn(t.Context()) // the one with the tables
		require.NoError(t, err)
		err = s.Check(t.Context())
		require.ErrorIs(t, err, store.ErrSetup)
		require.ErrorContains(t, err, "SetMaxOpenConns(1)")
		require.NoError(t, errors.Join(first.Close(), second.Close()))
	}
	each(t, servers[:1], func(t *testing.T, d database) {
		s, err := sqlstore.New(d.open(t), d.dialect, nil)
		require.NoError(t, err)
		err = s.Check(t.Context())
		require.ErrorIs(t, err, store.ErrSetup)
		require.NotContains(t, err.Error(), "memory")
	})
}
