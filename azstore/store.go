package azstore

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/store"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20

	minBlockSize = 64 * kib
	maxBlockSize = 4000 * mib // Put Block, version 2019-12-12 and later

	defaultBlockSize   = 4 * mib
	defaultConcurrency = 4
	maxConcurrency     = 256
)

// Guard is how the service itself protects a sealed blob from being deleted as
// a pending one. The zero value is TagGuard.
type Guard struct{ kind string }

// TagGuard protects by index tags and x-ms-if-tags ("Specifying conditional
// headers for Blob service operations", REST reference). It needs the SAS
// permission t, or the role actions blobs/tags/read and blobs/tags/write. Index
// tags are not available with a hierarchical namespace.
var TagGuard = Guard{}

// Options chooses how a Store works. The zero value is ready for use.
type Options struct {
	// Guard protects sealed blobs. Defaults to TagGuard.
	Guard Guard

	// BlockSize is in bytes, 64 KiB to 4000 MiB. A body that fits into one
	// block goes up in one request (Put Blob); a larger one in blocks of this
	// size. It is a starting size: a block list holds at most 50,000 blocks, so
	// a declared size that needs larger ones gets the smallest that suffice,
	// and a body of unknown length doubles the size every 2,500 blocks (with 4
	// MiB: after 10 GB, 30 GB, 70 GB ...; 100 TB in all). Defaults to 4 MiB.
	BlockSize int64

	// Concurrency is how many blocks of one upload are in memory at a time,
	// 1 to 256: one is being filled while the others are on their way. So an
	// upload holds at most Concurrency times its block size in bytes. Defaults
	// to 4.
	Concurrency int

	// Prefix comes before every blob name on the wire, reserved names included,
	// so that several stores can share a container: "tenant-7/". Names given to
	// and returned by the Store are without it. Defaults to none.
	Prefix string
}

// Store is a store.BlobStore. It is safe for concurrent use and needs no Close.
// Make one with New: every method of the zero Store returns store.ErrInvalid.
type Store struct {
	c           *container.Client
	prefix      string
	blockSize   int64
	concurrency int

	blocks    sync.Pool    // *[]byte of blockSize
	heads     sync.Pool    // *[]byte of firstBuffer
	skipBatch atomic.Int64 // deletes that go out one by one, because a batch was refused
}

var _ store.BlobStore = (*Store)(nil)

// New returns a Store over the client's container. It does no I/O; Probe does.
// A nil client or an option out of range is store.ErrInvalid. Retries, timeouts
// and the transport are the client's.
func New(c *container.Client, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	switch {
	case c == nil:
		return nil, fmt.Errorf("azstore: the container client is nil: %w", store.ErrInvalid)
	case o.Guard != TagGuard:
		return nil, fmt.Errorf("azstore: guard %q is not known: %w", o.Guard.kind, store.ErrInvalid)
	case o.BlockSize < minBlockSize || o.BlockSize > maxBlockSize:
		return nil, fmt.Errorf("azstore: BlockSize of %d bytes must be between %d and %d: %w",
			o.BlockSize, minBlockSize, maxBlockSize, store.ErrInvalid)
	case o.Concurrency < 1 || o.Concurrency > maxConcurrency:
		return nil, fmt.Errorf("azstore: Concurrency of %d must be between 1 and %d: %w",
			o.Concurrency, maxConcurrency, store.ErrInvalid)
	}
	if o.Prefix != "" {
		if err := store.ValidateBlobName(o.Prefix + "x"); err != nil {
			return nil, fmt.Errorf("azstore: Prefix %.60q: %w", o.Prefix, err)
		}
	}
	return &Store{c: c, prefix: o.Prefix, blockSize: o.BlockSize, concurrency: o.Concurrency}, nil
}

// usable returns ErrInvalid for a Store that New did not make.
func (s *Store) usable() error {
	if s == nil || s.c == nil {
		return fmt.Errorf("the azstore.Store is not one that New made: %w", store.ErrInvalid)
	}
	return nil
}

// Caps says that the service enforces the guard, and that staged blocks can be
// cleared.
func (s *Store) Caps() store.Caps { return store.Caps{Guard: true, ClearStaged: true} }

// wireName returns the blob's name in the container. An empty or a relative
// name must not reach the client: it would address the container itself.
func (s *Store) wireName(name string) (string, error) {
	if err := store.ValidateBlobName(name); err != nil {
		return "", err
	}
	return s.joined(name)
}

// wireNameOfAny is wireName for reads, which may look at whatever can be in a
// container: reserved names, and names that others gave.
func (s *Store) wireNameOfAny(name string) (string, error) {
	valid := name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
	for segment := range strings.SplitSeq(name, "/") {
		valid = valid && segment != "." && segment != ".."
	}
	if !valid {
		return "", fmt.Errorf("blob name %.60q cannot be a blob's: %w", name, store.ErrInvalid)
	}
	return s.joined(name)
}

func (s *Store) joined(name string) (string, error) {
	if err := s.usable(); err != nil {
		return "", err
	}
	full := s.prefix + name
	if n := utf8.RuneCountInString(full); n > store.MaxBlobName {
		return "", fmt.Errorf("blob name %.60q has %d characters with its prefix, at most %d are allowed: %w",
			full, n, store.MaxBlobName, store.ErrInvalid)
	}
	return full, nil
}
