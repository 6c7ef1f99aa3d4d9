package blobtx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/blobtx/blobtx/store"
)

// Get returns the object, or ErrNotFound. ErrInvalid: the key. ErrBusy, ErrSetup.
func (c *Coordinator) Get(ctx context.Context, key string) (Object, error) {
	object, err := c.get(ctx, key)
	return object, failed("get", key, "", err)
}

func (c *Coordinator) get(ctx context.Context, key string) (Object, error) {
	if err := errors.Join(c.made(), store.ValidateKey(key)); err != nil {
		return Object{}, err
	}
	return c.rows.GetObject(ctx, key)
}

// OpenOptions configures Open. It has no fields yet.
type OpenOptions struct{}

// Open returns a reader of the object as it is now. It reads the row; the blob
// is asked for at the first Read, pinned to the row's ETag. The errors are Get's.
func (c *Coordinator) Open(ctx context.Context, key string, opts *OpenOptions) (*Reader, error) {
	object, err := c.get(ctx, key)
	if err != nil {
		return nil, failed("open", key, "", err)
	}
	return &Reader{c: c, ctx: ctx, object: object}, nil
}

// Reader reads the bytes of one version, from any offset: http.ServeContent
// takes it. It never mixes versions. Until something of the version was shown
// (Object, Seek or a byte), a replace that takes the blob away makes it follow
// the row; after that the read ends in a *ConflictError, and Open again gives
// the new version. ErrCorrupt: the row still names the blob, and the bytes are
// missing or different; a read of the whole verifies size and SHA-256.
//
// The context given to Open governs all reads. A Reader is for one goroutine.
type Reader struct {
	c      *Coordinator
	ctx    context.Context
	object Object
	pinned bool

	offset int64
	body   io.ReadCloser // at offset; nil: not open
	hash   hash.Hash     // of what was read from the start without a gap; nil after one
	hashed int64
	failed int // tries in a row without a byte
	empty  int // reads in a row that gave nothing
	err    error
}

var errClosed = errors.New("reader is closed")

// Object returns the version that is read. From now on it stays this one.
func (r *Reader) Object() Object {
	r.pinned = true
	return r.object
}

// Read reads on. A broken connection is resumed at the offset, bounded.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if r.err == nil && r.c == nil {
			r.err = failed("read", "", "", fmt.Errorf("a Reader that Open did not make: %w", ErrInvalid))
		}
		if r.err != nil {
			return 0, r.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if r.offset >= r.object.Blob.Size && r.offset > 0 { // an empty blob is opened, to see that it is there
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.open(); err != nil {
				return 0, r.fail(err)
			}
		}
		n, err := r.body.Read(p)
		if n > 0 {
			r.failed, r.empty = 0, 0
			if err := r.took(p[:n]); err != nil {
				return 0, err // without the bytes: io.ReadFull would drop the error
			}
			return n, nil
		}
		switch {
		case errors.Is(err, io.EOF) && r.offset == r.object.Blob.Size:
			return 0, r.verify(io.EOF)
		case err == nil:
			if r.empty++; r.empty == 100 {
				return 0, r.fail(io.ErrNoProgress)
			}
			continue
		case r.ctx.Err() != nil:
			return 0, r.fail(context.Cause(r.ctx))
		}
		r.drop()
		if r.failed++; r.failed == 4 || !r.c.pause(r.ctx, r.failed) {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("blob %q ends at byte %d of %d: %w", r.object.Blob.Name, r.offset, r.object.Blob.Size, ErrCorrupt)
			}
			return 0, r.fail(err)
		}
	}
}

// took accounts for bytes that were read, and verifies the whole before its
// last bytes are handed out: who copies exactly Size bytes asks for no more.
func (r *Reader) took(p []byte) error {
	r.pinned = true
	if r.offset == 0 {
		r.hash, r.hashed = sha256.New(), 0
	}
	if r.hash != nil && r.hashed == r.offset {
		r.hash.Write(p)
		r.hashed += int64(len(p))
	}
	r.offset += int64(len(p))
	more := r.offset > r.object.Blob.Size
	if r.offset == r.object.Blob.Size {
		if err := r.verify(nil); err != nil {
			return err
		}
		n, _ := io.ReadFull(r.body, make([]byte, 1)) // any other end is as good: size and hash are right
		more = n > 0
	}
	if more {
		return r.fail(fmt.Errorf("blob %q has more than the %d bytes of its row: %w", r.object.Blob.Name, r.object.Blob.Size, ErrCorrupt))
	}
	return nil
}

// verify compares the hash when all bytes went through it, and returns ok or
// ErrCorrupt.
func (r *Reader) verify(ok error) error {
	if want := r.object.Blob.SHA256; want != "" && r.hash != nil && r.hashed == r.object.Blob.Size {
		if got := hex.EncodeToString(r.hash.Sum(nil)); got != want {
			return r.fail(fmt.Errorf("blob %q has SHA-256 %s, its row says %s: %w", r.object.Blob.Name, got, want, ErrCorrupt))
		}
	}
	return ok
}

// open asks for the bytes from offset on. When they are gone, the row tells
// whether a replace came between.
func (r *Reader) open() error {
	for try := 1; ; try++ {
		blob := r.object.Blob
		body, err := r.c.blobs.Open(r.ctx, store.OpenParams{Name: blob.Name, ETag: blob.ETag, Offset: r.offset, Count: -1})
		if err == nil {
			r.body = body
			return nil
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if !errors.Is(err, ErrBlobNotFound) && !errors.Is(err, ErrConflict) {
			if errors.Is(err, ErrSetup) || try == 4 || !r.c.pause(r.ctx, try) {
				return fmt.Errorf("open blob: %w", err)
			}
			continue
		}
		current, rowErr := r.c.rows.GetObject(r.ctx, r.object.Key)
		want := IfVersion(r.object.Version)
		switch {
		case errors.Is(rowErr, ErrNotFound):
			return &ConflictError{Key: r.object.Key, Want: want, Deleted: true}
		case rowErr != nil:
			return fmt.Errorf("read the row again: %w", rowErr)
		case current.Blob.Name == blob.Name && current.Blob.ETag == blob.ETag:
			return fmt.Errorf("blob %q: %w: %v", blob.Name, ErrCorrupt, err) // not a conflict: the row stands
		case r.pinned:
			return &ConflictError{Key: r.object.Key, Want: want, Current: &current}
		case try == 8:
			return fmt.Errorf("replaced faster than it can be read: %w", ErrBusy)
		}
		r.object = current
	}
}

func (r *Reader) fail(err error) error {
	r.drop()
	r.err = failed("read", r.object.Key, "", err)
	return r.err
}

func (r *Reader) drop() {
	if r.body != nil {
		r.body.Close()
		r.body = nil
	}
}

// Seek sets the offset for the next Read. It asks nothing of the blob store.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.pinned = true
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.object.Blob.Size
	default:
		return 0, failed("seek", r.object.Key, "", fmt.Errorf("whence %d: %w", whence, ErrInvalid))
	}
	if offset < 0 {
		return 0, failed("seek", r.object.Key, "", fmt.Errorf("offset %d: %w", offset, ErrInvalid))
	}
	if offset != r.offset {
		r.drop()
		r.offset = offset
	}
	return offset, nil
}

// Close releases the connection. It may be repeated.
func (r *Reader) Close() error {
	r.drop()
	if r.err == nil {
		r.err = failed("read", r.object.Key, "", errClosed)
	}
	return nil
}
