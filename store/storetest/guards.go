package storetest

import (
	"bytes"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

var sealCases = []blobCase{
	{"Seal/changes neither bytes nor ETag nor what the blob says of itself", func(t *blobTest) {
		t.guarded()
		for _, size := range []int{0, small, t.big} {
			name, content := fmt.Sprintf("b/%d", size), bytesOf("seal", size)
			info := t.create(name, content)
			require.False(t, info.Sealed)
			require.NoError(t, t.blobs.Seal(t.ctx, name, info.IntentID))
			info.Sealed = true
			t.unchanged(info, content)
		}
	}},
	{"Seal/again is no error", func(t *blobTest) {
		t.guarded()
		info := t.sealed("b", []byte("x"))
		require.NoError(t, t.blobs.Seal(t.ctx, "b", info.IntentID))
		t.unchanged(info, []byte("x"))
	}},
	{"Seal/refuses a blob of another intent", func(t *blobTest) {
		t.guarded()
		info := t.create("b", []byte("x"))
		require.ErrorIs(t, t.blobs.Seal(t.ctx, "b", intentID(999)), store.ErrGuardRefused)
		t.unchanged(info, []byte("x"))
	}},
	{"Seal/of an absent blob is ErrBlobNotFound", func(t *blobTest) {
		t.guarded()
		require.ErrorIs(t, t.blobs.Seal(t.ctx, "b", intentID(1)), store.ErrBlobNotFound)
		require.Empty(t, t.names(""))
	}},
	{"Probe/is nil on a store that is ready, and leaves nothing behind", func(t *blobTest) {
		require.NoError(t, t.blobs.Probe(t.ctx))
		require.NoError(t, t.blobs.Probe(t.ctx))
		require.Empty(t, t.names(""))
	}},
}

func pending(info store.BlobInfo) store.DeleteBlob {
	return store.DeleteBlob{Name: info.Name, IntentID: info.IntentID, Pending: true}
}

func anyState(info store.BlobInfo) store.DeleteBlob {
	return store.DeleteBlob{Name: info.Name, IntentID: info.IntentID}
}

var deleteBlobCases = []blobCase{
	{"Delete/of a pending blob under its guard", func(t *blobTest) {
		for _, guard := range []func(store.BlobInfo) store.DeleteBlob{pending, anyState} {
			info := t.create("b", []byte("x"))
			require.NoError(t, t.delete(guard(info))[0])
			t.noBlob("b")
			require.Empty(t, t.names(""))
		}
	}},
	{"Delete/of a sealed blob under its intent", func(t *blobTest) {
		t.guarded()
		info := t.sealed("b", []byte("x"))
		require.NoError(t, t.delete(anyState(info))[0])
		t.noBlob("b")
	}},
	{"Delete/refuses a blob of another intent", func(t *blobTest) {
		t.guarded()
		for _, info := range []store.BlobInfo{t.create("p", []byte("x")), t.sealed("s", []byte("x"))} {
			for _, asked := range []store.DeleteBlob{pending(info), anyState(info)} {
				asked.IntentID = intentID(999)
				require.ErrorIs(t, t.delete(asked)[0], store.ErrGuardRefused)
				t.unchanged(info, []byte("x"))
			}
		}
	}},
	{"Delete/refuses a sealed blob that should be pending", func(t *blobTest) {
		t.guarded()
		info := t.sealed("b", []byte("x"))
		require.ErrorIs(t, t.delete(pending(info))[0], store.ErrGuardRefused)
		t.unchanged(info, []byte("x"))
	}},
	{"Delete/of an absent blob is ErrBlobNotFound", func(t *blobTest) {
		require.ErrorIs(t, t.delete(store.DeleteBlob{Name: "b", IntentID: intentID(1)})[0], store.ErrBlobNotFound)
		info := t.create("b", []byte("x"))
		require.NoError(t, t.delete(pending(info))[0])
		require.ErrorIs(t, t.delete(pending(info))[0], store.ErrBlobNotFound)
	}},
	{"Delete/of none is none", func(t *blobTest) {
		require.Empty(t, t.delete())
	}},
	{"Delete/of a mixed batch has an outcome for each", func(t *blobTest) {
		t.guarded()
		var batch []store.DeleteBlob
		var want []error
		kept := []string{}
		for i := range 25 {
			gone := t.create(fmt.Sprintf("gone %d", i), []byte("x"))
			sealed := t.sealed(fmt.Sprintf("sealed+%d", i), []byte("x"))
			other := t.create(fmt.Sprintf("ändert%%%d", i), []byte("x"))
			stolen := anyState(other)
			stolen.IntentID = intentID(999)
			batch = append(batch, pending(gone), pending(sealed), stolen)
			want = append(want, nil, store.ErrGuardRefused, store.ErrGuardRefused)
			kept = append(kept, sealed.Name, other.Name)
		}
		for i := range 200 { // more than one request of the service takes
			batch = append(batch, store.DeleteBlob{Name: fmt.Sprintf("absent/%d", i), IntentID: intentID(i), Pending: true})
			want = append(want, store.ErrBlobNotFound)
		}
		for i := range batch { // mixed, in an order that is the same every time
			j := (i * 7919) % len(batch)
			batch[i], batch[j] = batch[j], batch[i]
			want[i], want[j] = want[j], want[i]
		}
		for i, err := range t.delete(batch...) {
			if want[i] == nil {
				require.NoError(t, err, "%s", batch[i].Name)
			} else {
				require.ErrorIs(t, err, want[i], "%s", batch[i].Name)
			}
		}
		require.ElementsMatch(t, kept, t.names(""))
	}},
	{"Delete/that clears staged blocks keeps to the guard", func(t *blobTest) {
		t.guarded()
		t.clearing()
		content := bytesOf("x", small)
		sealed, other := t.sealed("s", content), t.create("o", content)
		stolen := pending(other)
		stolen.IntentID = intentID(999)
		for _, asked := range []store.DeleteBlob{pending(sealed), stolen} {
			asked.ClearStaged = true
			require.ErrorIs(t, t.delete(asked)[0], store.ErrGuardRefused)
		}
		t.unchanged(sealed, content)
		t.unchanged(other, content)
		gone := pending(other)
		gone.ClearStaged = true
		require.NoError(t, t.delete(gone)[0])
		t.noBlob("o")
	}},
	{"Delete/that clears staged blocks leaves nothing and the name free", func(t *blobTest) {
		t.clearing()
		cleared := store.DeleteBlob{Name: "b", IntentID: intentID(1), Pending: true, ClearStaged: true}
		require.ErrorIs(t, t.delete(cleared)[0], store.ErrBlobNotFound) // nothing was staged

		src := &source{content: bytesOf("staged", t.big), chunk: 1 << 20, end: errBroken}
		p := t.params("b", store.NewBody(src, -1, ""))
		cleared.IntentID = p.IntentID
		_, err := t.blobs.Create(t.ctx, p)
		require.ErrorIs(t, err, errBroken)
		for range 2 {
			require.ErrorIs(t, t.delete(cleared)[0], store.ErrBlobNotFound)
			t.noBlob("b")
			require.Empty(t, t.names(""))
		}
		t.create("b", bytesOf("later", t.big))
	}},
	{"Delete/of many at once takes each", func(t *blobTest) {
		var batch []store.DeleteBlob
		for i := range 30 {
			batch = append(batch, pending(t.create(fmt.Sprintf("b/%d", i), bytes.Repeat([]byte{1}, i))))
		}
		for _, err := range t.delete(batch...) {
			require.NoError(t, err)
		}
		require.Empty(t, t.names(""))
	}},
}
