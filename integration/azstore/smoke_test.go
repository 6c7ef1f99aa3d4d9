package azstore

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/store"
)

func TestSmoke(t *testing.T) {
	const id = "0190c0de-0000-4000-8000-000000000001"
	for _, size := range []int{0, 1, 4096, 64 << 10, 64<<10 + 1, 300 << 10} {
		c := services.AzuriteContainer(t)
		s, err := azstore.New(c, &azstore.Options{BlockSize: 64 << 10, Prefix: "p/"})
		require.NoError(t, err)
		require.NoError(t, s.Probe(t.Context()))
		data := bytes.Repeat([]byte("x"), size)
		p := store.CreateParams{Name: "a/b c", IntentID: id, Key: "Ärger/7 ", Base: "absent", Body: store.NewBody(bytes.NewReader(data), -1, "")}
		b, err := s.Create(t.Context(), p)
		require.NoError(t, err)
		p.Body = store.NewBody(bytes.NewReader(data), -1, "")
		_, err = s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrExists)
		t.Log(err)
		info, err := s.Stat(t.Context(), store.StatParams{Name: b.Name, Seal: true})
		require.NoError(t, err)
		require.Equal(t, store.BlobInfo{Blob: b, IntentID: id, Key: "Ärger/7 ", Base: "absent", CreatedAt: info.CreatedAt}, info)
		r, err := s.Open(t.Context(), store.OpenParams{Name: b.Name, ETag: b.ETag, Count: -1})
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, data, append([]byte{}, got...))
		_, err = s.Open(t.Context(), store.OpenParams{Name: b.Name, ETag: `"0x1"`, Count: -1})
		require.ErrorIs(t, err, store.ErrConflict)
		r, err = s.Open(t.Context(), store.OpenParams{Name: b.Name, ETag: b.ETag, Offset: int64(size), Count: 5})
		require.NoError(t, err)
		got, err = io.ReadAll(r)
		require.NoError(t, err)
		require.Empty(t, got)
		require.NoError(t, s.Seal(t.Context(), b.Name, id))
		for listed, err := range s.List(t.Context(), store.ListBlobsParams{Prefix: "a/"}) {
			require.NoError(t, err)
			info.Sealed = true
			require.Equal(t, info, listed)
		}
		errs := s.Delete(t.Context(), []store.DeleteBlob{{Name: b.Name, IntentID: id, Pending: true}, {Name: b.Name, IntentID: "x"}, {Name: b.Name, IntentID: id, ClearStaged: true}, {Name: "absent", IntentID: id, ClearStaged: true}})
		t.Log(errs)
		require.ErrorIs(t, errs[0], store.ErrGuardRefused)
		require.ErrorIs(t, errs[1], store.ErrGuardRefused)
		require.NoError(t, errs[2])
		require.ErrorIs(t, errs[3], store.ErrBlobNotFound)
	}
}
