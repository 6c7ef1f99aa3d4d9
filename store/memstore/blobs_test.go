package memstore_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

func TestWhatOthersDoToBlobs(t *testing.T) {
	blobs := memstore.NewBlobs(nil)
	created, err := blobs.Create(t.Context(), store.CreateParams{
		Name: "b", IntentID: "1", Body: store.NewBody(strings.NewReader("ours"), -1, ""),
	})
	require.NoError(t, err)
	reader, err := blobs.Open(t.Context(), store.OpenParams{Name: "b", ETag: created.ETag, Count: -1})
	require.NoError(t, err)

	info := blobs.PutForeign("b", []byte("theirs"))
	require.Empty(t, info.IntentID)
	require.NotEqual(t, created.ETag, info.ETag)
	got, found := blobs.Get("b")
	require.True(t, found)
	require.Equal(t, info, got)
	require.Equal(t, map[string][]byte{"b": []byte("theirs")}, blobs.Snapshot())
	for _, id := range []string{"1", ""} { // no guard holds for a blob that bears no id
		require.ErrorIs(t, blobs.Seal(t.Context(), "b", id), store.ErrGuardRefused)
		require.ErrorIs(t, blobs.Delete(t.Context(), []store.DeleteBlob{{Name: "b", IntentID: id}})[0], store.ErrGuardRefused)
	}

	require.True(t, blobs.Remove("b"))
	require.False(t, blobs.Remove("b"))
	_, found = blobs.Get("b")
	require.False(t, found)
	content, err := io.ReadAll(reader) // of the version that was opened
	require.NoError(t, err)
	require.Equal(t, "ours", string(content))
}

// An error in which io.EOF is wrapped is the failure of something that the
// reader read from.
func TestABodyThatFailedWithAWrappedEOFIsNoBlob(t *testing.T) {
	blobs := memstore.NewBlobs(nil)
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(fmt.Errorf("get: %w", io.EOF)))
	_, err := blobs.Create(t.Context(), store.CreateParams{Name: "b", IntentID: "1", Body: store.NewBody(broken, -1, "")})
	var failed *store.BodyError
	require.ErrorAs(t, err, &failed)
	require.Empty(t, blobs.Snapshot())
}
