package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// oddNames are blob names that some layer may encode, decode or split wrongly.
var oddNames = []string{
	"plain", "with space", "a/b/c.txt", "per%cent", "per%20cent", "plus+plus", "ha#sh", "que?stion=1&b=2", "semi;colon", "com,ma",
	"quo'te", `dou"ble`, "tilde~", "Ünïcode/é", "e\u0301", "中文", "😀", "مفتاح", "(paren)[bracket]{brace}", "a:b@c=d", "<xml>&amp;", ".hidden",
}

var createCases = []blobCase{
	{"Create/is readable whole with its facts, at every size", func(t *blobTest) {
		for _, size := range t.sizes() {
			name, content := fmt.Sprintf("b/%d", size), bytesOf("create", size)
			p := t.params(name, bodyOf(content))
			b, err := t.blobs.Create(t.ctx, p)
			require.NoError(t, err)
			require.NotEmpty(t, b.ETag)
			require.Equal(t, store.Blob{Name: name, ETag: b.ETag, Size: int64(size), SHA256: sumOf(content), ContentType: "text/plain"}, b)
			info := t.stat(name)
			require.NotZero(t, info.CreatedAt)
			require.Equal(t, store.BlobInfo{
				Blob: b, IntentID: p.IntentID, Key: p.Key, Base: p.Base, CreatedAt: info.CreatedAt,
			}, info)
			t.holds(name, b.ETag, content)
		}
	}},
	{"Create/takes bodies that declare their size and hash", func(t *blobTest) {
		for _, size := range t.sizes() {
			name, content := fmt.Sprintf("b/%d", size), bytesOf("declared", size)
			src := &source{content: content, chunk: 1000} // not a Seeker
			b, err := t.blobs.Create(t.ctx, t.params(name, store.NewBody(src, int64(size), sumOf(content))))
			require.NoError(t, err)
			require.Equal(t, sumOf(content), b.SHA256)
			t.holds(name, b.ETag, content)
		}
	}},
	{"Create/a blob describes itself, whatever the key", func(t *blobTest) {
		for i, key := range lookalikes {
			p := t.params(fmt.Sprintf("b/%d", i), bodyOf([]byte(key)))
			p.Key, p.Base = key, store.IfVersion(1, 1<<62).String()
			_, err := t.blobs.Create(t.ctx, p)
			require.NoError(t, err)
			info := t.stat(p.Name)
			require.Equal(t, key, info.Key)
			require.Equal(t, p.Base, info.Base)
			require.Equal(t, p.IntentID, info.IntentID)
		}
	}},
	{"Create/without a content type is an octet stream", func(t *blobTest) {
		p := t.params("b", bodyOf(nil))
		p.ContentType = ""
		b, err := t.blobs.Create(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, "application/octet-stream", b.ContentType)
		require.Equal(t, b, t.stat("b").Blob)
	}},
	{"Create/takes odd names as they are", func(t *blobTest) {
		for _, name := range oddNames {
			require.NoError(t, store.ValidateBlobName(name))
			info := t.create(name, []byte(name))
			require.Equal(t, name, info.Name)
			t.holds(name, info.ETag, []byte(name))
		}
		for _, name := range oddNames { // none has taken another's place
			info := t.stat(name)
			t.holds(name, info.ETag, []byte(name))
			require.NoError(t, t.blobs.Seal(t.ctx, name, info.IntentID))
			require.True(t, t.stat(name).Sealed)
			require.NoError(t, t.delete(store.DeleteBlob{Name: name, IntentID: info.IntentID})[0])
			t.noBlob(name)
		}
	}},
	{"Create/refuses a name that is taken", func(t *blobTest) {
		t.secondCreate(small, 0, 1, small)
	}},
	{"Create/refuses a name that is taken, above every threshold", func(t *blobTest) {
		t.secondCreate(small, t.big)
		t.secondCreate(t.big, small, t.big)
	}},
	{"Create/refuses a name that is taken by a sealed blob", func(t *blobTest) {
		content := bytesOf("first", small)
		info := t.sealed("b", content)
		_, err := t.blobs.Create(t.ctx, t.params("b", bodyOf(nil)))
		require.ErrorIs(t, err, store.ErrExists)
		t.unchanged(info, content)
	}},
	{"Create/of a name that was deleted is a new blob", func(t *blobTest) {
		first := t.create("b", []byte("first"))
		require.NoError(t, t.delete(store.DeleteBlob{Name: "b", IntentID: first.IntentID, Pending: true})[0])
		second := t.create("b", []byte("other"))
		require.NotEqual(t, first.ETag, second.ETag)
		t.holds("b", second.ETag, []byte("other"))
	}},
	{"Create/a race has one winner", func(t *blobTest) {
		for _, size := range []int{small, t.big} {
			name := fmt.Sprintf("b/%d", size)
			contents, params := make([][]byte, 4), make([]store.CreateParams, 4)
			for i := range params {
				contents[i] = bytesOf(fmt.Sprint(i), size)
				params[i] = t.params(name, bodyOf(contents[i]))
			}
			won := -1
			for i, got := range together(len(params), func(i int) (store.Blob, error) { return t.blobs.Create(t.ctx, params[i]) }) {
				if got.err == nil {
					require.Equal(t, -1, won, "two have created one name")
					won = i
				} else {
					require.ErrorIs(t, got.err, store.ErrExists)
				}
			}
			require.NotEqual(t, -1, won)
			info := t.stat(name)
			require.Equal(t, params[won].IntentID, info.IntentID)
			t.holds(name, info.ETag, contents[won])
		}
	}},
}

