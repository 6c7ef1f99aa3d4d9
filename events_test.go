package blobtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// heard keeps the events.
type heard struct {
	mu     sync.Mutex
	events []blobtx.Event
}

func (h *heard) on(_ context.Context, e blobtx.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *heard) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var kinds []string
	for _, e := range h.events {
		kinds = append(kinds, string(e.Kind))
	}
	h.events = nil
	return kinds
}

func TestEventsTellWhatHappened(t *testing.T) {
	sweepAt := func(w *world, in time.Duration) { w.sweepWith(w.Coordinator, in) }
	for promise, tt := range map[string]struct {
		run  func(w *world, p *tap)
		want []string
	}{
		"Put":      {func(w *world, _ *tap) { w.put("k", "x", nil) }, []string{"committed", "sealed"}},
		"a replay": {func(w *world, _ *tap) { w.put("k", "x", named("i")); w.put("k", "x", named("i")) }, []string{"committed", "sealed", "replayed"}},
		"a takeover": {func(w *world, _ *tap) {
			w.stage("k", "x", named("i")).Release()
			w.put("k", "x", named("i"))
		}, []string{"taken-over", "committed", "sealed"}},
		"Abort": {func(w *world, _ *tap) {
			up := w.stage("k", "x", nil)
			in := up.Intent()
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, []string{"aborted"}},
		"Abort after a commit": {func(w *world, _ *tap) {
			up := w.stage("k", "x", nil)
			in := up.Intent()
			_, err := w.Commit(w.t.Context(), nil, up)
			require.NoError(w.t, err)
			require.NoError(w.t, w.Abort(w.t.Context(), &in))
		}, []string{"committed", "sealed"}},
		"Commit twice": {func(w *world, _ *tap) {
			up := w.stage("k", "x", nil)
			for range 2 {
				_, err := w.Commit(w.t.Context(), nil, up)
				require.NoError(w.t, err)
			}
		}, []string{"committed", "sealed"}},
		"a commit whose reply was lost": {func(w *world, p *tap) {
			p.loseReply("commit objects", 1)
			w.put("k", "x", nil)
		}, []string{"committed", "sealed"}},
		"CommitWith": {func(w *world, _ *tap) {
			_, err := w.CommitWith(w.t.Context(), w.transaction, w.stage("k", "x", nil))
			require.NoError(w.t, err)
		}, []string{"committed", "sealed"}},
		"a conflict": {func(w *world, _ *tap) {
			w.put("k", "x", nil)
			_, err := w.Put(w.t.Context(), "k", text("y"), nil)
			require.Error(w.t, err)
		}, []string{"committed", "sealed"}},
		"a sweeper cleans up": {func(w *world, _ *tap) { w.lost("k"); sweepAt(w, 0); sweepAt(w, 24*time.Hour) }, []string{"abandoned"}},
		"a sweeper deletes": {func(w *world, _ *tap) {
			w.put("k", "x", nil)
			require.NoError(w.t, w.Delete(w.t.Context(), "k", nil))
			sweepAt(w, 5*time.Minute)
		}, []string{"committed", "sealed", "deleted"}},
		"a sweeper seals": {func(w *world, p *tap) {
			p.lose("seal", 1)
			w.put("k", "x", nil)
			sweepAt(w, 31*time.Second)
		}, []string{"committed", "sealed"}},
		"a sweeper holds": {func(w *world, _ *tap) {
			in := w.lost("k")
			require.NoError(w.t, w.blobs.Seal(w.t.Context(), in.BlobName, in.ID))
			sweepAt(w, 0)
			sweepAt(w, time.Hour)
		}, []string{"held"}},
		"a sweeper fails": {func(w *world, p *tap) {
			w.lost("k")
			p.lose("delete blobs", 1)
			sweepAt(w, 0)
		}, []string{"failed"}},
		"nothing": {func(w *world, _ *tap) { sweepAt(w, 0) }, nil},
	} {
		inBubble(t, promise, func(t *testing.T) {
			h := &heard{}
			w, p := tapped(t, &blobtx.Options{OnEvent: h.on})
			tt.run(w, p)
			for _, e := range h.events {
				require.NotEmpty(t, e.IntentID)
				require.NotEmpty(t, e.BlobName)
				require.True(t, e.Key == "k" || e.Kind == blobtx.EventDeleted, "key %q", e.Key)
				require.Equal(t, e.Kind == blobtx.EventHeld || e.Kind == blobtx.EventFailed, e.Err != nil)
			}
			require.Equal(t, tt.want, h.kinds())
		})
	}
	inBubble(t, "each of several uploads by its own", func(t *testing.T) {
		h := &heard{}
		w := plain(t, &blobtx.Options{OnEvent: h.on, SealLater: true})
		ups := w.three()
		_, err := w.Commit(t.Context(), nil, ups...)
		require.NoError(t, err)
		for i, e := range h.events {
			require.Equal(t, ups[i].Intent().Key, e.Key)
			require.Equal(t, ups[i].Intent().ID, e.IntentID)
		}
		require.Len(t, h.events, 3)
	})
	inBubble(t, "the context is the operation's", func(t *testing.T) {
		var values []any
		w := plain(t, &blobtx.Options{OnEvent: func(ctx context.Context, _ blobtx.Event) { values = append(values, ctx.Value(valueKey{})) }})
		_, err := w.Put(context.WithValue(t.Context(), valueKey{}, "v"), "k", text("x"), nil)
		require.NoError(t, err)
		require.Equal(t, []any{"v", "v"}, values)
	})
}

// trouble does everything that a logger could hear of.
func trouble(w *world, p *tap) {
	t := w.t
	ctx := t.Context()
	opts := func(o blobtx.PutOptions) *blobtx.PutOptions {
		o.Metadata = map[string]string{"name": secret}
		return &o
	}
	w.put("k", secret, opts(blobtx.PutOptions{}))
	_, err := w.Put(ctx, "k", text(secret), opts(blobtx.PutOptions{}))
	require.Error(t, err)
	_, err = w.Put(ctx, "k2", text(secret), opts(blobtx.PutOptions{SHA256: hexSum("other")}))
	require.Error(t, err)
	for _, step := range []string{"abandon", "seal", "settle intents", "heartbeat", "delete blobs", "claim", "create blob"} {
		p.lose(step, 3)
		_, _ = w.Put(ctx, "x"+step, failing{text(secret), errWire}, opts(blobtx.PutOptions{}))
		_, _ = w.Put(ctx, "y"+step, text(secret), opts(blobtx.PutOptions{}))
		up, err := w.Stage(ctx, "z"+step, text(secret), opts(blobtx.PutOptions{}))
		if err == nil {
			time.Sleep(10 * time.Minute)
			up.Release()
		}
		time.Sleep(time.Hour)
		_, _ = w.Sweep(ctx, nil)
	}
	p.onBefore(nil)
	in := w.lost("held")
	require.NoError(t, w.blobs.Seal(ctx, in.BlobName, in.ID))
	_, err = w.Sweep(ctx, nil)
	require.NoError(t, err)
	run, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	require.NoError(t, w.RunSweeper(run, nil))
}

func TestTheLogger(t *testing.T) {
	inBubble(t, "hears what went wrong, and no secrets and no bodies", func(t *testing.T) {
		var out bytes.Buffer
		var mu sync.Mutex
		logger := slog.New(slog.NewJSONHandler(locked{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w, p := tapped(t, &blobtx.Options{Logger: logger})
		trouble(w, p)
		mu.Lock()
		defer mu.Unlock()
		require.Contains(t, out.String(), "heartbeat failed")
		require.Contains(t, out.String(), "held")
		require.Contains(t, out.String(), errWire.Error())
		require.NotContains(t, out.String(), secret)
		for _, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			require.Contains(t, string(line), `"msg":"blobtx: `)
		}
	})
	inBubble(t, "hears nothing of what went well", func(t *testing.T) {
		var out bytes.Buffer
		w, p := tapped(t, &blobtx.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		w.put("k", "x", nil)
		_, err := w.Put(t.Context(), "k", text("y"), nil)
		require.ErrorIs(t, err, blobtx.ErrExists)
		// A heartbeat under way when the upload is released, or its client leaves.
		for _, end := range []func(up *blobtx.Upload, leave func()){
			func(up *blobtx.Upload, _ func()) { up.Release() },
			func(_ *blobtx.Upload, leave func()) { leave() },
		} {
			ctx, leave := context.WithCancel(t.Context())
			up, err := w.Stage(ctx, "l", text("x"), &blobtx.PutOptions{If: blobtx.Always()})
			require.NoError(t, err)
			p.onBefore(func(ctx context.Context, step string) error {
				if step == "heartbeat" {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			time.Sleep(6 * time.Minute)
			end(up, leave)
			time.Sleep(time.Minute)
			p.onBefore(nil)
			leave()
		}
		run, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, w.RunSweeper(run, nil))
		require.Empty(t, out.String())
	})
	inBubble(t, "nil is silent, on the default logger too", func(t *testing.T) {
		var out bytes.Buffer
		var mu sync.Mutex
		before := slog.Default()
		defer slog.SetDefault(before)
		slog.SetDefault(slog.New(slog.NewTextHandler(locked{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug})))
		w, p := tapped(t, nil)
		trouble(w, p)
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, out.String())
	})
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Errors of every step name the operation, the key and, where there is one, the
// intent, once each.
func TestErrorsAreWrappedOnce(t *testing.T) {
	inBubble(t, "with operation, key and intent", func(t *testing.T) {
		w, p := tapped(t, nil)
		p.steps()
		up := w.stage("invoice/7", "x", nil)
		defer up.Release()
		in := up.Intent()
		p.onBefore(func(context.Context, string) error { return errWire })
		_, put := w.Put(t.Context(), "invoice/7", text("x"), nil)
		_, commit := w.Commit(t.Context(), nil, up)
		_, with := w.CommitWith(t.Context(), w.transaction, up)
		_, settle := w.Settle(t.Context(), up)
		seal := w.Seal(t.Context(), up)
		abort := w.Abort(t.Context(), &in)
		remove := w.Delete(t.Context(), "invoice/7", nil)
		_, get := w.Get(t.Context(), "invoice/7")
		for op, err := range map[string]error{
			"put": put, "commit": commit, "settle": settle, "seal": seal, "abort": abort, "delete": remove, "get": get,
		} {
			require.ErrorIs(t, err, errWire, op)
			require.Regexp(t, "^blobtx: "+op+` "invoice/7"`, err.Error())
			require.Equal(t, 1, bytes.Count([]byte(err.Error()), []byte("blobtx: ")), "%v", err)
			require.Equal(t, 1, bytes.Count([]byte(err.Error()), []byte("invoice/7")), "%v", err)
			if slices.Contains([]string{"commit", "settle", "seal", "abort"}, op) {
				require.ErrorContains(t, err, in.ID)
			}
		}
		require.ErrorIs(t, with, blobtx.ErrOutcomeUnknown)
	})
	inBubble(t, "a driver's error stays reachable", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("warm", "up", nil)
		cause := &driverError{state: "40001"}
		p.lose("nothing", 0)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "insert intent" {
				return fmt.Errorf("insert: %w", cause)
			}
			return nil
		})
		_, err := w.Put(t.Context(), "k", text("x"), nil)
		var found *driverError
		require.True(t, errors.As(err, &found))
		require.Equal(t, "40001", found.state)
		require.NotErrorIs(t, err, store.ErrSetup)
	})
}

type driverError struct{ state string }

func (e *driverError) Error() string { return "SQLSTATE " + e.state }
