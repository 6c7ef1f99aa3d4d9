package blobtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// An operation is one thing a client asks for. Told is what it was told: nil
// for yes. Visible reports whether it took effect.
type operation struct {
	name    string
	prepare func(w *world)
	run     func(ctx context.Context, w *world) error
	visible func(w *world) bool
}

func operations() []operation {
	holds := func(key, body string) func(w *world) bool {
		return func(w *world) bool {
			_, err := w.calm.Get(w.t.Context(), key)
			return err == nil && w.read(key) == body
		}
	}
	put := func(key, body string, o *blobtx.PutOptions) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			object, err := w.Put(ctx, key, bytes.NewReader([]byte(body)), o)
			if err == nil {
				require.Equal(w.t, body, w.read(object.Key))
			}
			return err
		}
	}
	existing := func(w *world) { w.put("k", "old", nil) }
	return []operation{
		{"create", func(*world) {}, put("k", "new", nil), holds("k", "new")},
		{"create with an idempotency key", func(*world) {}, put("k", "new", &blobtx.PutOptions{IdempotencyKey: "i"}), holds("k", "new")},
		{"replace always", existing, put("k", "new", &blobtx.PutOptions{If: blobtx.Always()}), holds("k", "new")},
		{"replace a version", existing, func(ctx context.Context, w *world) error {
			return put("k", "new", &blobtx.PutOptions{If: blobtx.IfVersion(w.rows.Objects()[0].Version)})(ctx, w)
		}, holds("k", "new")},
		{"delete", existing, func(ctx context.Context, w *world) error { return w.Delete(ctx, "k", nil) },
			func(w *world) bool { return !holds("k", "old")(w) }},
		{"delete a version", existing, func(ctx context.Context, w *world) error {
			return w.Delete(ctx, "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(w.rows.Objects()[0].Version)})
		}, func(w *world) bool { return !holds("k", "old")(w) }},
		{"set metadata", existing, func(ctx context.Context, w *world) error {
			_, err := w.SetMetadata(ctx, "k", map[string]string{"a": "b"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(w.rows.Objects()[0].Version)})
			return err
		}, func(w *world) bool { return w.rows.Objects()[0].Metadata["a"] == "b" }},
		{"three in one commit", func(*world) {}, stageThree(func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			_, err := w.Commit(ctx, nil, ups...)
			return err
		}), holds("b", "new")},
		{"three beside the caller's rows", func(*world) {}, stageThree(func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			_, err := w.CommitWith(ctx, func(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
				tx, err := w.rows.Begin(ctx)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := commit(tx); err != nil {
					return err
				}
				return w.wire.do("COMMIT", tx.Commit)
			}, ups...)
			return err
		}), holds("b", "new")},
	}
}

func stageThree(commit func(context.Context, *world, []*blobtx.Upload) error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		var ups []*blobtx.Upload
		for _, key := range []string{"c", "a", "b"} {
			up, err := w.Stage(ctx, key, bytes.NewReader([]byte("new")), nil)
			if err != nil {
				return err
			}
			defer up.Release()
			ups = append(ups, up)
		}
		return commit(ctx, w, ups)
	}
}

// Every single message of every operation is lost, loses its reply, or lands
// late; what the client is told stays true for ever, no row ever dangles, and
// nothing is left over at rest.
func TestEveryLostMessageLeavesTheTruth(t *testing.T) {
	for _, op := range operations() {
		for kind := range faults {
			for _, lands := range []string{"before the sweep", "after a sweep"} {
				if kind != landsLate && lands != "before the sweep" {
					continue
				}
				name := fmt.Sprintf("%s/%s %s", op.name, kind, lands)
				t.Run(name, func(t *testing.T) {
					fired := 0
					for n := 1; ; n++ {
						hit := false
						synctest.Test(t, func(t *testing.T) { hit = loseOne(t, op, n, kind, lands) })
						if !hit {
							break
						}
						fired++
					}
					require.Positive(t, fired, "no fault was injected")
				})
			}
		}
	}
}

func loseOne(t *testing.T, op operation, n int, kind fault, lands string) (hit bool) {
	w := newWorld(t, nil)
	op.prepare(w)
	w.wire.after = w.intact
	w.wire.fail(n, kind)
	told := op.run(t.Context(), w)
	hit = w.wire.step != ""
	w.wire.heal()
	visible := op.visible(w)
	switch {
	case told == nil:
		require.True(t, visible, "told yes after %q, but it is not there", w.wire.step)
	case errors.Is(told, blobtx.ErrOutcomeUnknown):
	default:
		require.False(t, visible, "told %v after %q, but it is there", told, w.wire.step)
	}
	if lands == "after a sweep" {
		_, err := w.Sweep(t.Context(), nil)
		require.NoError(t, err)
	}
	w.wire.land()
	if told == nil || !errors.Is(told, blobtx.ErrOutcomeUnknown) {
		require.Equal(t, visible, op.visible(w), "what was told became untrue when the late %q landed", w.wire.step)
	}
	w.atRest()
	return hit
}

// The same with everything failing from the n-th message on, and a sweeper in
// another process afterwards: a crash, as far as the stores can see.
func TestEveryCrashPointIsSweptUp(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			for n := 1; ; n++ {
				hit := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil)
					op.prepare(w)
					w.wire.after = w.intact
					w.wire.fail(n, lostRequest)
					w.wire.every = true
					told := op.run(t.Context(), w)
					hit = w.wire.step != ""
					w.wire.heal()
					if told != nil && !errors.Is(told, blobtx.ErrOutcomeUnknown) {
						require.False(t, op.visible(w), "told %v, but it is there", told)
					}
					w.atRest()
				})
				if !hit {
					require.Greater(t, n, 1, "no fault was injected")
					break
				}
			}
		})
	}
}
