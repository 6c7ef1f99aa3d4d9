package blobtx_test

import (
	"context"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// tap sits between a process and its stores. It counts the steps, and lets a
// test wait, look or refuse before each and after each.
type tap struct {
	mu     sync.Mutex
	counts map[string]int
	// before's error is returned instead of taking the step.
	before func(ctx context.Context, step string) error
	// after's error is returned although the step was taken.
	after func(ctx context.Context, step string, err error) error
	// bodies wraps what Open of the blob store returns.
	bodies func(io.ReadCloser) io.ReadCloser
}

// tapped is a world whose process has a tap on its stores.
func tapped(t *testing.T, opts *blobtx.Options) (*world, *tap) {
	w := newWorld(t, opts)
	p := &tap{counts: make(map[string]int)}
	w.Coordinator = p.process(w, opts)
	return w, p
}

// plain is a world whose process is right on its stores: a context that ends
// reaches them, as it does not over the wire.
func plain(t *testing.T, opts *blobtx.Options) *world {
	w := newWorld(t, opts)
	var err error
	w.Coordinator, err = blobtx.New(w.rows, w.blobs, opts)
	require.NoError(t, err)
	return w
}

// process is another process with this tap on its stores.
func (p *tap) process(w *world, opts *blobtx.Options) *blobtx.Coordinator {
	c, err := blobtx.New(rowsTapped{w.rows, p}, blobsTapped{w.blobs, p}, opts)
	require.NoError(w.t, err)
	return c
}

func (p *tap) onBefore(f func(ctx context.Context, step string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = f
}

func (p *tap) onAfter(f func(ctx context.Context, step string, err error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = f
}

// lose makes a step fail before it is taken, the first n times; negative: always.
func (p *tap) lose(step string, n int) {
	p.onBefore(func(_ context.Context, s string) error {
		if s == step && n != 0 {
			n--
			return errWire
		}
		return nil
	})
}

// loseReply makes a step fail after it was taken, the first n times.
func (p *tap) loseReply(step string, n int) {
	p.onAfter(func(_ context.Context, s string, err error) error {
		if s == step && n != 0 {
			n--
			return errWire
		}
		return nil
	})
}

// steps returns what was counted since the last call.
func (p *tap) steps() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := maps.Clone(p.counts)
	clear(p.counts)
	return counts
}

func through[T any](ctx context.Context, p *tap, step string, take func() (T, error)) (T, error) {
	p.mu.Lock()
	p.counts[step]++
	before, after := p.before, p.after
	p.mu.Unlock()
	var none T
	if before != nil {
		if err := before(ctx, step); err != nil {
			return none, err
		}
	}
	v, err := take()
	if after != nil {
		if lost := after(ctx, step, err); lost != nil {
			return none, lost
		}
	}
	return v, err
}

type rowsTapped struct {
	store.RowStore
	p *tap
}

func (r rowsTapped) Check(ctx context.Context) error {
	_, err := through(ctx, r.p, "check", func() (any, error) { return nil, r.RowStore.Check(ctx) })
	return err
}

func (r rowsTapped) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	return through(ctx, r.p, "insert intent", func() (store.Intent, error) { return r.RowStore.InsertIntent(ctx, p) })
}

func (r rowsTapped) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	return through(ctx, r.p, "take over", func() (store.Intent, error) { return r.RowStore.TakeOver(ctx, p) })
}

func (r rowsTapped) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	return through(ctx, r.p, "heartbeat", func() (store.Intent, error) { return r.RowStore.Heartbeat(ctx, p) })
}

func (r rowsTapped) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	return through(ctx, r.p, "abandon", func() (store.Intent, error) { return r.RowStore.Abandon(ctx, p) })
}

func (r rowsTapped) GetIntents(ctx context.Context, ids []string) ([]store.Intent, error) {
	return through(ctx, r.p, "get intents", func() ([]store.Intent, error) { return r.RowStore.GetIntents(ctx, ids) })
}

func (r rowsTapped) GetObject(ctx context.Context, key string) (store.Object, error) {
	return through(ctx, r.p, "get object", func() (store.Object, error) { return r.RowStore.GetObject(ctx, key) })
}

func (r rowsTapped) ListObjects(ctx context.Context, p store.ListParams) ([]store.Object, error) {
	return through(ctx, r.p, "list objects", func() ([]store.Object, error) { return r.RowStore.ListObjects(ctx, p) })
}

func (r rowsTapped) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return through(ctx, r.p, "commit objects", func() ([]store.Object, error) { return r.RowStore.CommitObjects(ctx, p) })
}

func (r rowsTapped) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return through(ctx, r.p, "delete object", func() (store.Object, error) { return r.RowStore.DeleteObject(ctx, p) })
}

