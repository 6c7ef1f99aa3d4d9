package blobtx_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// lost stages an upload that nobody will ever commit, and lets its deadline pass.
func (w *world) lost(key string) blobtx.Intent {
	w.t.Helper()
	up := w.stage(key, "lost", nil)
	up.Release()
	time.Sleep(15 * time.Minute)
	return up.Intent()
}

// arrives is a request of the intent's upload that reaches the service late.
func (w *world) arrives(in blobtx.Intent) {
	w.t.Helper()
	_, err := w.blobs.Create(w.t.Context(), store.CreateParams{
		Name: in.BlobName, IntentID: in.ID, Key: in.Key, Body: store.NewBody(text("late"), -1, ""),
	})
	require.NoError(w.t, err)
}

func TestSweepingAnUploadThatWasNeverCommitted(t *testing.T) {
	inBubble(t, "not before its deadline; then the blob goes, and the name is watched for the quarantine", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		up.Release()
		id := up.Intent().ID
		time.Sleep(15*time.Minute - time.Second)
		require.Equal(t, blobtx.SweepResult{}, w.sweep())
		require.Equal(t, store.Uploading, w.row(id).State)
		time.Sleep(time.Second)
		require.Equal(t, blobtx.SweepResult{Abandoned: 1}, w.sweep())
		require.Empty(t, w.blobs.Snapshot())
		in := w.row(id)
		require.Equal(t, store.Abandoned, in.State)
		require.True(t, in.Watched)
		require.Equal(t, time.Now().Add(24*time.Hour).UTC(), in.DueAt)
		time.Sleep(24*time.Hour - time.Second)
		require.Equal(t, blobtx.SweepResult{}, w.sweep())
		time.Sleep(time.Second)
		require.Equal(t, blobtx.SweepResult{Cleared: 1}, w.sweep())
		require.Empty(t, w.rows.Intents())
		require.Equal(t, blobtx.SweepResult{}, w.sweep())
	})
	inBubble(t, "an intent that was never uploaded goes the same way", func(t *testing.T) {
		w := plain(t, &blobtx.Options{Quarantine: time.Hour})
		_, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{TTL: time.Minute})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, blobtx.SweepResult{Abandoned: 1}, w.sweep())
		time.Sleep(time.Hour)
		require.Equal(t, blobtx.SweepResult{Cleared: 1}, w.sweep())
	})
	inBubble(t, "an upload that lands in the quarantine is found at its end, and another round begins", func(t *testing.T) {
		w := plain(t, nil)
		in := w.lost("k")
		w.sweep()
		for range 3 {
			time.Sleep(12 * time.Hour)
			w.arrives(in)
			require.Equal(t, blobtx.SweepResult{}, w.sweep())
			time.Sleep(12 * time.Hour)
			require.Equal(t, blobtx.SweepResult{Abandoned: 1}, w.sweep())
			require.Empty(t, w.blobs.Snapshot())
		}
		time.Sleep(24 * time.Hour)
		require.Equal(t, blobtx.SweepResult{Cleared: 1}, w.sweep())
		require.Empty(t, w.rows.Intents())
	})
	inBubble(t, "a last round that failed is tried again", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.lost("k")
		w.sweep()
		time.Sleep(24 * time.Hour)
		p.lose("delete blobs", 1)
		require.Equal(t, blobtx.SweepResult{Failed: 1}, w.sweepWith(w.Coordinator, 0))
		require.Len(t, w.rows.Intents(), 1)
		require.Equal(t, blobtx.SweepResult{Cleared: 1}, w.sweepWith(w.Coordinator, time.Minute))
		require.Empty(t, w.rows.Intents())
	})
	inBubble(t, "aborted ones are watched too", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		require.NoError(t, w.Abort(t.Context(), &in))
		w.arrives(in)
		w.sweep()
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
}

