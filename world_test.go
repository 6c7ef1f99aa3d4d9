package blobtx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// world is one database, one container and one process over them. Inside a
// testing/synctest bubble its time is fake.
type world struct {
	t     *testing.T
	rows  *memstore.Rows
	blobs *memstore.Blobs
	wire  *wire
	calm  *blobtx.Coordinator // another process, whose wire never fails
	*blobtx.Coordinator
}

func newWorld(t *testing.T, opts *blobtx.Options) *world {
	w := &world{t: t, rows: memstore.NewRows(nil), blobs: memstore.NewBlobs(nil), wire: &wire{}}
	checkLeaks(t, w.rows)
	w.Coordinator = w.process(opts)
	var err error
	w.calm, err = blobtx.New(w.rows, w.blobs, opts)
	require.NoError(t, err)
	return w
}

// process is another process over the same stores, on the same wire.
func (w *world) process(opts *blobtx.Options) *blobtx.Coordinator {
	c, err := blobtx.New(rowsOnWire{w.rows, w.wire}, blobsOnWire{w.blobs, w.wire}, opts)
	require.NoError(w.t, err)
	return c
}

func (w *world) put(key, body string, opts *blobtx.PutOptions) blobtx.Object {
	w.t.Helper()
	o, err := w.Put(w.t.Context(), key, bytes.NewReader([]byte(body)), opts)
	require.NoError(w.t, err)
	return o
}

