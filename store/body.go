package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Body is the stream of one upload. It counts and hashes what passes, and
// checks it against what the caller declared before it says io.EOF: a store
// that makes bytes readable only after io.EOF never publishes a wrong body.
//
// A Body is for one goroutine at a time. Make one with NewBody.
type Body struct {
	// OnProgress, if set, is called after every read with the bytes read so
	// far; a retry starts from zero. It must not block.
	OnProgress func(bytes int64)

	src    io.Reader
	seeker io.Seeker
	start  int64

	size   int64 // declared, or -1
	sha256 string

	hash  hash.Hash
	count int64
	sum   string
	err   error // sticky; io.EOF: complete and as declared
	empty int   // reads in a row that gave nothing

	// What the longest earlier try read.
	least int64  // bytes
	first string // their SHA-256
	whole bool   // and that was all
}

// NewBody makes a Body of r. Size is in bytes, -1 when unknown; sha256 is
// lower-case hex, "" when unknown. A reader that can seek is rewound by a
// retry.
func NewBody(r io.Reader, size int64, sha256hex string) *Body {
	b := &Body{src: r, size: size, sha256: sha256hex, hash: sha256.New()}
	if s, ok := r.(io.Seeker); ok {
		// Pipes and terminals are *os.File too, and fail here.
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			b.seeker, b.start = s, at
		}
	}
	return b
}

// Size returns the declared size in bytes, -1 when unknown.
func (b *Body) Size() int64 { return b.size }

// Read returns io.EOF only for a body that is complete and as declared.
// ErrBodyMismatch: it is longer, shorter or different. A *BodyError: the
// caller's reader failed; so did one whose error only wraps io.EOF. ErrInvalid:
// it has no reader, as the zero Body. Errors are sticky.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.src == nil {
		b.err = fmt.Errorf("the body has no reader: %w", ErrInvalid)
		return 0, b.err
	}
	n, err := b.src.Read(p)
	if n < 0 || n > len(p) {
		b.err = &BodyError{fmt.Errorf("reader returned a count of %d for a buffer of %d", n, len(p))}
		return 0, b.err
	}
	if b.err = b.pass(p[:n]); b.err != nil {
		return 0, b.err
	}
	if n > 0 && b.OnProgress != nil {
		b.OnProgress(b.count)
	}
	switch {
	case b.size >= 0 && b.count > b.size:
		b.err = fmt.Errorf("body is longer than the %d bytes declared: %w", b.size, ErrBodyMismatch)
	case err == io.EOF: // wrapped, it is the failure of something inside
		b.err = b.finish()
	case err != nil:
		b.err = &BodyError{err}
	case n == 0:
		if b.empty++; b.empty == 100 {
			b.err = &BodyError{io.ErrNoProgress}
		}
	default:
		b.empty = 0
	}
	if b.err != nil && b.err != io.EOF {
		return 0, b.err
	}
	return n, b.err
}

// pass counts and hashes. After a rewind it also compares, once, what an earlier
// try read: a reader that says it went back may not have.
func (b *Body) pass(p []byte) error {
	if left := b.least - b.count; left > 0 && left <= int64(len(p)) {
		b.hash.Write(p[:left])
		b.count, p = b.least, p[left:]
		if b.digest() != b.first {
			return b.changed()
		}
	}
	b.hash.Write(p)
	b.count += int64(len(p))
	return nil
}

func (b *Body) digest() string { return hex.EncodeToString(b.hash.Sum(nil)) }

func (b *Body) changed() error {
	return &BodyError{fmt.Errorf("after a rewind the reader gave %d bytes that are not the %d it gave before", b.count, b.least)}
}

func (b *Body) finish() error {
	if b.size >= 0 && b.count != b.size {
		return fmt.Errorf("body has %d bytes, %d were declared: %w", b.count, b.size, ErrBodyMismatch)
	}
	if b.count < b.least || b.whole && b.count > b.least {
		return b.changed()
	}
	b.sum = b.digest()
	if b.sha256 != "" && b.sum != b.sha256 {
		return fmt.Errorf("body has SHA-256 %s, %s was declared: %w", b.sum, b.sha256, ErrBodyMismatch)
	}
	return io.EOF
}

// Sum returns the size and the SHA-256 of the whole body; complete is false
// before Read has returned io.EOF.
func (b *Body) Sum() (size int64, sha256hex string, complete bool) {
	return b.count, b.sum, b.err == io.EOF
}

// Drain reads what is left, so that Sum is complete, until ctx is done. It
// returns the first error that is not io.EOF.
func (b *Body) Drain(ctx context.Context) error {
	buf := make([]byte, 32<<10)
	for b.err == nil {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		_, _ = b.Read(buf) // the error is sticky
	}
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// Rewind starts over, for a retry. errors.ErrUnsupported: the reader cannot
// seek and something was read. A *BodyError: its Seek failed, or went elsewhere.
// A reader that says it went back and did not is found out by Read: what it gives
// then is not what it gave before.
func (b *Body) Rewind() error {
	if b.count == 0 && b.err == nil {
		return nil
	}
	if b.seeker == nil {
		return fmt.Errorf("rewind body: the reader cannot seek: %w", errors.ErrUnsupported)
	}
	at, err := b.seeker.Seek(b.start, io.SeekStart)
	if err == nil && at != b.start {
		err = fmt.Errorf("it went to %d, not to %d", at, b.start)
	}
	if err != nil {
		return &BodyError{fmt.Errorf("rewind: %w", err)}
	}
	if b.count >= b.least {
		b.least, b.first = b.count, b.digest()
	}
	b.whole = b.whole || b.err == io.EOF
	b.hash.Reset()
	b.count, b.sum, b.err, b.empty = 0, "", nil, 0
	return nil
}
