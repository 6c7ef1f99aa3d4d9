package sqlstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// What each step costs when it succeeds. A number that grows here is a round
// trip that every upload pays.
func TestStatementsOfEachStep(t *testing.T) {
	type cost map[string]int
	costs := map[sqlstore.Dialect]cost{
		sqlstore.Postgres: {
			"insert": 1, "heartbeat": 1, "take over": 1, "abandon": 1, "commit": 1, "replace": 1, "seal": 1, "metadata": 1, "delete": 1,
			"get": 1, "list": 1, "claim": 5, "claim nothing": 6, "settle batch": 1, "settle retired": 1, "forget": 4,
			"commit two": 6, "tx commit": 1, "tx commit two": 4, "tx delete": 1, "tx metadata": 1,
		},
		sqlstore.SQLite: {
			"insert": 1, "heartbeat": 1, "take over": 1, "abandon": 1, "commit": 5, "replace": 5, "seal": 1, "metadata": 1, "delete": 4,
			"get": 1, "list": 1, "claim": 7, "claim nothing": 5, "settle batch": 4, "settle retired": 1, "forget": 1,
			"commit two": 10, "tx commit": 3, "tx commit two": 8, "tx delete": 2, "tx metadata": 1,
		},
		sqlstore.MySQL: { // SET TRANSACTION, START TRANSACTION and COMMIT are three of them
			"insert": 2, "heartbeat": 5, "take over": 5, "abandon": 5, "commit": 5, "replace": 5, "seal": 5, "metadata": 5, "delete": 6,
			"get": 1, "list": 1, "claim": 8, "claim nothing": 6, "settle batch": 6, "settle retired": 5, "forget": 5,
			"commit two": 11, "tx commit": 3, "tx commit two": 8, "tx delete": 3, "tx metadata": 2,
		},
	}
	each(t, databases, func(t *testing.T, d database) {
		db, w := d.openCounted(t)
		var c clock
		s := d.store(t, db, &sqlstore.Options{TestClockOffset: c.offset})
		ctx := t.Context()
		got := cost{}
		texts := map[string]bool{}
		count := func(what string, fn func() error) {
			t.Helper()
			w.take()
			require.NoError(t, fn(), what)
			sent := w.take()
			got[what] = len(sent)
			for _, text := range sent {
				texts[text] = true
				require.False(t, strings.Contains(text, "{"), text)
			}
		}
		fresh := func(key string) store.Intent { return upload(t, s, key, store.Always()) }
		fresh("warm")
		params := store.InsertParams{ID: "i", Holder: "h", Key: "k", BlobName: "b", TTL: time.Hour, MaxPending: time.Hour}
		count("insert", func() error { _, err := s.InsertIntent(ctx, params); return err })
		count("heartbeat", func() error {
			_, err := s.Heartbeat(ctx, store.HeartbeatParams{ID: "i", Version: 1, TTL: time.Hour})
			return err
		})
		count("take over", func() error {
			_, err := s.TakeOver(ctx, store.TakeOverParams{ID: "i", Version: 1, Holder: "x", TTL: time.Hour})
			return err
		})
		count("abandon", func() error { _, err := s.Abandon(ctx, store.AbandonParams{ID: "i", Version: 2}); return err })
		one := fresh("k")
		count("commit", func() error { _, err := s.CommitObjects(ctx, []store.CommitParams{commit(one, 1)}); return err })
		count("seal", func() error {
			_, err := s.SettleIntents(ctx, []store.IntentSettlement{{ID: one.ID, State: store.Sealing, Version: 2, To: store.ToDone}})
			return err
		})
		two := fresh("k")
		count("replace", func() error { _, err := s.CommitObjects(ctx, []store.CommitParams{commit(two, 1)}); return err })
		count("metadata", func() error {
			_, err := s.SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.Always()})
			return err
		})
		count("get", func() error { _, err := s.GetObject(ctx, "k"); return err })
		count("list", func() error { _, err := s.ListObjects(ctx, store.ListParams{Limit: 9}); return err })
		count("delete", func() error {
			_, err := s.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always()})
			return err
		})
		pair := []store.CommitParams{commit(fresh("a"), 1), commit(fresh("b"), 1)}
		count("commit two", func() error { _, err := s.CommitObjects(ctx, pair); return err })
		var claimed store.Claimed
		count("claim", func() (err error) {
			claimed, err = s.Claim(ctx, store.ClaimParams{Limit: 99, Lease: time.Hour})
			return err
		})
		count("claim nothing", func() error { _, err := s.Claim(ctx, store.ClaimParams{Limit: 99, Lease: time.Hour}); return err })
		var batch []store.IntentSettlement
		for _, in := range claimed.Intents {
			to := store.ToDone
			if in.State == store.Abandoned {
				to = store.ToGone
			}
			batch = append(batch, store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: to})
		}
		count("settle batch", func() error { _, err := s.SettleIntents(ctx, batch); return err })
		var names []store.RetiredSettlement
		for _, r := range claimed.Retired {
			names = append(names, store.RetiredSettlement{BlobName: r.BlobName, DueAt: r.DueAt, To: store.ToGone})
		}
		require.Len(t, names, 2)
		count("settle retired", func() error { _, err := s.SettleRetired(ctx, names); return err })
		count("forget", func() error { _, err := s.Forget(ctx, 99); return err })

		in, pair := fresh("tx"), []store.CommitParams{commit(fresh("tx/a"), 1), commit(fresh("tx/b"), 1)}
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		require.NoError(t, err)
		bound := s.Tx(tx)
		count("tx commit", func() error { _, err := bound.CommitObjects(ctx, []store.CommitParams{commit(in, 1)}); return err })
		count("tx commit two", func() error { _, err := bound.CommitObjects(ctx, pair); return err })
		count("tx metadata", func() error {
			_, err := bound.SetObjectMetadata(ctx, store.MetadataParams{Key: "tx", If: store.Always()})
			return err
		})
		count("tx delete", func() error {
			_, err := bound.DeleteObject(ctx, store.DeleteParams{Key: "tx", If: store.Always()})
			return err
		})
		require.NoError(t, tx.Commit())
		require.Equal(t, costs[d.dialect], got)
		for text := range texts {
			require.NotContains(t, text, "now()")
		}
	})
}

