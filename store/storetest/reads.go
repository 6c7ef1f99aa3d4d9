package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

var statCases = []blobCase{
	{"Stat/of an absent blob is ErrBlobNotFound", func(t *blobTest) {
		t.create("b", nil)
		for _, name := range []string{"absent", "B", "b/", "b "} {
			t.noBlob(name)
		}
	}},
	{"Stat/says whether it is sealed when asked", func(t *blobTest) {
		t.guarded()
		require.False(t, t.create("p", nil).Sealed)
		require.True(t, t.sealed("s", nil).Sealed)
	}},
	{"Stat/tells the same facts whether the seal is asked for or not", func(t *blobTest) {
		want := t.create("b", bytesOf("x", small))
		got, err := t.blobs.Stat(t.ctx, store.StatParams{Name: "b"})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}},
}

var openCases = []blobCase{
	{"Open/reads ranges", func(t *blobTest) {
		for _, size := range []int{small, t.big} {
			name, content := fmt.Sprintf("b/%d", size), bytesOf("range", size)
			etag := t.create(name, content).ETag
			for _, r := range []struct{ offset, count int }{
				{0, -1}, {0, 1}, {0, size}, {0, size + 5}, {1, -1}, {1, 100}, {size - 1, 1}, {size - 1, -1}, {size - 10, 100}, {size / 2, size / 3},
			} {
				end := size
				if r.count >= 0 {
					end = min(size, r.offset+r.count)
				}
				got := t.read(store.OpenParams{Name: name, ETag: etag, Offset: int64(r.offset), Count: int64(r.count)})
				require.True(t, bytes.Equal(content[r.offset:end], got), "offset %d, count %d of %d: got %d bytes", r.offset, r.count, size, len(got))
			}
		}
	}},
	{"Open/at or past the end reads nothing", func(t *blobTest) {
		for _, size := range []int{0, 1, small} {
			name := fmt.Sprintf("b/%d", size)
			etag := t.create(name, bytesOf("end", size)).ETag
			for _, offset := range []int{size, size + 1, size + 1<<30} {
				for _, count := range []int64{-1, 0, 1, 100} {
					require.Empty(t, t.read(store.OpenParams{Name: name, ETag: etag, Offset: int64(offset), Count: count}))
				}
			}
		}
	}},
	{"Open/of at most no bytes reads nothing", func(t *blobTest) {
		etag := t.create("b", bytesOf("x", small)).ETag
		for _, offset := range []int64{0, 1, small - 1} {
			require.Empty(t, t.read(store.OpenParams{Name: "b", ETag: etag, Offset: offset, Count: 0}))
		}
	}},
	{"Open/under another ETag is ErrConflict", func(t *blobTest) {
		first, other := t.create("b", []byte("first")), t.create("other", []byte("other"))
		_, err := t.blobs.Open(t.ctx, store.OpenParams{Name: "b", ETag: other.ETag, Count: -1})
		require.ErrorIs(t, err, store.ErrConflict)
		require.NoError(t, t.delete(pending(first))[0])
		second := t.create("b", []byte("after"))
		_, err = t.blobs.Open(t.ctx, store.OpenParams{Name: "b", ETag: first.ETag, Offset: 1, Count: 2})
		require.ErrorIs(t, err, store.ErrConflict)
		t.holds("b", second.ETag, []byte("after"))
	}},
	{"Open/of an absent blob is ErrBlobNotFound", func(t *blobTest) {
		info := t.create("b", []byte("x"))
		require.NoError(t, t.delete(pending(info))[0])
		_, err := t.blobs.Open(t.ctx, store.OpenParams{Name: "b", ETag: info.ETag, Count: -1})
		require.ErrorIs(t, err, store.ErrBlobNotFound)
	}},
	{"Open/may be closed early", func(t *blobTest) {
		content := bytesOf("early", t.big)
		etag := t.create("b", content).ETag
		for range 5 {
			r, err := t.blobs.Open(t.ctx, store.OpenParams{Name: "b", ETag: etag, Count: -1})
			require.NoError(t, err)
			buf := make([]byte, 10)
			n, err := r.Read(buf)
			require.NoError(t, err)
			require.Equal(t, content[:n], buf[:n])
			require.NoError(t, r.Close())
		}
		t.holds("b", etag, content)
	}},
}

var listBlobCases = []blobCase{
	{"List/is in the byte order of the names", func(t *blobTest) {
		for _, name := range oddNames {
			t.create(name, nil)
		}
		require.Equal(t, slices.Sorted(slices.Values(oddNames)), t.names(""))
	}},
	{"List/takes a prefix byte for byte", func(t *blobTest) {
		names := slices.Concat(oddNames, []string{"with", "With space", "with spaces", "per", "per%2", "a/b", "a/bc", "a", "plusplus", "é", "éa"})
		for _, name := range names {
			t.create(name, nil)
		}
		slices.Sort(names)
		for _, prefix := range []string{"", "absent", "with ", "per%2", "a/b/", "a", "plus+", "é", "😀", "ha#", "que?", "quo'"} {
			want := []string{}
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			require.Equal(t, want, t.names(prefix), "prefix %q", prefix)
		}
	}},
	{"List/tells what Stat tells", func(t *blobTest) {
		t.guarded()
		want := []store.BlobInfo{t.create("a", bytesOf("a", small)), t.sealed("b", nil)}
		var got []store.BlobInfo
		for info, err := range t.blobs.List(t.ctx, store.ListBlobsParams{}) {
			require.NoError(t, err)
			if !strings.HasPrefix(info.Name, store.ReservedPrefix) {
				got = append(got, info)
			}
		}
		require.Equal(t, want, got)
	}},
	{"List/may be left early", func(t *blobTest) {
		for i := range 5 {
			t.create(fmt.Sprint(i), nil)
		}
		for info, err := range t.blobs.List(t.ctx, store.ListBlobsParams{}) {
			require.NoError(t, err)
			if info.Name == "2" {
				break
			}
		}
		require.Len(t, t.names(""), 5)
	}},
	{"List/of an empty container is empty", func(t *blobTest) {
		require.Empty(t, t.names(""))
	}},
	{"List/ends with an error", func(t *blobTest) {
		t.create("b", nil)
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		n := 0
		for _, err := range t.blobs.List(ctx, store.ListBlobsParams{}) {
			require.Error(t, err)
			n++
		}
		require.Equal(t, 1, n)
	}},
}