func (r rowsTapped) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return through(ctx, r.p, "set metadata", func() (store.Object, error) { return r.RowStore.SetObjectMetadata(ctx, p) })
}

func (r rowsTapped) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return through(ctx, r.p, "claim", func() (store.Claimed, error) { return r.RowStore.Claim(ctx, p) })
}

func (r rowsTapped) SettleIntents(ctx context.Context, s []store.IntentSettlement) (int, error) {
	return through(ctx, r.p, "settle intents", func() (int, error) { return r.RowStore.SettleIntents(ctx, s) })
}

func (r rowsTapped) SettleRetired(ctx context.Context, s []store.RetiredSettlement) (int, error) {
	return through(ctx, r.p, "settle retired", func() (int, error) { return r.RowStore.SettleRetired(ctx, s) })
}

func (r rowsTapped) Forget(ctx context.Context, limit int) (int, error) {
	return through(ctx, r.p, "forget", func() (int, error) { return r.RowStore.Forget(ctx, limit) })
}

type blobsTapped struct {
	store.BlobStore
	p *tap
}

func (b blobsTapped) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	return through(ctx, b.p, "create blob", func() (store.Blob, error) { return b.BlobStore.Create(ctx, p) })
}

func (b blobsTapped) Seal(ctx context.Context, name, id string) error {
	_, err := through(ctx, b.p, "seal", func() (any, error) { return nil, b.BlobStore.Seal(ctx, name, id) })
	return err
}

// Delete asks before about every blob by its name too, so that a test can
// refuse one of a batch.
func (b blobsTapped) Delete(ctx context.Context, d []store.DeleteBlob) []error {
	errs := make([]error, len(d))
	_, err := through(ctx, b.p, "delete blobs", func() (any, error) {
		b.p.mu.Lock()
		before := b.p.before
		b.p.mu.Unlock()
		for i := range d {
			if before != nil {
				errs[i] = before(ctx, "delete blob "+d[i].Name)
			}
			if errs[i] == nil {
				errs[i] = b.BlobStore.Delete(ctx, d[i:i+1])[0]
			}
		}
		return nil, nil
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

func (b blobsTapped) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	return through(ctx, b.p, "stat", func() (store.BlobInfo, error) { return b.BlobStore.Stat(ctx, p) })
}

func (b blobsTapped) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	body, err := through(ctx, b.p, "open blob", func() (io.ReadCloser, error) { return b.BlobStore.Open(ctx, p) })
	if err == nil && b.p.bodies != nil {
		body = b.p.bodies(body)
	}
	return body, err
}

// inBubble runs one promise in a bubble of its own: time is fake, and a
// goroutine that is left behind fails the test.
func inBubble(t *testing.T, promise string, f func(t *testing.T)) {
	t.Helper()
	t.Run(promise, func(t *testing.T) { synctest.Test(t, f) })
}

// text is a body; it can seek.
func text(s string) io.Reader { return strings.NewReader(s) }

// pipe is a body that cannot seek.
func pipe(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// slowly is a body of many bytes, one every so often, until it has lasted so
// long. It cannot seek.
func slowly(long, every time.Duration) io.Reader {
	var began time.Time
	return reader(func(p []byte) (int, error) {
		switch now := time.Now(); {
		case began.IsZero():
			began = now
		case now.Sub(began) >= long:
			return 0, io.EOF
		}
		time.Sleep(every)
		p[0] = 'x'
		return 1, nil
	})
}

type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func (w *world) stage(key, body string, opts *blobtx.PutOptions) *blobtx.Upload {
	w.t.Helper()
	up, err := w.Stage(w.t.Context(), key, text(body), opts)
	require.NoError(w.t, err)
	return up
}

// sweep is a sweep of another process.
func (w *world) sweep() blobtx.SweepResult {
	w.t.Helper()
	result, err := w.calm.Sweep(w.t.Context(), nil)
	require.NoError(w.t, err)
	return result
}

// row returns the intent as the database has it.
func (w *world) row(id string) store.Intent {
	w.t.Helper()
	found, err := w.rows.GetIntents(w.t.Context(), []string{id})
	require.NoError(w.t, err)
	require.Len(w.t, found, 1, "intent %s is gone", id)
	return found[0]
}

// nothing requires that neither store was written to.
func (w *world) nothing() {
	w.t.Helper()
	require.Empty(w.t, w.rows.Intents())
	require.Empty(w.t, w.rows.Objects())
	require.Empty(w.t, w.rows.RetiredNames())
	require.Empty(w.t, w.blobs.Snapshot())
}

// transaction is what an application gives to CommitWith: a transaction with
// the uploads in it. What commit returned is its error.
func (w *world) transaction(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
	tx, err := w.rows.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := commit(tx); err != nil {
		return err
	}
	return tx.Commit()
}