// secondCreate creates blobs of the first size and checks that a second create
// of each other size, with the same or other bytes, of the same or another
// intent, is refused and changes nothing.
func (t *blobTest) secondCreate(first int, others ...int) {
	t.Helper()
	for _, size := range others {
		name, content := fmt.Sprintf("b/%d/%d", first, size), bytesOf("first", first)
		info := t.create(name, content)
		for _, seed := range []string{"first", "other"} {
			for _, same := range []bool{true, false} {
				p := t.params(name, bodyOf(bytesOf(seed, size)))
				if same {
					p.IntentID = info.IntentID
				}
				_, err := t.blobs.Create(t.ctx, p)
				require.ErrorIs(t, err, store.ErrExists)
				t.unchanged(info, content)
			}
		}
	}
}

var errBroken = errors.New("the line went dead")

var bodyCases = []blobCase{
	{"Body/whose reader fails commits nothing and comes back as it is", func(t *blobTest) {
		for _, size := range t.sizes() {
			name := fmt.Sprintf("b/%d", size)
			for _, declared := range []int64{-1, int64(size) + 1} {
				src := &source{content: bytesOf("broken", size), chunk: 64 << 10, end: errBroken}
				_, err := t.blobs.Create(t.ctx, t.params(name, store.NewBody(src, declared, "")))
				require.ErrorIs(t, err, errBroken)
				var body *store.BodyError
				require.ErrorAs(t, err, &body)
				t.noBlob(name)
			}
			t.create(name, []byte("the name is still free"))
		}
	}},
	{"Body/that is not as declared is never readable", func(t *blobTest) {
		for _, size := range t.sizes() {
			content := bytesOf("declared", size)
			for i, body := range []func() *store.Body{
				func() *store.Body {
					return store.NewBody(&source{content: content, chunk: 64 << 10}, int64(size)+1, "")
				},
				func() *store.Body {
					return store.NewBody(&source{content: append([]byte{1}, content...), chunk: 64 << 10}, int64(size), "")
				},
				func() *store.Body {
					return store.NewBody(&source{content: content, chunk: 64 << 10}, int64(size), sumOf([]byte("other")))
				},
				func() *store.Body {
					return store.NewBody(&source{content: content, chunk: 64 << 10}, -1, sumOf([]byte("other")))
				},
			} {
				name := fmt.Sprintf("b/%d/%d", size, i)
				_, err := t.blobs.Create(t.ctx, t.params(name, body()))
				require.ErrorIs(t, err, store.ErrBodyMismatch)
				t.noBlob(name)
			}
		}
		require.Empty(t, t.names(""))
	}},
	{"Body/is not readable before its end", func(t *blobTest) {
		for _, size := range []int{1, small, t.big} {
			name, looked := fmt.Sprintf("b/%d", size), 0
			src := &source{content: bytesOf("slow", size), chunk: 1 << 20}
			src.before = func(int) {
				_, err := t.blobs.Stat(t.ctx, store.StatParams{Name: name})
				if errors.Is(err, store.ErrBlobNotFound) {
					looked++
				}
			}
			info, err := t.blobs.Create(t.ctx, t.params(name, store.NewBody(src, -1, "")))
			require.NoError(t, err)
			require.Equal(t, src.reads, looked, "something was readable before the end")
			require.Positive(t, looked)
			t.holds(name, info.ETag, bytesOf("slow", size))
		}
	}},
	{"Body/is not read any more once the context is done, and nothing becomes readable", func(t *blobTest) {
		for _, at := range []int{1, 2, 9} {
			ctx, cancel := context.WithCancel(t.ctx)
			src := &source{content: bytesOf("endless", 1<<20), endless: true, chunk: 1 << 20}
			src.before = func(read int) {
				if read == at {
					cancel()
				}
			}
			_, err := t.blobs.Create(ctx, t.params("b", store.NewBody(src, -1, "")))
			require.Error(t, err)
			require.Equal(t, at, src.reads)
			t.noBlob("b")
		}
		t.create("b", []byte("the name is still free"))
	}},
	{"Body/whose context is done at its end never becomes readable", func(t *blobTest) {
		for _, size := range t.sizes() {
			ctx, cancel := context.WithCancel(t.ctx)
			src := &source{content: bytesOf("late", size), chunk: 64 << 10}
			src.before = func(int) {
				if len(src.content) == 0 {
					cancel()
				}
			}
			_, err := t.blobs.Create(ctx, t.params("b", store.NewBody(src, -1, "")))
			require.Error(t, err)
			t.noBlob("b")
		}
		require.Empty(t, t.names(""))
	}},
	{"Body/is not read at all when the context is done before", func(t *blobTest) {
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		src := &source{content: bytesOf("never", small), chunk: small}
		_, err := t.blobs.Create(ctx, t.params("b", store.NewBody(src, small, "")))
		require.Error(t, err)
		require.Zero(t, src.reads)
		t.noBlob("b")
	}},
}
