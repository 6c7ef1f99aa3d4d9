package wire

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

// operation is one thing a client asks for. Run returns what it was told, nil
// for yes; visible reports whether it took effect.
type operation struct {
	name    string
	prepare func(w *world)
	run     func(ctx context.Context, w *world) error
	visible func(w *world) bool
	// commits and retires are how many uploads it commits and how many blobs it
	// gives up, if it takes effect.
	commits, retires int
	// rowsOnly: it asks nothing of the container.
	rowsOnly bool
	// ownTx: the application's own transaction takes part.
	ownTx bool
	// partly: a part of it may take effect alone, and a no is no promise.
	partly bool
}

func body(s string) *bytes.Reader { return bytes.NewReader([]byte(s)) }

func nothing(*world) {}

func existing(w *world) { w.put("k", "old") }

func only(w *world) blobtx.Condition { return blobtx.IfVersion(w.objects()[0].Version) }

func holds(key, content string) func(w *world) bool {
	return func(w *world) bool { return w.holds(key, content) }
}

func operations() []operation {
	var version blobtx.Condition // of the object that prepare made, read before the wire fails
	prepared := func(w *world) { existing(w); version = only(w) }
	put := func(o func() *blobtx.PutOptions) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			_, err := w.Put(ctx, "k", body("new"), o())
			return err
		}
	}
	return []operation{
		{name: "put", commits: 1, prepare: nothing, visible: holds("k", "new"), run: put(func() *blobtx.PutOptions { return nil })},
		{name: "put again after an unknown end", commits: 1, prepare: nothing, visible: holds("k", "new"), run: putUntilKnown},
		{name: "replace", commits: 1, retires: 1, prepare: prepared, visible: holds("k", "new"),
			run: put(func() *blobtx.PutOptions { return &blobtx.PutOptions{If: version} })},
		{name: "delete", retires: 1, rowsOnly: true, prepare: prepared, visible: func(w *world) bool { return !w.holds("k", "old") },
			run: func(ctx context.Context, w *world) error {
				return w.Delete(ctx, "k", &blobtx.DeleteOptions{If: version})
			}},
		{name: "set metadata", rowsOnly: true, prepare: prepared, visible: func(w *world) bool { return w.objects()[0].Metadata["a"] == "b" },
			run: func(ctx context.Context, w *world) error {
				_, err := w.SetMetadata(ctx, "k", map[string]string{"a": "b"}, &blobtx.MetadataOptions{If: version})
				return err
			}},
		{name: "commit with a row of one's own", commits: 1, retires: 1, ownTx: true, prepare: prepared, visible: together("k"), run: commitWith("k")},
		{name: "commit three with a row of one's own", commits: 3, ownTx: true, prepare: nothing, visible: together("a", "b", "c"), run: commitWith("c", "a", "b")},
		{name: "commit in a transaction, then settle", commits: 1, ownTx: true, prepare: nothing, visible: together("k"), run: commitTxAndSettle},
		{name: "sweep", prepare: backlog, visible: func(w *world) bool { return w.holds("sealed later", "x") && w.holds("k", "new") }, partly: true,
			run: func(ctx context.Context, w *world) error { _, err := w.Sweep(ctx, nil); return err }},
	}
}

// together: the uploads and the application's row, all or none.
func together(keys ...string) func(w *world) bool {
	return func(w *world) bool {
		n := 0
		for _, key := range keys {
			if w.holds(key, "new") {
				n++
			}
		}
		require.Contains(w.t, []int{0, len(keys)}, n, "some of the uploads became visible without the others")
		require.Equal(w.t, n == len(keys), w.notes() == 1, "the uploads and the application's row tell different stories")
		return n > 0
	}
}

// putUntilKnown asks again, as a client with an idempotency key does.
func putUntilKnown(ctx context.Context, w *world) error {
	o := &blobtx.PutOptions{IdempotencyKey: "request 1"}
	first, err := w.Put(ctx, "k", body("new"), o)
	if err == nil {
		return nil
	}
	second, again := w.Put(ctx, "k", body("new"), o)
	if again != nil {
		return errors.Join(err, again) // what was unknown still is
	}
	require.Empty(w.t, first.Key)
	require.Equal(w.t, second, w.objects()[0])
	return nil
}

func stage(ctx context.Context, w *world, keys []string) ([]*blobtx.Upload, func(), error) {
	var ups []*blobtx.Upload
	release := func() {
		for _, up := range ups {
			up.Release()
		}
	}
	for _, key := range keys {
		up, err := w.Stage(ctx, key, body("new"), &blobtx.PutOptions{If: blobtx.Always()})
		if err != nil {
			return nil, release, err
		}
		ups = append(ups, up)
	}
	return ups, release, nil
}

const note = "INSERT INTO notes VALUES ('mine')"

func commitWith(keys ...string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		ups, release, err := stage(ctx, w, keys)
		defer release()
		if err != nil {
			return err
		}
		_, err = w.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
			return w.tx(ctx, func(tx transaction) error {
				if err := tx.exec(note); err != nil {
					return err
				}
				if _, err := commit(tx.rows); err != nil {
					return err
				}
				return tx.commit()
			})
		}, ups...)
		return err
	}
}

// commitTxAndSettle is what CommitWith saves its users from.
func commitTxAndSettle(ctx context.Context, w *world) error {
	ups, release, err := stage(ctx, w, []string{"k"})
	defer release()
	if err != nil {
		return err
	}
	err = w.tx(ctx, func(tx transaction) error {
		if err := tx.exec(note); err != nil {
			return err
		}
		if _, err := w.CommitTx(ctx, tx.rows, ups...); err != nil {
			return err
		}
		return tx.commit()
	})
	if err == nil {
		return nil
	}
	outcome, unknown := w.Settle(ctx, ups...)
	switch {
	case unknown != nil:
		return unknown
	case outcome.Committed:
		return nil
	}
	return errors.Join(blobtx.ErrNotCommitted, err)
}

// backlog is one of each thing that a sweep does.
func backlog(w *world) {
	ctx := w.t.Context()
	w.put("k", "old")
	_, err := w.calm.Put(ctx, "k", body("new"), &blobtx.PutOptions{If: blobtx.Always()}) // one retired
	require.NoError(w.t, err)
	up, err := w.calm.Stage(ctx, "never committed", body("x"), nil)
	require.NoError(w.t, err)
	up.Release()
	_, err = w.sealsLater.Put(ctx, "sealed later", body("x"), nil)
	require.NoError(w.t, err)
	w.clock.Add(int64(2 * time.Hour))
}
