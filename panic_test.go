package blobtx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

// A server recovers from the panic of one request and goes on with the others:
// what panicked must hold no lock and keep nothing alive.
func TestAfterAPanicTheProcessGoesOn(t *testing.T) {
	inBubble(t, "of the caller's reader", func(t *testing.T) {
		w, p := tapped(t, nil)
		require.PanicsWithValue(t, "reader", func() {
			_, _ = w.Put(t.Context(), "k", reader(func([]byte) (int, error) { panic("reader") }), nil)
		})
		p.steps()
		time.Sleep(time.Hour)
		w.sweep()
		require.Zero(t, p.steps()["heartbeat"], "nobody can release it any more")
		w.put("k", "x", nil)
		w.atRest()
	})
	inBubble(t, "of OnEvent", func(t *testing.T) {
		w := plain(t, nil)
		c, err := blobtx.New(w.rows, w.blobs, &blobtx.Options{OnEvent: func(_ context.Context, e blobtx.Event) {
			if e.Key == "bad" {
				panic("event")
			}
		}})
		require.NoError(t, err)
		require.PanicsWithValue(t, "event", func() { _, _ = c.Put(t.Context(), "bad", text("x"), nil) })
		_, err = c.Put(t.Context(), "good", text("x"), nil)
		require.NoError(t, err)
		require.Equal(t, "x", w.read("bad"), "it was committed by then")
		w.atRest()
	})
	for _, step := range []string{"insert intent", "create blob", "commit objects", "seal", "settle intents"} {
		inBubble(t, "of a driver, at "+step, func(t *testing.T) {
			w, p := tapped(t, nil)
			w.put("warm", "up", nil)
			p.onBefore(func(_ context.Context, s string) error {
				if s == step {
					panic("driver")
				}
				return nil
			})
			require.PanicsWithValue(t, "driver", func() { _, _ = w.Put(t.Context(), "k", text("x"), nil) })
			p.onBefore(nil)
			o := w.put("l", "x", nil)
			require.Equal(t, "done", string(w.row(o.IntentID).State), "seals are recorded no more")
			w.atRest()
		})
	}
}
