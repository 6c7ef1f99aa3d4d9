package blobtx_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// three stages "c", "a" and "b", in this order.
func (w *world) three() []*blobtx.Upload {
	var ups []*blobtx.Upload
	for _, key := range []string{"c", "a", "b"} {
		ups = append(ups, w.stage(key, "new "+key, nil))
	}
	return ups
}

func (w *world) begin() *memstore.Tx {
	w.t.Helper()
	tx, err := w.rows.Begin(w.t.Context())
	require.NoError(w.t, err)
	return tx
}

func TestSeveralUploadsBecomeVisibleTogether(t *testing.T) {
	inBubble(t, "with Commit", func(t *testing.T) {
		w := plain(t, nil)
		w.put("c", "old", nil)
		ups := []*blobtx.Upload{
			w.stage("c", "new c", &blobtx.PutOptions{If: blobtx.IfExists(), Metadata: map[string]string{"n": "0"}}),
			w.stage("a", "new a", &blobtx.PutOptions{Metadata: map[string]string{"n": "1"}}),
			w.stage("b", "", &blobtx.PutOptions{Metadata: map[string]string{"n": "2"}}),
		}
		objects, err := w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		for i, want := range []struct{ key, n, body string }{{"c", "0", "new c"}, {"a", "1", "new a"}, {"b", "2", ""}} {
			require.Equal(t, want.key, objects[i].Key, "in the order of the uploads")
			require.Equal(t, want.n, objects[i].Metadata["n"])
			require.Equal(t, ups[i].Intent().ID, objects[i].IntentID)
			require.Equal(t, want.body, w.read(want.key))
			got, err := w.Get(t.Context(), want.key)
			require.NoError(t, err)
			require.Equal(t, got, objects[i])
			info, _ := w.blobs.Get(objects[i].Blob.Name)
			require.True(t, info.Sealed)
			require.Equal(t, store.Done, w.row(objects[i].IntentID).State)
		}
		w.atRest()
	})
	inBubble(t, "with CommitTx, not before the caller's commit", func(t *testing.T) {
		w := plain(t, nil)
		ups, tx := w.three(), w.begin()
		objects, err := w.CommitTx(t.Context(), tx, ups...)
		require.NoError(t, err)
		require.Len(t, objects, 3)
		require.Empty(t, w.rows.Objects())
		require.NoError(t, tx.Commit())
		require.Len(t, w.rows.Objects(), 3)
		for _, name := range []string{"a", "b", "c"} {
			require.Equal(t, "new "+name, w.read(name))
		}
		for i, o := range objects {
			info, _ := w.blobs.Get(o.Blob.Name)
			require.False(t, info.Sealed, "sealed before anybody saw the commit")
			require.Equal(t, store.Sealing, w.row(ups[i].Intent().ID).State)
		}
		require.NoError(t, w.Seal(t.Context(), ups...))
		for _, o := range objects {
			info, _ := w.blobs.Get(o.Blob.Name)
			require.True(t, info.Sealed)
		}
		require.NoError(t, w.Seal(t.Context(), ups...), "again")
		w.atRest()
	})
	inBubble(t, "in several transactions that touch the same keys, without deadlock", func(t *testing.T) {
		w := plain(t, nil)
		var wg sync.WaitGroup
		for i := range 8 {
			var ups []*blobtx.Upload
			for k := range 3 {
				ups = append(ups, w.stage(string(rune('a'+(i+k)%3)), "x", &blobtx.PutOptions{If: blobtx.Always()}))
			}
			wg.Go(func() {
				if _, err := w.Commit(t.Context(), nil, ups...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Len(t, w.rows.Objects(), 3)
		w.atRest()
	})
}

func TestAConflictLeavesNoTraceWhateverTheNumberOfUploads(t *testing.T) {
	stuck := map[string]struct {
		spoil func(w *world, ups []*blobtx.Upload)
		want  error
	}{
		"a conflict": {func(w *world, _ []*blobtx.Upload) { w.put("c", "theirs", nil) }, blobtx.ErrExists},
		"a takeover": {func(w *world, ups []*blobtx.Upload) {
			_, err := w.calm.Outcome(w.t.Context(), ups[0].Intent().ID)
			require.NoError(w.t, err)
		}, blobtx.ErrTakenOver},
		"an abort": {func(w *world, ups []*blobtx.Upload) {
			in := ups[0].Intent()
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, blobtx.ErrIntentLost},
		"an expiry": {func(w *world, ups []*blobtx.Upload) {
			in := w.row(ups[0].Intent().ID)
			in.ExpiresAt = time.Now()
			w.rows.SetIntent(in)
		}, blobtx.ErrIntentLost},
		"a hold": {func(w *world, ups []*blobtx.Upload) {
			in := w.row(ups[0].Intent().ID)
			in.State, in.DueAt = store.Held, time.Time{}
			w.rows.SetIntent(in)
		}, blobtx.ErrHeld},
		"an earlier commit": {func(w *world, ups []*blobtx.Upload) {
			_, err := w.Commit(w.t.Context(), nil, ups[0])
			require.NoError(w.t, err)
		}, blobtx.ErrAlreadyCommitted},
	}
	for what, tt := range stuck {
		// "c" is the last in key order: "a" and "b" were written before.
		inBubble(t, what+" on the third, though the caller commits", func(t *testing.T) {
			w := plain(t, nil)
			ups := w.three()
			tt.spoil(w, ups)
			objects, intents, retired := w.rows.Objects(), w.rows.Intents(), w.rows.RetiredNames()
			tx := w.begin()
			_, err := w.CommitTx(t.Context(), tx, ups...)
			require.ErrorIs(t, err, tt.want)
			require.NotErrorIs(t, err, blobtx.ErrTxUnusable)
			require.NoError(t, tx.Commit())
			require.Equal(t, objects, w.rows.Objects())
			require.Equal(t, intents, w.rows.Intents())
			require.Equal(t, retired, w.rows.RetiredNames())
			for _, up := range ups {
				up.Release()
			}
		})
		inBubble(t, what+" on the third, and the rest of the transaction goes on", func(t *testing.T) {
			w := plain(t, nil)
			ups := w.three()
			tt.spoil(w, ups)
			before := len(w.rows.Objects())
			tx := w.begin()
			_, err := w.CommitTx(t.Context(), tx, ups...)
			require.ErrorIs(t, err, tt.want)
			_, err = w.CommitTx(t.Context(), tx, ups[1:]...)
			require.NoError(t, err, "the transaction stays usable")
			require.NoError(t, tx.Commit())
			require.Len(t, w.rows.Objects(), before+2)
			ups[0].Release()
		})
	}
	inBubble(t, "with Commit", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		w.put("b", "theirs", nil)
		_, err := w.Commit(t.Context(), nil, ups...)
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, "b", conflict.Key, "it names the object that stood in the way")
		require.Len(t, w.rows.Objects(), 1)
		for _, up := range ups {
			require.Equal(t, store.Uploading, w.row(up.Intent().ID).State)
			in := up.Intent()
			require.NoError(t, w.Abort(t.Context(), &in))
		}
		w.atRest()
	})
}

func TestAfterARollbackTheSameUploadMayBeCommittedAgain(t *testing.T) {
	inBubble(t, "with CommitTx, any number of times", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		for range 3 {
			tx := w.begin()
			before := ups[0].Intent()
			_, err := w.CommitTx(t.Context(), tx, ups...)
			require.NoError(t, err)
			require.Equal(t, before, ups[0].Intent(), "CommitTx never changes an Upload")
			require.NoError(t, tx.Rollback())
			require.Empty(t, w.rows.Objects())
		}
		tx := w.begin()
		_, err := w.CommitTx(t.Context(), tx, ups...)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Len(t, w.rows.Objects(), 3)
		w.atRest()
	})
	inBubble(t, "with Commit", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		tx := w.begin()
		_, err := w.CommitTx(t.Context(), tx, ups...)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		_, err = w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestCommittedTwice(t *testing.T) {
	inBubble(t, "with Commit is a replay", func(t *testing.T) {
		for _, opts := range []*blobtx.Options{nil, {SealLater: true}} {
			w := plain(t, opts)
			ups := w.three()
			first, err := w.Commit(t.Context(), nil, ups...)
			require.NoError(t, err)
			rows := w.rows.Intents()
			again, err := w.Commit(t.Context(), nil, ups...)
			require.NoError(t, err)
			require.Equal(t, first, again)
			require.Equal(t, rows, w.rows.Intents())
			one, err := w.Commit(t.Context(), nil, ups[1])
			require.NoError(t, err)
			require.Equal(t, first[1:2], one)
			require.NoError(t, w.Delete(t.Context(), "a", nil))
			again, err = w.Commit(t.Context(), nil, ups...)
			require.NoError(t, err)
			require.Equal(t, first, again, "the objects as they were then")
			require.Len(t, w.rows.Objects(), 2, "a replay brought an object back")
			w.atRest()
		}
	})
	inBubble(t, "with CommitTx is ErrAlreadyCommitted, because the caller's rows went in the first time", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", named("i"))
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		replay := w.stage("k", "x", named("i"))
		for _, up := range []*blobtx.Upload{up, replay} {
			tx := w.begin()
			_, err = w.CommitTx(t.Context(), tx, up)
			require.ErrorIs(t, err, blobtx.ErrAlreadyCommitted)
			require.NotErrorIs(t, err, blobtx.ErrConflict)
			require.NoError(t, tx.Rollback())
		}
		w.atRest()
	})
	inBubble(t, "in the same transaction is ErrAlreadyCommitted", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		tx := w.begin()
		_, err := w.CommitTx(t.Context(), tx, up)
		require.NoError(t, err)
		_, err = w.CommitTx(t.Context(), tx, up)
		require.ErrorIs(t, err, blobtx.ErrAlreadyCommitted)
		require.NoError(t, tx.Commit())
		require.Len(t, w.rows.Objects(), 1)
		w.atRest()
	})
	inBubble(t, "by eight goroutines at once, all are told the same", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		objects, errs := make([][]blobtx.Object, 8), make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { objects[i], errs[i] = w.Commit(t.Context(), nil, up) })
		}
		wg.Wait()
		for i := range errs {
			require.NoError(t, errs[i])
			require.Equal(t, objects[0], objects[i])
		}
		require.Equal(t, objects[0], w.rows.Objects())
		w.atRest()
	})
	inBubble(t, "after its outcome was forgotten, nobody guesses", func(t *testing.T) {
		w, p := tapped(t, nil)
		up := w.stage("k", "x", nil)
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		w.sweep()
		require.Empty(t, w.rows.Intents())
		_, err = w.Commit(t.Context(), nil, up)
		require.Error(t, err)
		require.NotErrorIs(t, err, blobtx.ErrIntentLost, "told that it was abandoned, but it was committed")
		_, err = w.CommitWith(t.Context(), w.transaction, up)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.NotErrorIs(t, err, blobtx.ErrIntentLost)
		require.NotErrorIs(t, err, blobtx.ErrNotCommitted)
		p.lose("get intents", -1)
		_, err = w.Commit(t.Context(), nil, up)
		require.Error(t, err)
		require.NotErrorIs(t, err, blobtx.ErrIntentLost, "a guess, when the rows could not be read")
		require.Equal(t, "x", w.read("k"))
	})
}

func TestAMixtureOfReplaysAndOthersIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "x", named("i"))
		replay, fresh := w.stage("k", "x", named("i")), w.stage("other", "y", nil)
		intents := w.rows.Intents()
		for _, ups := range [][]*blobtx.Upload{{replay, fresh}, {fresh, replay}} {
			_, err := w.Commit(t.Context(), nil, ups...)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			require.ErrorContains(t, err, "1 of 2")
			_, err = w.CommitWith(t.Context(), func(context.Context, func(store.RowTx) ([]blobtx.Object, error)) error {
				t.Error("the function was called")
				return nil
			}, ups...)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			tx := w.begin()
			_, err = w.CommitTx(t.Context(), tx, ups...)
			require.ErrorIs(t, err, blobtx.ErrAlreadyCommitted)
			require.NoError(t, tx.Commit())
		}
		require.Equal(t, intents, w.rows.Intents())
		_, err := w.Commit(t.Context(), nil, fresh)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestWhatCannotBeCommittedAnyMore(t *testing.T) {
	for promise, tt := range map[string]struct {
		then func(w *world, up *blobtx.Upload)
		want error
	}{
		"abandoned by a sweeper": {func(w *world, up *blobtx.Upload) {
			up.Release()
			time.Sleep(15*time.Minute + time.Second)
			w.sweep()
		}, blobtx.ErrIntentLost},
		"aborted": {func(w *world, up *blobtx.Upload) {
			in := up.Intent()
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, blobtx.ErrIntentLost},
		"expired, to the second": {func(_ *world, up *blobtx.Upload) { time.Sleep(48 * time.Hour) }, blobtx.ErrIntentLost},
		"taken over":             {func(w *world, up *blobtx.Upload) { w.stage("k", "x", named("i")).Release() }, blobtx.ErrTakenOver},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "x", named("i"))
			tt.then(w, up)
			for range 2 {
				_, err := w.Commit(t.Context(), nil, up)
				require.ErrorIs(t, err, tt.want)
				require.ErrorContains(t, err, up.Intent().ID)
				_, err = w.CommitWith(t.Context(), w.transaction, up)
				require.ErrorIs(t, err, tt.want)
				require.NoError(t, w.transaction(t.Context(), func(tx store.RowTx) ([]blobtx.Object, error) {
					_, err = w.CommitTx(t.Context(), tx, up)
					return nil, nil
				}))
				require.ErrorIs(t, err, tt.want)
			}
			require.Empty(t, w.rows.Objects())
			w.atRest()
		})
	}
	inBubble(t, "a second before it expires it can", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		time.Sleep(48*time.Hour - time.Second)
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		w.atRest()
	})
}