// Some errors end a transaction while *sql.Tx goes on taking statements, which
// would stand alone: after one, nothing more is sent.
func TestNothingIsSentAfterAnError(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		db, w := d.openCounted(t)
		s := d.store(t, db, nil)
		ctx := t.Context()
		a, b := upload(t, s, "a", store.IfAbsent()), upload(t, s, "b", store.IfAbsent())
		steps := map[string]func(tx store.RowTx) error{
			"commit": func(tx store.RowTx) error {
				_, err := tx.CommitObjects(ctx, []store.CommitParams{commit(a, 1)})
				return err
			},
			"commit two": func(tx store.RowTx) error {
				_, err := tx.CommitObjects(ctx, []store.CommitParams{commit(a, 1), commit(b, 1)})
				return err
			},
			"delete": func(tx store.RowTx) error {
				_, err := tx.DeleteObject(ctx, store.DeleteParams{Key: "a", If: store.Always()})
				return err
			},
			"metadata": func(tx store.RowTx) error {
				_, err := tx.SetObjectMetadata(ctx, store.MetadataParams{Key: "a", If: store.Always()})
				return err
			},
		}
		for name, step := range steps {
			for at := 1; at <= 8; at++ {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				w.take()
				n := 0
				w.fail = func(string) error {
					if n++; n == at {
						return errBroken
					}
					return nil
				}
				bound := s.Tx(tx)
				err = step(bound)
				sent := w.take()
				w.fail = nil
				if len(sent) < at { // the step is shorter than that
					require.NotErrorIs(t, err, store.ErrTxUnusable, name)
					require.NoError(t, tx.Rollback())
					break
				}
				require.ErrorIs(t, err, store.ErrTxUnusable, "%s at %d", name, at)
				require.ErrorIs(t, err, errBroken)
				require.Len(t, sent, at, "%s at %d", name, at)
				for _, later := range steps {
					require.ErrorIs(t, later(bound), store.ErrTxUnusable)
				}
				require.Empty(t, w.take())
				require.NoError(t, tx.Rollback())
			}
		}
		_, err := s.CommitObjects(ctx, []store.CommitParams{commit(a, 1), commit(b, 1)})
		require.NoError(t, err)
	})
}

func TestABoundNothingIsInvalid(t *testing.T) {
	s, _ := embedded[0].migrated(t, nil)
	for _, tx := range []store.RowTx{s.Tx(nil), s.TxOf(nil)} {
		_, err := tx.CommitObjects(t.Context(), []store.CommitParams{commit(store.Intent{ID: "i", Key: "k"}, 1)})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorIs(t, err, store.ErrTxUnusable)
	}
}
