package sqlstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// The whole life of two uploads under one key, told by every step.
func TestOneKeyFromPromiseToForgotten(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		ctx := t.Context()
		require.NoError(t, s.Check(ctx))

		first := upload(t, s, "a/1", store.IfAbsent())
		in, err := s.Heartbeat(ctx, store.HeartbeatParams{ID: first.ID, Version: 1, TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, int64(1), in.Beats)
		objects, err := s.CommitObjects(ctx, []store.CommitParams{commit(first, 7)})
		require.NoError(t, err)
		v1 := objects[0]
		require.Equal(t, first.BlobName, v1.Blob.Name)
		got, err := s.GetObject(ctx, "a/1")
		require.NoError(t, err)
		require.Equal(t, v1, got)
		_, err = s.CommitObjects(ctx, []store.CommitParams{commit(first, 7)})
		require.ErrorIs(t, err, store.ErrAlreadyCommitted)
		known, err := s.GetIntents(ctx, []string{"nobody", first.ID})
		require.NoError(t, err)
		require.Len(t, known, 1)
		require.Equal(t, v1, *known[0].Result)

		second := upload(t, s, "a/1", store.IfVersion(v1.Version))
		objects, err = s.CommitObjects(ctx, []store.CommitParams{commit(second, 9)})
		require.NoError(t, err)
		require.Greater(t, objects[0].Version, v1.Version)
		require.Equal(t, v1.CreatedAt, objects[0].CreatedAt)

		renamed, err := s.SetObjectMetadata(ctx, store.MetadataParams{Key: "a/1", If: store.IfVersion(objects[0].Version), Metadata: map[string]string{"k": "v"}, Random: 3})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"k": "v"}, renamed.Metadata)
		_, err = s.SetObjectMetadata(ctx, store.MetadataParams{Key: "a/1", If: store.IfVersion(objects[0].Version)})
		require.ErrorIs(t, err, store.ErrConflict)

		lost := upload(t, s, "a/2", store.IfAbsent())
		in, err = s.TakeOver(ctx, store.TakeOverParams{ID: lost.ID, Version: 1, Holder: "other", TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, "other", in.Holder)
		_, err = s.CommitObjects(ctx, []store.CommitParams{commit(lost, 1)})
		require.ErrorIs(t, err, store.ErrTakenOver)
		in, err = s.Abandon(ctx, store.AbandonParams{ID: lost.ID, Holder: "other"})
		require.NoError(t, err)
		require.Equal(t, store.Abandoned, in.State)

		gone, err := s.DeleteObject(ctx, store.DeleteParams{Key: "a/1", If: store.Always()})
		require.NoError(t, err)
		require.Equal(t, renamed, gone)
		_, err = s.DeleteObject(ctx, store.DeleteParams{Key: "a/1", If: store.Always()})
		require.ErrorIs(t, err, store.ErrNotFound)

		claimed, err := s.Claim(ctx, store.ClaimParams{Limit: 10, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, claimed.Intents, 3)
		require.Len(t, claimed.Retired, 2)
		var intents []store.IntentSettlement
		for _, in := range claimed.Intents {
			to := store.ToDone
			if in.State == store.Abandoned {
				to = store.ToGone
			}
			intents = append(intents, store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: to})
		}
		n, err := s.SettleIntents(ctx, intents)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		n, err = s.SettleIntents(ctx, intents)
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = s.SettleRetired(ctx, []store.RetiredSettlement{
			{BlobName: claimed.Retired[0].BlobName, DueAt: claimed.Retired[0].DueAt, To: store.ToGone},
			{BlobName: claimed.Retired[1].BlobName, DueAt: claimed.Retired[1].DueAt, To: store.ToHeld, Err: "why"},
		})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		n, err = s.Forget(ctx, 10)
		require.NoError(t, err)
		require.Equal(t, 2, n)

		var rows int
		require.NoError(t, db.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM blobtx_intents) + (SELECT count(*) FROM blobtx_objects) + 10 * (SELECT count(*) FROM blobtx_retired)").Scan(&rows))
		require.Equal(t, 10, rows)
	})
}

func TestListPages(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, _ := d.migrated(t, nil)
		var all []store.CommitParams
		for _, key := range []string{"a", "a%", "a_b", "ab", "a\U0010ffff", "B", "b", "ä", "z"} {
			all = append(all, commit(upload(t, s, key, store.IfAbsent()), 1))
		}
		_, err := s.CommitObjects(t.Context(), all)
		require.NoError(t, err)
		list := func(p store.ListParams) string {
			page, err := s.ListObjects(t.Context(), p)
			require.NoError(t, err)
			keys := ""
			for _, o := range page {
				keys += o.Key + " "
			}
			return keys
		}
		require.Equal(t, "B a a% a_b ab a\U0010ffff b z ä ", list(store.ListParams{Limit: 99}))
		require.Equal(t, "a_b ab ", list(store.ListParams{Prefix: "a", After: "a%", Limit: 2}))
		require.Equal(t, "a a% a_b ab a\U0010ffff ", list(store.ListParams{Prefix: "a", Limit: 99}))
		require.Equal(t, "a\U0010ffff ", list(store.ListParams{Prefix: "a\U0010ffff", Limit: 99}))
		require.Equal(t, "a% ", list(store.ListParams{Prefix: "a%", Limit: 99}))
		require.Equal(t, "", list(store.ListParams{Prefix: "b", After: "c", Limit: 99}))
	})
}

var serial atomic.Int64

// upload records an intent, as a coordinator would.
func upload(t testing.TB, s store.RowStore, key string, expect store.Condition) store.Intent {
	t.Helper()
	id := fmt.Sprintf("intent-%d", serial.Add(1))
	in, err := s.InsertIntent(t.Context(), store.InsertParams{
		ID: id, Holder: "me", Key: key, Expect: expect, BlobName: "blob/" + id, TTL: time.Hour, MaxPending: 2 * time.Hour,
	})
	require.NoError(t, err)
	require.Equal(t, id, in.ID)
	return in
}

func commit(in store.Intent, size int64) store.CommitParams {
	return store.CommitParams{
		IntentID: in.ID, Version: in.Version, Key: in.Key, Random: 12345,
		Blob: store.Blob{ETag: `"0x1"`, Size: size, ContentType: "text/plain"},
	}
}
