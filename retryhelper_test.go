package blobtx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store/memstore"
)

// Helpers of many a library run their closure again by themselves, in another
// transaction, when they believe that the first one failed.
func TestCommitWithAndHelpersThatRetry(t *testing.T) {
	for promise, tt := range map[string]struct {
		first  func(tx *memstore.Tx) error // what becomes of the first transaction
		second error                       // what commit says in the second
	}{
		"after a rollback":                {(*memstore.Tx).Rollback, nil},
		"after a COMMIT that was applied": {(*memstore.Tx).Commit, blobtx.ErrAlreadyCommitted},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			ups := w.three()
			objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				_, err := commit(tx)
				require.NoError(t, err)
				require.NoError(t, tt.first(tx))
				err = w.transaction(ctx, commit)
				if tt.second == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.second)
				}
				return err
			}, ups...)
			require.NoError(t, err)
			require.Len(t, objects, 3)
			require.Equal(t, "c", objects[0].Key)
			require.Len(t, w.rows.Objects(), 3)
			w.atRest()
		})
	}
	inBubble(t, "the first lands while the second is refused: the objects and nil", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		objects, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
			tx := w.begin()
			_, err := commit(tx)
			require.NoError(t, err)
			time.AfterFunc(2*time.Second, func() { _ = tx.Commit() }) // its reply is lost
			return w.transaction(ctx, commit)
		}, up)
		require.NoError(t, err)
		require.Equal(t, w.rows.Objects(), objects)
		w.atRest()
	})
	inBubble(t, "the first is in flight, the second ends in an error of the caller's: settled", func(t *testing.T) {
		business := errors.New("business rule")
		for _, end := range []func(tx *memstore.Tx) error{(*memstore.Tx).Commit, (*memstore.Tx).Rollback} {
			w := plain(t, nil)
			up := w.stage("k", "x", nil)
			_, err := w.CommitWith(t.Context(), func(ctx context.Context, commit commitFunc) error {
				tx := w.begin()
				_, err := commit(tx)
				require.NoError(t, err)
				time.AfterFunc(2*time.Second, func() { _ = end(tx) })
				return business
			}, up)
			if visible := len(w.rows.Objects()) == 1; visible {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, business)
			}
			up.Release()
			w.atRest()
		}
	})
}

func TestSealSaysWhyItRefuses(t *testing.T) {
	for promise, tt := range map[string]struct {
		then func(w *world, up *blobtx.Upload)
		want error
	}{
		"never committed": {func(*world, *blobtx.Upload) {}, blobtx.ErrNotCommitted},
		"aborted": {func(w *world, up *blobtx.Upload) {
			in := up.Intent()
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, blobtx.ErrNotCommitted},
		"forgotten": {func(w *world, up *blobtx.Upload) {
			_, err := w.Commit(w.t.Context(), nil, up)
			require.NoError(w.t, err)
			time.Sleep(2 * time.Hour)
			w.sweep()
		}, blobtx.ErrNotFound},
		"taken over": {func(w *world, up *blobtx.Upload) { w.stage("k", "x", named("i")).Release() }, blobtx.ErrTakenOver},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			up := w.stage("k", "x", named("i"))
			if promise == "forgotten" {
				up = w.stage("other", "x", nil)
			}
			tt.then(w, up)
			p.steps()
			require.ErrorIs(t, w.Seal(t.Context(), up), tt.want)
			require.Zero(t, p.steps()["seal"], "something was flipped")
			up.Release()
		})
	}
	inBubble(t, "its transaction is in flight: waits, then seals what was committed", func(t *testing.T) {
		w := plain(t, nil)
		up, tx := w.stage("k", "x", nil), w.begin()
		_, err := w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		time.AfterFunc(2*time.Second, func() { _ = tx.Commit() })
		require.NoError(t, w.Seal(t.Context(), up))
		info, _ := w.blobs.Get(up.Intent().BlobName)
		require.True(t, info.Sealed)
		w.atRest()
	})
}
