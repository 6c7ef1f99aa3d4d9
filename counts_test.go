package blobtx_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

// What each operation costs, in statements and requests. A number that grows
// here is a round trip that every user pays.
func TestWhatOperationsCost(t *testing.T) {
	ctx := func(w *world) context.Context { return w.t.Context() }
	for promise, tt := range map[string]struct {
		opts *blobtx.Options
		run  func(w *world)
		want map[string]int
	}{
		"Put": {nil, func(w *world) { w.put("k", "x", nil) },
			map[string]int{"insert intent": 1, "create blob": 1, "commit objects": 1, "seal": 1, "settle intents": 1}},
		"Put with SealLater": {&blobtx.Options{SealLater: true}, func(w *world) { w.put("k", "x", nil) },
			map[string]int{"insert intent": 1, "create blob": 1, "commit objects": 1}},
		"Put that replaces": {nil, func(w *world) { w.put("there", "y", &blobtx.PutOptions{If: blobtx.Always()}) },
			map[string]int{"insert intent": 1, "create blob": 1, "commit objects": 1, "seal": 1, "settle intents": 1}},
		"Put with an idempotency key": {nil, func(w *world) { w.put("k", "x", named("i")) },
			map[string]int{"insert intent": 1, "create blob": 1, "commit objects": 1, "seal": 1, "settle intents": 1}},
		"Put that is a replay": {nil, func(w *world) { w.put("there", "x", named("there")) },
			map[string]int{"insert intent": 1}},
		"Put in conflict": {nil, func(w *world) {
			_, err := w.Put(ctx(w), "there", text("y"), nil)
			require.ErrorIs(w.t, err, blobtx.ErrExists)
		}, map[string]int{"insert intent": 1}},
		"Put whose body fails": {nil, func(w *world) {
			_, err := w.Put(ctx(w), "k", failing{text("x"), io.ErrUnexpectedEOF}, nil)
			require.Error(w.t, err)
		}, map[string]int{"insert intent": 1, "create blob": 1, "abandon": 1, "delete blobs": 1}},
		"the steps one by one": {nil, func(w *world) {
			in, err := w.Intent(ctx(w), "k", nil)
			require.NoError(w.t, err)
			up, err := w.Upload(ctx(w), in, text("x"), nil)
			require.NoError(w.t, err)
			_, err = w.Commit(ctx(w), nil, up)
			require.NoError(w.t, err)
		}, map[string]int{"insert intent": 1, "heartbeat": 1, "create blob": 1, "commit objects": 1, "seal": 1, "settle intents": 1}},
		"Delete": {nil, func(w *world) { require.NoError(w.t, w.Delete(ctx(w), "there", nil)) },
			map[string]int{"get object": 1, "delete object": 1}},
		"Delete of a version": {nil, func(w *world) {
			v := w.rows.Objects()[0].Version
			require.NoError(w.t, w.Delete(ctx(w), "there", &blobtx.DeleteOptions{If: blobtx.IfVersion(v)}))
		}, map[string]int{"delete object": 1}},
		"Delete of nothing": {nil, func(w *world) { require.NoError(w.t, w.Delete(ctx(w), "k", nil)) },
			map[string]int{"get object": 1}},
		"SetMetadata": {nil, func(w *world) { _, err := w.SetMetadata(ctx(w), "there", nil, nil); require.NoError(w.t, err) },
			map[string]int{"get object": 1, "set metadata": 1}},
		"SetMetadata of a version": {nil, func(w *world) {
			v := w.rows.Objects()[0].Version
			_, err := w.SetMetadata(ctx(w), "there", nil, &blobtx.MetadataOptions{If: blobtx.IfVersion(v)})
			require.NoError(w.t, err)
		}, map[string]int{"set metadata": 1}},
		"Get": {nil, func(w *world) { _, err := w.Get(ctx(w), "there"); require.NoError(w.t, err) },
			map[string]int{"get object": 1}},
		"Open and io.ReadAll": {nil, func(w *world) { _, err := io.ReadAll(w.open("there")); require.NoError(w.t, err) },
			map[string]int{"get object": 1, "open blob": 1}},
		"List of a page": {nil, func(w *world) { keys(w.t, w, nil) }, map[string]int{"list objects": 1}},
		"Abort": {nil, func(w *world) {
			in, err := w.Intent(ctx(w), "k", nil)
			require.NoError(w.t, err)
			require.NoError(w.t, w.Abort(ctx(w), in))
		}, map[string]int{"insert intent": 1, "abandon": 1, "delete blobs": 1}},
		"Settle": {nil, func(w *world) {
			up := w.stage("k", "x", nil)
			defer up.Release()
			_, err := w.Settle(ctx(w), up)
			require.NoError(w.t, err)
		}, map[string]int{"insert intent": 1, "create blob": 1, "take over": 1}},
		"Sweep of nothing": {nil, func(w *world) { w.sweepWith(w.Coordinator, 0) }, map[string]int{"forget": 1, "claim": 1}},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, tt.opts)
			w.put("there", "x", named("there"))
			p.steps()
			tt.run(w)
			require.Equal(t, tt.want, p.steps())
		})
	}
	for promise, tt := range map[string]struct {
		run  func(w *world, ups []*blobtx.Upload)
		want map[string]int
	}{
		"Commit of three": {func(w *world, ups []*blobtx.Upload) {
			_, err := w.Commit(ctx(w), nil, ups...)
			require.NoError(w.t, err)
		}, map[string]int{"commit objects": 1, "seal": 3}},
		"CommitWith of three": {func(w *world, ups []*blobtx.Upload) {
			_, err := w.CommitWith(ctx(w), w.transaction, ups...)
			require.NoError(w.t, err)
		}, map[string]int{"get intents": 1, "seal": 3}},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			ups := w.three()
			p.steps()
			tt.run(w, ups)
			got := p.steps()
			require.LessOrEqual(t, got["settle intents"], 3)
			require.GreaterOrEqual(t, got["settle intents"], 1)
			delete(got, "settle intents")
			require.Equal(t, tt.want, got)
		})
	}
	inBubble(t, "the first promise of a process also looks whether both stores are there", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", "x", nil)
		first := p.steps()
		require.Equal(t, 1, first["check"])
		require.Equal(t, 1, first["stat"])
	})
	inBubble(t, "a sweep of a thousand seals is settled in batches", func(t *testing.T) {
		w, p := tapped(t, &blobtx.Options{SealLater: true})
		for i := range 1000 {
			w.put(fmt.Sprint(i), "", nil)
		}
		p.steps()
		w.sweepWith(w.Coordinator, 0)
		require.Equal(t, map[string]int{"forget": 1, "claim": 5, "seal": 1000, "settle intents": 4}, p.steps())
	})
}