func TestSweepingWhatObjectsGaveUp(t *testing.T) {
	for promise, change := range map[string]func(w *world){
		"a replaced blob": func(w *world) { w.put("k", "new", &blobtx.PutOptions{If: blobtx.Always()}) },
		"a deleted blob":  func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), "k", nil)) },
	} {
		for grace, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Hour: time.Hour, -1: 0} {
			inBubble(t, fmt.Sprintf("%s goes after a grace of %s", promise, want), func(t *testing.T) {
				w := plain(t, &blobtx.Options{ReadGrace: grace})
				o := w.put("k", "old", nil)
				change(w)
				if want > 0 {
					time.Sleep(want - time.Second)
					w.sweep()
					require.Contains(t, w.blobs.Snapshot(), o.Blob.Name)
					time.Sleep(time.Second)
				}
				require.Equal(t, 1, w.sweep().Deleted)
				require.NotContains(t, w.blobs.Snapshot(), o.Blob.Name)
				require.Len(t, w.rows.RetiredNames(), 1, "its name is watched")
				time.Sleep(24 * time.Hour)
				require.Equal(t, 1, w.sweep().Cleared)
				require.Empty(t, w.rows.RetiredNames())
				w.intact()
				w.atRest()
			})
		}
	}
	inBubble(t, "a blob that is gone already counts as gone", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		w.blobs.Remove(o.Blob.Name)
		time.Sleep(5 * time.Minute)
		require.Equal(t, blobtx.SweepResult{Deleted: 1}, w.sweep())
		w.atRest()
	})
	// The create of a committed blob may have been sent twice.
	inBubble(t, "a create that lands in the quarantine is found at its end, and another round begins", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, w.sweep().Deleted)
		for range 2 {
			w.arrives(in)
			time.Sleep(24 * time.Hour)
			require.Zero(t, w.sweep().Cleared)
			require.Empty(t, w.blobs.Snapshot())
		}
		time.Sleep(24 * time.Hour)
		require.Equal(t, 1, w.sweep().Cleared)
		require.Empty(t, w.rows.RetiredNames())
		w.atRest()
	})
	inBubble(t, "before its seal was paid: deleted all the same, and the seal is settled", func(t *testing.T) {
		w := plain(t, &blobtx.Options{SealLater: true, ReadGrace: -1})
		w.put("k", "old", nil)
		w.put("k", "new", &blobtx.PutOptions{If: blobtx.Always()})
		w.sweep()
		w.sweep()
		require.Len(t, w.blobs.Snapshot(), 1)
		for _, in := range w.rows.Intents() {
			require.Equal(t, store.Done, in.State, in.LastError)
		}
		w.atRest()
	})
}

func TestSweepingSealsThatAreOwed(t *testing.T) {
	inBubble(t, "at once with SealLater", func(t *testing.T) {
		w := plain(t, &blobtx.Options{SealLater: true})
		o := w.put("k", "x", nil)
		info, _ := w.blobs.Get(o.Blob.Name)
		require.False(t, info.Sealed)
		require.Equal(t, blobtx.SweepResult{Sealed: 1}, w.sweep())
		info, _ = w.blobs.Get(o.Blob.Name)
		require.True(t, info.Sealed)
		require.Equal(t, store.Done, w.row(o.IntentID).State)
		require.Equal(t, time.Now().Add(time.Hour).UTC(), w.row(o.IntentID).DueAt, "retention begins when it is done")
		w.atRest()
	})
	committed := func(t *testing.T) (*world, blobtx.Object) {
		w := plain(t, &blobtx.Options{SealLater: true, ReadGrace: -1})
		return w, w.put("k", "x", nil)
	}
	for promise, then := range map[string]func(w *world){
		"named by the object":                   func(*world) {},
		"named by the object under new version": func(w *world) { _, err := w.SetMetadata(w.t.Context(), "k", nil, nil); require.NoError(w.t, err) },
	} {
		inBubble(t, "a missing blob "+promise+" is held and reported, never due again", func(t *testing.T) {
			w, o := committed(t)
			then(w)
			w.blobs.Remove(o.Blob.Name)
			require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
			in := w.row(o.IntentID)
			require.Equal(t, store.Held, in.State)
			require.True(t, in.DueAt.IsZero())
			require.NotEmpty(t, in.LastError)
			time.Sleep(1000 * time.Hour)
			require.Equal(t, blobtx.SweepResult{}, w.sweep())
			require.Equal(t, in, w.row(o.IntentID))
		})
	}
	for promise, then := range map[string]func(w *world){
		"replaced":            func(w *world) { w.put("k", "new", &blobtx.PutOptions{If: blobtx.Always()}) },
		"deleted":             func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), "k", nil)) },
		"deleted, made again": func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), "k", nil)); w.put("k", "new", nil) },
	} {
		inBubble(t, "a missing blob of an object that was "+promise+" is right: done", func(t *testing.T) {
			w, o := committed(t)
			then(w)
			w.blobs.Remove(o.Blob.Name)
			require.Zero(t, w.sweep().Held)
			require.Equal(t, store.Done, w.row(o.IntentID).State)
			w.atRest()
		})
	}
	inBubble(t, "the object cannot be read: tried again, not held", func(t *testing.T) {
		w, p := tapped(t, &blobtx.Options{SealLater: true})
		o := w.put("k", "x", nil)
		w.blobs.Remove(o.Blob.Name)
		p.lose("get object", -1)
		result, err := w.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, blobtx.SweepResult{Failed: 1}, result)
		require.Equal(t, store.Sealing, w.row(o.IntentID).State)
	})
	inBubble(t, "a blob of another intent under the name is held", func(t *testing.T) {
		w, o := committed(t)
		w.blobs.PutForeign(o.Blob.Name, []byte("x"))
		require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
		require.Equal(t, store.Held, w.row(o.IntentID).State)
		require.Contains(t, w.blobs.Snapshot(), o.Blob.Name)
	})
}