func TestCommitOnceBegunDoesNotEndWithTheCaller(t *testing.T) {
	for _, step := range []string{"commit objects", "seal", "settle intents"} {
		inBubble(t, step, func(t *testing.T) {
			w, p := tapped(t, nil)
			up := w.stage("k", "x", nil)
			ctx, cancel := context.WithCancel(t.Context())
			p.onBefore(func(_ context.Context, s string) error {
				if s == step {
					cancel()
				}
				return nil
			})
			_, err := w.Commit(ctx, nil, up)
			require.NoError(t, err)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.Equal(t, store.Done, w.row(up.Intent().ID).State)
			w.atRest()
		})
	}
}

func TestASealThatFailsNeverFailsACommit(t *testing.T) {
	for _, step := range []string{"seal", "settle intents"} {
		inBubble(t, step, func(t *testing.T) {
			w, p := tapped(t, nil)
			p.lose(step, -1)
			o, err := w.Put(t.Context(), "k", text("x"), nil)
			require.NoError(t, err)
			require.Equal(t, store.Sealing, w.row(o.IntentID).State)
			w.sweep()
			require.Equal(t, store.Sealing, w.row(o.IntentID).State, "sweepers race the inline seal")
			time.Sleep(31 * time.Second)
			w.sweep()
			require.Equal(t, store.Done, w.row(o.IntentID).State)
			w.atRest()
		})
	}
	inBubble(t, "Seal refuses what is not committed", func(t *testing.T) {
		w := plain(t, nil)
		ups := w.three()
		_, err := w.Commit(t.Context(), nil, ups[0])
		require.NoError(t, err)
		err = w.Seal(t.Context(), ups...)
		require.ErrorIs(t, err, blobtx.ErrNotCommitted)
		for _, up := range ups[1:] {
			info, _ := w.blobs.Get(up.Intent().BlobName)
			require.False(t, info.Sealed, "a committed tag must be proof of a committed row")
			up.Release()
		}
		w.atRest()
	})
}