// hungCommit leaves a commit under way until the returned function is called.
func (w *world) hungCommit(p *tap) (release func()) {
	up, let := w.stage("hung", "x", nil), make(chan struct{})
	var first atomic.Bool
	p.onBefore(func(_ context.Context, step string) error {
		if step == "commit objects" && first.CompareAndSwap(false, true) {
			<-let
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = w.Commit(w.t.Context(), nil, up) })
	synctest.Wait()
	return func() { close(let); wg.Wait() }
}

func TestInlineSealsShareTheirStatements(t *testing.T) {
	for promise, tt := range map[string]struct {
		slow string
		most int
		puts int
	}{
		"those who commit at once share one":           {"commit objects", 1, 16},
		"a full batch does not wait for who is inside": {"commit objects", 4, 100},
		"those who come during a write share the next": {"settle intents", 3, 16},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			w.put("warm", "up", nil)
			p.onBefore(func(_ context.Context, step string) error {
				if step == tt.slow {
					time.Sleep(time.Second)
				}
				return nil
			})
			p.steps()
			var wg sync.WaitGroup
			for i := range tt.puts {
				wg.Go(func() {
					if _, err := w.Put(t.Context(), fmt.Sprint(i), text("x"), nil); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.LessOrEqual(t, p.steps()["settle intents"], tt.most)
			for _, in := range w.rows.Intents() {
				require.Equal(t, "done", string(in.State), "a settlement was left out")
			}
		})
	}
	inBubble(t, "a commit that hangs holds back no full batch", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("warm", "up", nil)
		release := w.hungCommit(p)
		p.steps()
		for i := range 70 {
			w.put(fmt.Sprint(i), "x", nil)
		}
		require.Equal(t, 2, p.steps()["settle intents"])
		release()
		for _, in := range w.rows.Intents() {
			require.Equal(t, "done", string(in.State), "a settlement was left out")
		}
	})
}

func TestOneWhoSharesAStatementDoesNotSufferForAnother(t *testing.T) {
	arrange := func(t *testing.T) (w *world, p *tap, ups []*blobtx.Upload) {
		w, p = tapped(t, nil)
		for i := range 3 {
			ups = append(ups, w.stage(fmt.Sprint(i), "x", nil))
		}
		for _, up := range ups {
			tx := w.begin()
			_, err := w.CommitTx(t.Context(), tx, up)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
		}
		return w, p, ups
	}
	inBubble(t, "the one who writes leaves: those who wait are sealed", func(t *testing.T) {
		w, p, ups := arrange(t)
		p.onBefore(func(ctx context.Context, step string) error {
			if step != "settle intents" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Second):
				return nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i, up := range ups {
			own := t.Context()
			if i < 2 { // the one who writes, and the one who would write next
				own = ctx
			}
			wg.Go(func() { errs[i] = w.Seal(own, up) })
			time.Sleep(time.Second)
		}
		cancel()
		wg.Wait()
		require.NoError(t, errs[2], "another's context ended")
		require.Equal(t, "done", string(w.row(ups[2].Intent().ID).State))
	})
	inBubble(t, "the one who writes hangs: a commit returns within its own bound", func(t *testing.T) {
		w, p, ups := arrange(t)
		release := make(chan struct{})
		p.onBefore(func(ctx context.Context, step string) error {
			if step != "settle intents" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-release:
				return nil
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.Seal(t.Context(), ups[0]) }) // without any deadline
		time.Sleep(time.Second)
		began := time.Now()
		var took time.Duration
		var err error
		wg.Go(func() {
			_, err = w.Put(t.Context(), "k", text("x"), nil)
			took = time.Since(began)
		})
		time.Sleep(10 * time.Minute)
		close(release)
		wg.Wait()
		require.NoError(t, err)
		require.LessOrEqual(t, took, time.Minute)
	})
}