// What a guard refuses was committed once, or is not ours: a person decides,
// and nothing is deleted.
func TestAGuardsRefusalIsHeldAfterALook(t *testing.T) {
	held := func(t *testing.T, w *world, id string) {
		in := w.row(id)
		require.Equal(t, store.Held, in.State)
		require.True(t, in.DueAt.IsZero())
		require.NotEmpty(t, in.LastError)
		require.Contains(t, w.blobs.Snapshot(), in.BlobName)
		for range 3 {
			time.Sleep(100 * time.Hour)
			require.Equal(t, blobtx.SweepResult{}, w.sweep())
		}
		require.Contains(t, w.blobs.Snapshot(), in.BlobName)
		require.Equal(t, in, w.row(id))
	}
	inBubble(t, "a sealed blob under an abandoned intent: a restored database", func(t *testing.T) {
		w := plain(t, nil)
		in := w.lost("k")
		require.NoError(t, w.blobs.Seal(t.Context(), in.BlobName, in.ID)) // in the timeline that was lost
		require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
		held(t, w, in.ID)
	})
	inBubble(t, "a sealed blob under an aborted intent", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "x", nil)
		in := up.Intent()
		require.NoError(t, w.blobs.Seal(t.Context(), in.BlobName, in.ID))
		require.ErrorIs(t, w.Abort(t.Context(), &in), blobtx.ErrGuardRefused)
		require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
		held(t, w, in.ID)
	})
	inBubble(t, "a sealed blob that shows up in the quarantine", func(t *testing.T) {
		w := plain(t, nil)
		in := w.lost("k")
		w.sweep()
		w.arrives(in)
		require.NoError(t, w.blobs.Seal(t.Context(), in.BlobName, in.ID))
		time.Sleep(24 * time.Hour)
		require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
		held(t, w, in.ID)
	})
	inBubble(t, "a foreign blob under an abandoned name", func(t *testing.T) {
		w := plain(t, nil)
		in := w.lost("k")
		w.blobs.PutForeign(in.BlobName, []byte("theirs"))
		require.Equal(t, blobtx.SweepResult{Held: 1}, w.sweep())
		held(t, w, in.ID)
	})
	inBubble(t, "another intent's blob under a retired name", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		w.blobs.PutForeign(o.Blob.Name, []byte("theirs"))
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, w.sweep().Held)
		retired := w.rows.RetiredNames()
		require.Len(t, retired, 1)
		require.True(t, retired[0].DueAt.IsZero())
		require.NotEmpty(t, retired[0].LastError)
		time.Sleep(1000 * time.Hour)
		require.Zero(t, w.sweep().Held)
		require.Equal(t, "theirs", string(w.blobs.Snapshot()[o.Blob.Name]))
		require.Equal(t, retired, w.rows.RetiredNames())
	})
	for what, answer := range map[string]error{
		"the look fails":             store.ErrGuardRefused,
		"403":                        fmt.Errorf("403: %w", store.ErrSetup),
		"a foreign lease":            fmt.Errorf("412: there is a lease"),
		"the guard's false negative": store.ErrGuardRefused,
	} {
		inBubble(t, "but not for "+what, func(t *testing.T) {
			w, p := tapped(t, nil)
			in := w.lost("k")
			p.onBefore(func(_ context.Context, step string) error {
				if step == "delete blob "+in.BlobName {
					return answer
				}
				if step == "stat" && what == "the look fails" {
					return errWire
				}
				return nil
			})
			result, err := w.Sweep(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, blobtx.SweepResult{Failed: 1}, result)
			row := w.row(in.ID)
			require.Equal(t, store.Abandoned, row.State)
			require.NotEmpty(t, row.LastError)
			p.onBefore(nil)
			w.atRest()
			require.Empty(t, w.blobs.Snapshot())
		})
	}
}

func TestRetention(t *testing.T) {
	for promise, tt := range map[string]struct {
		retention time.Duration
		key       string
		want      time.Duration
	}{
		"an hour without an idempotency key": {0, "", time.Hour},
		"a day with one":                     {0, "i", 24 * time.Hour},
		"as configured, without":             {3 * time.Hour, "", 3 * time.Hour},
		"as configured, with":                {3 * time.Hour, "i", 3 * time.Hour},
	} {
		for _, later := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, sealed later: %t", promise, later), func(t *testing.T) {
				w := plain(t, &blobtx.Options{Retention: tt.retention, SealLater: later})
				w.put("k", "x", named(tt.key))
				if later {
					w.sweep()
				}
				time.Sleep(tt.want - time.Second)
				require.Equal(t, blobtx.SweepResult{}, w.sweep())
				require.Len(t, w.rows.Intents(), 1)
				time.Sleep(time.Second)
				require.Equal(t, blobtx.SweepResult{Forgotten: 1}, w.sweep())
				require.Empty(t, w.rows.Intents())
				require.Equal(t, "x", w.read("k"))
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		for i := range 2500 {
			w.put(fmt.Sprint(i), "", nil)
		}
		time.Sleep(time.Hour)
		require.Equal(t, blobtx.SweepResult{Forgotten: 2500}, w.sweep())
		require.Empty(t, w.rows.Intents())
	})
}