func (w *world) read(key string) string {
	w.t.Helper()
	r, err := w.calm.Open(w.t.Context(), key, nil)
	require.NoError(w.t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	require.NoError(w.t, err)
	return string(b)
}

// intact: a row in objects has its blob, with the row's ETag and bytes.
func (w *world) intact() {
	w.t.Helper()
	content := w.blobs.Snapshot()
	for _, o := range w.rows.Objects() {
		info, ok := w.blobs.Get(o.Blob.Name)
		require.True(w.t, ok, "dangling: object %q names blob %q, which is not there", o.Key, o.Blob.Name)
		sum := sha256.Sum256(content[o.Blob.Name])
		require.Equal(w.t, o.Blob.ETag, info.ETag)
		require.Equal(w.t, o.Blob.SHA256, hex.EncodeToString(sum[:]))
	}
}

// atRest lets every deadline pass, sweeps, and requires that the container
// holds exactly what objects and held intents name, sealed.
func (w *world) atRest() {
	w.t.Helper()
	w.wire.heal()
	for range 8 {
		time.Sleep(49 * time.Hour)
		_, err := w.calm.Sweep(w.t.Context(), nil)
		require.NoError(w.t, err)
		w.intact()
	}
	var want, have []string
	for _, o := range w.rows.Objects() {
		want = append(want, o.Blob.Name)
	}
	for _, in := range w.rows.Intents() {
		require.Equal(w.t, store.Held, in.State, "an intent is left in state %s: %s", in.State, in.LastError)
		want = append(want, in.BlobName)
	}
	require.Empty(w.t, w.rows.RetiredNames())
	for name := range w.blobs.Snapshot() {
		have = append(have, name)
		info, _ := w.blobs.Get(name)
		require.True(w.t, info.Sealed, "at rest, blob %q still says pending", name)
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(w.t, slices.Compact(want), have)
}

// errWire is what a caller sees of a request or a reply that was lost.
var errWire = errors.New("connection reset")

type fault int

const (
	lostRequest fault = iota // nothing was applied
	lostReply                // applied
	landsLate                // applied when the test says so, after the caller gave up
	faults
)

func (f fault) String() string {
	return [...]string{"request lost", "reply lost", "lands late"}[f]
}

// wire counts the steps that reach either store and makes the n-th fail.
type wire struct {
	mu    sync.Mutex
	n     int
	at    int // 0: never
	kind  fault
	every bool // all steps from the n-th on
	step  string
	late  []func()
	after func() // called after each step
}

func (w *wire) fail(at int, kind fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n, w.at, w.kind, w.step = 0, at, kind, ""
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
}

func (w *wire) armed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at != 0
}

// land applies what was delayed.
func (w *wire) land() {
	for _, apply := range w.late {
		apply()
	}
	w.late = nil
}

func (w *wire) do(step string, apply func() error) error {
	w.mu.Lock()
	w.n++
	hit := w.at != 0 && (w.n == w.at || w.every && w.n > w.at)
	if hit && w.step == "" {
		w.step = step
	}
	kind, after := w.kind, w.after
	w.mu.Unlock()
	if after != nil {
		defer after()
	}
	switch {
	case !hit:
		return apply()
	case kind == lostReply:
		_ = apply()
	case kind == landsLate:
		w.mu.Lock()
		w.late = append(w.late, func() { _ = apply() })
		w.mu.Unlock()
	}
	return errWire
}

// over runs a step that returns a value.
func over[T any](w *wire, step string, apply func() (T, error)) (T, error) {
	var v T
	err := w.do(step, func() (err error) { v, err = apply(); return err })
	if errors.Is(err, errWire) {
		var none T
		return none, err
	}
	return v, err
}

type rowsOnWire struct {
	store.RowStore
	w *wire
}

func (r rowsOnWire) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	return over(r.w, "insert intent", func() (store.Intent, error) { return r.RowStore.InsertIntent(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	return over(r.w, "take over", func() (store.Intent, error) { return r.RowStore.TakeOver(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	return over(r.w, "heartbeat", func() (store.Intent, error) { return r.RowStore.Heartbeat(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	return over(r.w, "abandon", func() (store.Intent, error) { return r.RowStore.Abandon(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) GetIntents(ctx context.Context, ids []string) ([]store.Intent, error) {
	return over(r.w, "get intents", func() ([]store.Intent, error) { return r.RowStore.GetIntents(ctx, ids) })
}

func (r rowsOnWire) GetObject(ctx context.Context, key string) (store.Object, error) {
	return over(r.w, "get object", func() (store.Object, error) { return r.RowStore.GetObject(ctx, key) })
}

func (r rowsOnWire) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return over(r.w, "commit objects", func() ([]store.Object, error) { return r.RowStore.CommitObjects(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return over(r.w, "delete object", func() (store.Object, error) { return r.RowStore.DeleteObject(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return over(r.w, "set metadata", func() (store.Object, error) {
		return r.RowStore.SetObjectMetadata(context.WithoutCancel(ctx), p)
	})
}

func (r rowsOnWire) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return over(r.w, "claim", func() (store.Claimed, error) { return r.RowStore.Claim(context.WithoutCancel(ctx), p) })
}

func (r rowsOnWire) SettleIntents(ctx context.Context, s []store.IntentSettlement) (int, error) {
	return over(r.w, "settle intents", func() (int, error) { return r.RowStore.SettleIntents(context.WithoutCancel(ctx), s) })
}

func (r rowsOnWire) SettleRetired(ctx context.Context, s []store.RetiredSettlement) (int, error) {
	return over(r.w, "settle retired", func() (int, error) { return r.RowStore.SettleRetired(context.WithoutCancel(ctx), s) })
}

func (r rowsOnWire) Forget(ctx context.Context, limit int) (int, error) {
	return over(r.w, "forget", func() (int, error) { return r.RowStore.Forget(context.WithoutCancel(ctx), limit) })
}

type blobsOnWire struct {
	store.BlobStore
	w *wire
}

func (b blobsOnWire) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	if !b.w.armed() {
		return b.BlobStore.Create(ctx, p)
	}
	// What is delayed on the wire was read from the body before.
	content, err := io.ReadAll(p.Body)
	if err != nil {
		return store.Blob{}, err
	}
	p.Body = store.NewBody(bytes.NewReader(content), -1, "")
	return over(b.w, "create blob", func() (store.Blob, error) { return b.BlobStore.Create(context.WithoutCancel(ctx), p) })
}

func (b blobsOnWire) Seal(ctx context.Context, name, id string) error {
	return b.w.do("seal", func() error { return b.BlobStore.Seal(context.WithoutCancel(ctx), name, id) })
}

func (b blobsOnWire) Delete(ctx context.Context, d []store.DeleteBlob) []error {
	errs := make([]error, len(d))
	err := b.w.do("delete blobs", func() error { copy(errs, b.BlobStore.Delete(context.WithoutCancel(ctx), d)); return nil })
	for i := range errs {
		if err != nil {
			errs[i] = err
		}
	}
	return errs
}

func (b blobsOnWire) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	return over(b.w, "stat", func() (store.BlobInfo, error) { return b.BlobStore.Stat(ctx, p) })
}

func (b blobsOnWire) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	return over(b.w, "open blob", func() (io.ReadCloser, error) { return b.BlobStore.Open(ctx, p) })
}
