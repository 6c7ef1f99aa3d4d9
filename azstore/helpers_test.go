package azstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

const (
	containerName = "bytes"
	intentID      = "0190c0de-0000-4000-8000-000000000001"
	otherIntent   = "0190c0de-0000-4000-8000-000000000002"
	kib           = 1 << 10
	mib           = 1 << 20
	hour          = time.Hour

	accountKey = "c29tZSBrZXkgdGhhdCBvbmx5IGEgdGVzdCBrbm93cw=="
)

// small makes bodies of a few hundred KiB go up in blocks.
var small = &azstore.Options{BlockSize: 64 * kib, Concurrency: 3}

// newFake returns a Store over an account of its own, and the account.
func newFake(t testing.TB, fake *azfake.Options, opts *azstore.Options) (*azstore.Store, *azfake.Server) {
	t.Helper()
	server := azfake.New(fake)
	return storeOver(t, server, nil, opts), server
}

// storeOver returns a Store over the account through a client of its own.
func storeOver(t testing.TB, server *azfake.Server, client *container.ClientOptions, opts *azstore.Options) *azstore.Store {
	t.Helper()
	c, err := server.ContainerClient(containerName, client)
	require.NoError(t, err)
	s, err := azstore.New(c, opts)
	require.NoError(t, err)
	return s
}

// withoutRetries is a client that gives up at once.
func withoutRetries(server *azfake.Server) *container.ClientOptions {
	o := server.ClientOptions()
	o.Retry = policy.RetryOptions{MaxRetries: -1}
	return &container.ClientOptions{ClientOptions: o}
}

// noise returns n bytes in which no two blocks are equal.
func noise(n int) []byte {
	out := make([]byte, n)
	state := uint64(n) + 1
	for i := range out {
		state = state*6364136223846793005 + 1442695040888963407
		out[i] = byte(state >> 56)
	}
	return out
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func params(name string, data []byte) store.CreateParams {
	return store.CreateParams{
		Name: name, IntentID: intentID, Key: "invoice/7", Base: "absent", ContentType: "text/plain",
		Body: store.NewBody(bytes.NewReader(data), int64(len(data)), ""),
	}
}

func create(t testing.TB, s *azstore.Store, name string, data []byte) store.Blob {
	t.Helper()
	b, err := s.Create(t.Context(), params(name, data))
	require.NoError(t, err)
	return b
}

func read(t testing.TB, s *azstore.Store, p store.OpenParams) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), p)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return got
}

func deleteOne(ctx context.Context, s *azstore.Store, d store.DeleteBlob) error {
	return s.Delete(ctx, []store.DeleteBlob{d})[0]
}

// noGoroutineLeft runs f and requires that what it started has ended with it.
// A goroutine that has done its last step may need a moment to be gone.
func noGoroutineLeft(t *testing.T, f func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	f()
	for start := time.Now(); time.Since(start) < 10*time.Second; runtime.Gosched() {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}

// readerFunc is a body that a test writes as it is read.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
