package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

type blobCase struct {
	name string
	run  func(t *blobTest)
}

func blobCases() []blobCase {
	return slices.Concat(createCases, bodyCases, sealCases, deleteBlobCases, statCases, openCases, listBlobCases)
}

// on runs the case. Big is the size of a body that is above every threshold.
func (c blobCase) on(t tester, blobs store.BlobStore, big int) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	c.run(&blobTest{tester: t, ctx: ctx, blobs: blobs, big: big})
}

// Sizes of bodies; see TestBlobStore for the bigger.
const (
	small  = 4 << 10
	bigger = 9 << 20
)

// blobTest is one case at work on an empty container.
type blobTest struct {
	tester
	ctx   context.Context
	blobs store.BlobStore
	big   int
	n     int
}

// sizes are those at which a store may take another path.
func (t *blobTest) sizes() []int { return []int{0, 1, small, t.big} }

// bytesOf returns so many bytes that no other seed has.
func bytesOf(seed string, size int) []byte {
	block := sha256.Sum256([]byte(seed))
	return bytes.Repeat(block[:], size/len(block)+1)[:size]
}

func intentID(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }

// params is a create of the name, of an intent that no other create has.
func (t *blobTest) params(name string, body *store.Body) store.CreateParams {
	t.n++
	return store.CreateParams{
		Name: name, IntentID: intentID(t.n), Key: "key of " + name, Base: "absent", ContentType: "text/plain", Body: body,
	}
}

func bodyOf(content []byte) *store.Body { return store.NewBody(bytes.NewReader(content), -1, "") }

// create makes a pending blob and returns what is known of it.
func (t *blobTest) create(name string, content []byte) store.BlobInfo {
	t.Helper()
	_, err := t.blobs.Create(t.ctx, t.params(name, bodyOf(content)))
	require.NoError(t, err)
	return t.stat(name)
}

// sealed makes a sealed blob.
func (t *blobTest) sealed(name string, content []byte) store.BlobInfo {
	t.Helper()
	info := t.create(name, content)
	require.NoError(t, t.blobs.Seal(t.ctx, name, info.IntentID))
	return t.stat(name)
}

func (t *blobTest) stat(name string) store.BlobInfo {
	t.Helper()
	info, err := t.blobs.Stat(t.ctx, store.StatParams{Name: name, Seal: true})
	require.NoError(t, err)
	return info
}

func (t *blobTest) noBlob(name string) {
	t.Helper()
	_, err := t.blobs.Stat(t.ctx, store.StatParams{Name: name})
	require.ErrorIs(t, err, store.ErrBlobNotFound)
}

// unchanged checks that the blob is what it was, with these bytes.
func (t *blobTest) unchanged(info store.BlobInfo, content []byte) {
	t.Helper()
	require.Equal(t, info, t.stat(info.Name))
	t.holds(info.Name, info.ETag, content)
}

// holds checks the bytes of a blob without printing megabytes when they differ.
func (t *blobTest) holds(name, etag string, content []byte) {
	t.Helper()
	got := t.read(store.OpenParams{Name: name, ETag: etag, Count: -1})
	require.True(t, bytes.Equal(content, got), "%d bytes of blob %q differ from the %d expected", len(got), name, len(content))
}

func (t *blobTest) read(p store.OpenParams) []byte {
	t.Helper()
	r, err := t.blobs.Open(t.ctx, p)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return got
}

func (t *blobTest) delete(blobs ...store.DeleteBlob) []error {
	t.Helper()
	errs := t.blobs.Delete(t.ctx, blobs)
	require.Len(t, errs, len(blobs))
	return errs
}

// names lists the container, what is under the reserved prefix left out.
func (t *blobTest) names(prefix string) []string {
	t.Helper()
	names := []string{}
	for info, err := range t.blobs.List(t.ctx, store.ListBlobsParams{Prefix: prefix}) {
		require.NoError(t, err)
		if !strings.HasPrefix(info.Name, store.ReservedPrefix) {
			names = append(names, info.Name)
		}
	}
	return names
}

// guarded skips a case on a store whose guard nothing enforces.
func (t *blobTest) guarded() {
	if !t.blobs.Caps().Guard {
		t.Skipf("no guard here: a blob's safety rests on the row fence alone, and a restored database is not unmasked")
	}
}

// clearing skips a case on a store that cannot clear staged blocks.
func (t *blobTest) clearing() {
	if !t.blobs.Caps().ClearStaged {
		t.Skipf("staged blocks cannot be cleared here: those of an upload that never finished are paid for until the service drops them")
	}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// source is a reader of the caller's that counts its reads and can do
// something in one of them.
type source struct {
	content []byte // what is left; never empty where endless
	endless bool
	chunk   int
	end     error // after the content; nil: io.EOF
	before  func(read int)

	reads int
}

func (s *source) Read(p []byte) (int, error) {
	s.reads++
	if s.before != nil {
		s.before(s.reads)
	}
	if len(s.content) == 0 {
		if s.end == nil {
			return 0, io.EOF
		}
		return 0, s.end
	}
	n := copy(p[:min(s.chunk, len(p))], s.content)
	if !s.endless {
		s.content = s.content[n:]
	}
	return n, nil
}
