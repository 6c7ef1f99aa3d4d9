package azstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/blobtx/blobtx/store"
)

const (
	maxBlocks   = 50_000 // Put Block List, REST reference
	growEvery   = 2_500  // blocks between two doublings of an unknown length
	idHashBytes = 25
)

// blockPlan says how large each block of one body is.
type blockPlan struct {
	base  int64
	fixed bool
	limit int // blocks of one list: maxBlocks, or a few in tests
}

// planBlocks chooses for a body of declared bytes, -1 when unknown.
func planBlocks(blockSize, declared int64) (blockPlan, error) {
	if declared < 0 {
		return blockPlan{base: blockSize, limit: maxBlocks}, nil
	}
	need := declared/maxBlocks + min(declared%maxBlocks, 1)
	if need > maxBlockSize {
		return blockPlan{}, fmt.Errorf("a body of %d bytes is more than a blob can hold (%d): %w",
			declared, maxBlocks*maxBlockSize, store.ErrInvalid)
	}
	need = (need + minBlockSize - 1) / minBlockSize * minBlockSize
	return blockPlan{base: max(blockSize, need), fixed: true, limit: maxBlocks}, nil
}

// size returns the bytes of block i, 0 when there can be no such block.
func (p blockPlan) size(i int) int64 {
	if i >= p.limit {
		return 0
	}
	size := p.base
	if !p.fixed {
		for range i / growEvery {
			size = min(2*size, maxBlockSize)
		}
	}
	return size
}

// blockID is the position and a hash of the bytes, so equal ids mean equal
// bytes and two attempts under one name cannot mix. Base64 of 30 bytes: all ids
// have one length, as Put Block wants.
func blockID(position int, data []byte) string {
	sum := sha256.Sum256(data)
	raw := fmt.Appendf(make([]byte, 0, 5+idHashBytes), "%05d", position)
	return base64.StdEncoding.EncodeToString(append(raw, sum[:idHashBytes]...))
}

// buffer returns size bytes; those of the two usual sizes are used again.
func (s *Store) buffer(size int64) []byte {
	if pool := s.pool(size); pool != nil {
		if b, ok := pool.Get().(*[]byte); ok {
			return *b
		}
	}
	return make([]byte, size)
}

func (s *Store) release(b []byte) {
	if pool := s.pool(int64(cap(b))); pool != nil {
		b = b[:cap(b)]
		pool.Put(&b)
	}
}

func (s *Store) pool(size int64) *sync.Pool {
	switch size {
	case s.blockSize:
		return &s.blocks
	case firstBuffer:
		return &s.heads
	}
	return nil
}

// blockBody is the body of one request. An HTTP transport may go on reading a
// body after the request has failed, even while the SDK rewinds it for the next
// try. The lock keeps such reads apart: bytes can then be missing from a
// try, which its Content-Length exposes, but never be doubled or foreign. After
// detach nothing reads the data any more, and it may be used again.
type blockBody struct {
	mu   sync.Mutex
	data []byte
	at   int64
	gone bool
}

func (b *blockBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.gone:
		return 0, io.ErrClosedPipe
	case b.at >= int64(len(b.data)):
		return 0, io.EOF
	}
	n := copy(p, b.data[b.at:])
	b.at += int64(n)
	return n, nil
}

func (b *blockBody) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += int64(len(b.data))
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek block to %d: %w", offset, store.ErrInvalid)
	}
	b.at = offset
	return offset, nil
}

// Close does nothing: transports close a body after every try.
func (b *blockBody) Close() error { return nil }

func (b *blockBody) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.gone = nil, true
}

// source reads a body into buffers. It knows when the body has ended, which
// takes one byte of looking ahead.
type source struct {
	body  *store.Body
	ahead [1]byte
	held  bool // ahead is yet to be delivered
	eof   bool
}

// done reports whether everything was delivered, and the body was complete and
// as declared.
func (r *source) done() bool { return r.eof && !r.held }

// errStopped: ctx was done before the next read.
var errStopped = errors.New("stopped")

// fill reads until buf is full or the body has ended. It asks ctx before every
// read and returns the body's errors as they are.
func (r *source) fill(ctx context.Context, buf []byte) (int, error) {
	n := 0
	if r.held && len(buf) > 0 {
		buf[0], r.held, n = r.ahead[0], false, 1
	}
	for n < len(buf) && !r.eof {
		if ctx.Err() != nil {
			return n, errStopped
		}
		k, err := r.body.Read(buf[n:])
		n += k
		if err == io.EOF {
			r.eof = true
		} else if err != nil {
			return n, err
		}
	}
	return n, nil
}

// look makes done true if nothing follows what was delivered.
func (r *source) look(ctx context.Context) error {
	if r.eof || r.held {
		return nil
	}
	n, err := r.fill(ctx, r.ahead[:])
	r.held = n == 1 && err == nil
	return err
}
