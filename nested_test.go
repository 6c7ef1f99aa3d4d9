package blobtx_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// A RowStore has no transaction that outlives a step, so the only one that
// could be held across a request to the blob store is the caller's.
func TestNoBlobRequestInsideTheCallersTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		open := &openTx{t: t}
		c, err := blobtx.New(w.rows, blobsWatching{w.blobs, open}, nil)
		require.NoError(t, err)
		ctx := t.Context()
		w.put("old", "1", nil)
		var ups []*blobtx.Upload
		for _, key := range []string{"a", "b"} {
			up, err := c.Stage(ctx, key, bytes.NewReader([]byte(key)), nil)
			require.NoError(t, err)
			ups = append(ups, up)
		}
		before := open.requests.Load()
		_, err = c.CommitWith(ctx, func(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
			tx, err := w.rows.Begin(ctx)
			require.NoError(t, err)
			open.is = true
			_, err = commit(tx)
			require.NoError(t, err)
			require.NoError(t, c.DeleteTx(ctx, tx, "old", nil))
			_, err = c.SetMetadataTx(ctx, tx, "a", map[string]string{"x": "y"}, nil)
			require.NoError(t, err)
			open.is = false
			return tx.Commit()
		}, ups...)
		require.NoError(t, err)
		require.Equal(t, before+2, open.requests.Load(), "two seals, after the commit")
	})
}

type openTx struct {
	t        *testing.T
	is       bool
	requests atomic.Int32
}

type blobsWatching struct {
	store.BlobStore
	tx *openTx
}

func (b blobsWatching) request() {
	b.tx.requests.Add(1)
	require.False(b.tx.t, b.tx.is, "a request to the blob store while the caller's transaction is open")
}

func (b blobsWatching) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	b.request()
	return b.BlobStore.Create(ctx, p)
}

func (b blobsWatching) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	b.request()
	return b.BlobStore.Stat(ctx, p)
}

func (b blobsWatching) Seal(ctx context.Context, name, id string) error {
	b.request()
	return b.BlobStore.Seal(ctx, name, id)
}

func (b blobsWatching) Delete(ctx context.Context, d []store.DeleteBlob) []error {
	b.request()
	return b.BlobStore.Delete(ctx, d)
}
