package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// BlobsOptions configures NewBlobs. A nil *BlobsOptions is the zero value.
type BlobsOptions struct {
	// Now is the service's clock. Defaults to time.Now.
	Now func() time.Time
}

// Blobs is a store.BlobStore in memory. It enforces its guards. A body in
// flight is held by its Create alone, so that nothing is ever staged under a
// name: a late Create lands, as a late upload does.
type Blobs struct {
	now func() time.Time

	mu     sync.Mutex // never held while a body is read or the caller's code runs
	blobs  map[string]*blob
	writes uint64 // makes ETags that never repeat
}

// blob is replaced as a whole, never changed in place. Its ETag belongs to the
// bytes: sealing leaves both as they are.
type blob struct {
	info    store.BlobInfo
	content []byte
}

var _ store.BlobStore = (*Blobs)(nil)

// NewBlobs returns an empty store.
func NewBlobs(opts *BlobsOptions) *Blobs {
	b := &Blobs{now: time.Now, blobs: make(map[string]*blob)}
	if opts != nil && opts.Now != nil {
		b.now = opts.Now
	}
	return b
}

// Caps implements store.BlobStore: everything.
func (b *Blobs) Caps() store.Caps { return store.Caps{Guard: true, ClearStaged: true} }

// Probe returns nil: there is no permission to be missing.
func (b *Blobs) Probe(ctx context.Context) error { return context.Cause(ctx) }

// Create implements store.BlobStore.
func (b *Blobs) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	content, err := readBody(ctx, p.Body)
	if err != nil {
		return store.Blob{}, err
	}
	size, sum, _ := p.Body.Sum()
	facts := store.Blob{Name: p.Name, Size: size, SHA256: sum, ContentType: cmp.Or(p.ContentType, "application/octet-stream")}
	created := &blob{
		info: store.BlobInfo{
			Blob: facts, IntentID: p.IntentID, Key: p.Key, Base: p.Base,
			CreatedAt: b.now().UTC().Truncate(time.Microsecond),
		},
		content: content,
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blobs[p.Name] != nil {
		return store.Blob{}, fmt.Errorf("blob %q: %w", p.Name, store.ErrExists)
	}
	b.put(p.Name, created)
	return created.info.Blob, nil
}

// readBody returns the whole body, or why there is none. Only io.EOF says that
// the body is complete and as declared.
func readBody(ctx context.Context, body *store.Body) ([]byte, error) {
	room := 512
	if size := body.Size(); size >= 0 && size < 1<<20 {
		room = int(size) + 1 // so that io.EOF is met without growing
	}
	content := make([]byte, 0, room)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if len(content) == cap(content) {
			content = slices.Grow(content, max(len(content), 4<<10))
		}
		n, err := body.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		if err == io.EOF {
			return content, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// put makes the blob readable under a fresh ETag. The mutex is held.
func (b *Blobs) put(name string, created *blob) {
	b.writes++
	created.info.ETag = `"0x` + strconv.FormatUint(b.writes, 16) + `"`
	b.blobs[name] = created
}

// Seal implements store.BlobStore.
func (b *Blobs) Seal(ctx context.Context, name, intentID string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found, err := b.guarded(name, intentID, false)
	if err != nil {
		return err
	}
	sealed := *found
	sealed.info.Sealed = true
	b.blobs[name] = &sealed
	return nil
}

// Delete implements store.BlobStore.
func (b *Blobs) Delete(ctx context.Context, blobs []store.DeleteBlob) []error {
	errs := make([]error, len(blobs))
	for i, d := range blobs {
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			errs[i] = b.deleteOne(d)
		}
	}
	return errs
}

func (b *Blobs) deleteOne(d store.DeleteBlob) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.guarded(d.Name, d.IntentID, d.Pending); err != nil {
		return err
	}
	delete(b.blobs, d.Name)
	return nil
}

// guarded returns the blob if it bears the intent's id and, where that is
// asked, is not sealed. No guard holds for a blob that bears no id.
func (b *Blobs) guarded(name, intentID string, pending bool) (*blob, error) {
	found := b.blobs[name]
	switch {
	case found == nil:
		return nil, fmt.Errorf("blob %q: %w", name, store.ErrBlobNotFound)
	case intentID == "" || found.info.IntentID != intentID:
		return nil, fmt.Errorf("blob %q bears intent %q, not %q: %w", name, found.info.IntentID, intentID, store.ErrGuardRefused)
	case pending && found.info.Sealed:
		return nil, fmt.Errorf("blob %q is sealed: %w", name, store.ErrGuardRefused)
	}
	return found, nil
}

// Stat implements store.BlobStore.
func (b *Blobs) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	if err := context.Cause(ctx); err != nil {
		return store.BlobInfo{}, err
	}
	info, ok := b.Get(p.Name)
	if !ok {
		return store.BlobInfo{}, fmt.Errorf("blob %q: %w", p.Name, store.ErrBlobNotFound)
	}
	info.Sealed = info.Sealed && p.Seal
	return info, nil
}

// Open implements store.BlobStore.
func (b *Blobs) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if p.Offset < 0 {
		return nil, fmt.Errorf("open blob %q at offset %d: %w", p.Name, p.Offset, store.ErrInvalid)
	}
	b.mu.Lock()
	found := b.blobs[p.Name]
	b.mu.Unlock()
	switch {
	case found == nil:
		return nil, fmt.Errorf("blob %q: %w", p.Name, store.ErrBlobNotFound)
	case found.info.ETag != p.ETag:
		return nil, fmt.Errorf("blob %q has ETag %s, not %s: %w", p.Name, found.info.ETag, p.ETag, store.ErrConflict)
	}
	content := found.content[min(p.Offset, int64(len(found.content))):]
	if p.Count >= 0 {
		content = content[:min(p.Count, int64(len(content)))]
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// List implements store.BlobStore. It yields the blobs that were there when
// the loop began.
func (b *Blobs) List(ctx context.Context, p store.ListBlobsParams) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		for _, info := range b.infos(p.Prefix) {
			if err := context.Cause(ctx); err != nil {
				yield(store.BlobInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (b *Blobs) infos(prefix string) []store.BlobInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var infos []store.BlobInfo
	for name, found := range b.blobs {
		if strings.HasPrefix(name, prefix) {
			infos = append(infos, found.info)
		}
	}
	slices.SortFunc(infos, func(x, y store.BlobInfo) int { return cmp.Compare(x.Name, y.Name) })
	return infos
}

// Get returns what is known of the blob, Sealed included.
func (b *Blobs) Get(name string) (store.BlobInfo, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.blobs[name]
	if found == nil {
		return store.BlobInfo{}, false
	}
	return found.info, true
}

// Snapshot returns the bytes of every readable blob by name. They are not
// copied: do not change them.
func (b *Blobs) Snapshot() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	contents := make(map[string][]byte, len(b.blobs))
	for name, found := range b.blobs {
		contents[name] = found.content
	}
	return contents
}

// Remove deletes a blob past its guard, as somebody with other tools would,
// and reports whether it was there.
func (b *Blobs) Remove(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, found := b.blobs[name]
	delete(b.blobs, name)
	return found
}

// PutForeign writes a blob that bears no intent, over whatever is there, as
// somebody with other tools would.
func (b *Blobs) PutForeign(name string, content []byte) store.BlobInfo {
	sum := sha256.Sum256(content)
	facts := store.Blob{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), ContentType: "application/octet-stream"}
	created := &blob{
		info:    store.BlobInfo{Blob: facts, CreatedAt: b.now().UTC().Truncate(time.Microsecond)},
		content: bytes.Clone(content),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(name, created)
	return created.info
}
