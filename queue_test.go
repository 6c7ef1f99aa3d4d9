package blobtx_test

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

// travelled is an intent after its way through a queue.
func travelled(t *testing.T, in *blobtx.Intent) *blobtx.Intent {
	b, err := json.Marshal(in)
	require.NoError(t, err)
	var out blobtx.Intent
	require.NoError(t, json.Unmarshal(b, &out))
	require.Equal(t, in.Expect, out.Expect)
	require.Equal(t, in.Version, out.Version)
	require.True(t, in.ExpiresAt.Equal(out.ExpiresAt))
	return &out
}

func TestAnIntentThatWaitedInAQueue(t *testing.T) {
	inBubble(t, "is uploaded and kept alive by another process", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "old", nil)
		w.sweeping()
		in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{
			TTL: 10 * time.Hour, If: blobtx.IfVersion(o.Version, 7), Metadata: map[string]string{"a": "é"}, IdempotencyKey: "i",
		})
		require.NoError(t, err)
		time.Sleep(9 * time.Hour)
		up, err := w.calm.Upload(t.Context(), travelled(t, in), slowly(20*time.Hour, time.Minute), nil)
		require.NoError(t, err)
		objects, err := w.calm.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "é"}, objects[0].Metadata)
		w.intact()
	})
	refused := map[string]struct {
		then func(w *world, in *blobtx.Intent)
		want error
	}{
		"swept away": {func(w *world, _ *blobtx.Intent) { time.Sleep(16 * time.Minute); w.sweep() }, blobtx.ErrIntentLost},
		"aborted":    {func(w *world, in *blobtx.Intent) { require.NoError(w.t, w.Abort(w.t.Context(), in)) }, blobtx.ErrIntentLost},
		"forgotten": {func(w *world, _ *blobtx.Intent) {
			for range 3 {
				time.Sleep(25 * time.Hour)
				w.sweep()
			}
			require.Empty(w.t, w.rows.Intents())
		}, blobtx.ErrNotFound},
		"taken over": {func(w *world, _ *blobtx.Intent) { w.stage("k", "x", named("i")).Release() }, blobtx.ErrTakenOver},
	}
	for promise, tt := range refused {
		inBubble(t, promise+" meanwhile is refused before a byte is read", func(t *testing.T) {
			w, p := tapped(t, nil)
			in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{IdempotencyKey: "i"})
			require.NoError(t, err)
			tt.then(w, in)
			p.steps()
			body := &counted{Reader: text("x")}
			_, err = w.Upload(t.Context(), travelled(t, in), body, nil)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, in.ID)
			require.Zero(t, body.reads)
			require.Zero(t, p.steps()["create blob"])
			w.atRest()
		})
	}
	inBubble(t, "committed meanwhile is a replay", func(t *testing.T) {
		w := plain(t, nil)
		in, err := w.Intent(t.Context(), "k", &blobtx.IntentOptions{IdempotencyKey: "i"})
		require.NoError(t, err)
		o := w.put("k", "x", named("i"))
		body := &counted{Reader: text("x")}
		up, err := w.calm.Upload(t.Context(), travelled(t, in), body, nil)
		require.NoError(t, err)
		stored, ok := up.Replay()
		require.True(t, ok)
		require.Equal(t, o, stored)
		require.Zero(t, body.reads)
	})
	inBubble(t, "expired and not swept never becomes visible", func(t *testing.T) {
		w := plain(t, &blobtx.Options{MaxPending: time.Hour})
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		up, err := w.Upload(t.Context(), in, text("x"), nil)
		if err == nil {
			_, err = w.Commit(t.Context(), nil, up)
		}
		require.ErrorIs(t, err, blobtx.ErrIntentLost)
		require.Empty(t, w.rows.Objects())
		up.Release()
		w.atRest()
	})
	inBubble(t, "whose heartbeat cannot be asked for sends nothing", func(t *testing.T) {
		w, p := tapped(t, nil)
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		p.lose("heartbeat", -1)
		body := &counted{Reader: text("x")}
		_, err = w.Upload(t.Context(), in, io.MultiReader(body), nil)
		require.ErrorIs(t, err, errWire)
		require.Zero(t, body.reads)
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
}
