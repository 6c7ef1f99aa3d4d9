package azstore_test

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// slack is what an upload may hold beside its blocks.
const slack = 16 * mib

// heap returns the bytes of all objects on the heap, garbage included.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// stream is a body of size bytes that looks at the heap as it is read.
type stream struct {
	left int64
	peak uint64
	seen int64
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), s.left, 256*kib)
	clear(p[:n])
	s.left -= n
	if s.seen += n; s.seen%mib == 0 {
		s.peak = max(s.peak, heap())
	}
	return int(n), nil
}

// upload sends size bytes and returns by how much the heap grew at most. The
// server is in this process, and keeps nothing.
func upload(t testing.TB, opts *azstore.Options, size, declared int64) uint64 {
	t.Helper()
	s, server := newFake(t, &azfake.Options{Discard: true}, opts)
	runtime.GC()
	before := heap()
	body := &stream{left: size}
	p := params("a", nil)
	p.Body = store.NewBody(body, declared, "")
	b, err := s.Create(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, size, b.Size)
	require.Equal(t, size, server.Inspect(containerName)["a"].Size)
	return max(body.peak, before) - before
}

func TestUploadHoldsNoMoreThanItsBlocks(t *testing.T) {
	size := int64(256 * mib)
	if testing.Short() {
		size = 64 * mib
	}
	for _, o := range []azstore.Options{{}, {BlockSize: mib, Concurrency: 2}, {BlockSize: 8 * mib, Concurrency: 1}} {
		for _, declared := range []int64{size, -1} {
			block, concurrency := o.BlockSize, int64(o.Concurrency)
			if block == 0 {
				block, concurrency = 4*mib, 4
			}
			grown := upload(t, &o, size, declared)
			require.LessOrEqual(t, grown, uint64(block*concurrency+slack), "%+v, declared %d", o, declared)
			t.Logf("%+v, declared %d: the heap grew by %.1f MiB at most", o, declared, float64(grown)/mib)
		}
	}
}

// Above 256 MiB the SDK's own upload helpers drop their conditions.
func TestCreateOnlyHoldsAboveTheSDKsLimit(t *testing.T) {
	s, server := newFake(t, &azfake.Options{Discard: true}, nil)
	first := create(t, s, "a", nil)
	for _, declared := range []int64{256*mib + 1, -1} {
		p := params("a", nil)
		p.Body = store.NewBody(&stream{left: 256*mib + 1}, declared, "")
		_, err := s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrExists)
	}
	require.Equal(t, first.ETag, server.Inspect(containerName)["a"].ETag)
}

// A body of unknown length begins with small blocks and goes on with larger ones.
func TestUnknownLengthGrowsItsBlocks(t *testing.T) {
	s, server := newFake(t, &azfake.Options{Discard: true}, &azstore.Options{BlockSize: 64 * kib, Concurrency: 2})
	const size = 2_500*64*kib + 128*kib
	p := params("a", nil)
	p.Body = store.NewBody(&stream{left: size}, -1, "")
	b, err := s.Create(t.Context(), p)
	require.NoError(t, err)
	require.EqualValues(t, size, b.Size)
	require.Equal(t, counts{azfake.OpPutBlock: 2_501, azfake.OpPutBlockList: 1}, server.Counts())
}

// A small body must not cost a large buffer.
func TestSmallBodyHasASmallBuffer(t *testing.T) {
	s, _ := newFake(t, &azfake.Options{Discard: true}, nil)
	for _, declared := range []int64{4 * kib, -1} {
		const creates = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range creates {
			p := params(fmt.Sprintf("n%d-%d", declared, i), nil)
			p.Body = store.NewBody(&stream{left: 4 * kib}, declared, "")
			_, err := s.Create(t.Context(), p)
			require.NoError(t, err)
		}
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc) / creates
		require.Less(t, each, uint64(128*kib), "declared %d", declared)
		t.Logf("declared %d: %d bytes allocated for each, the server's included", declared, each)
	}
}

// A declared size may be a lie, or a header that a client sent: it buys no memory.
func TestADeclaredSizeIsNotBelieved(t *testing.T) {
	s, server := newFake(t, &azfake.Options{Discard: true}, nil)
	for i, declared := range []int64{100 << 30, 1 << 40, 100 << 40, 190 << 40} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := params(fmt.Sprintf("n%d", i), nil)
		p.Body = store.NewBody(&stream{left: 5}, declared, "")
		_, err := s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrBodyMismatch)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*mib), "declared %d", declared)
	}
	require.Empty(t, server.Inspect(containerName))
	// One that is true still goes up in blocks of the size that it needs.
	p := params("true", nil)
	p.Body = store.NewBody(&stream{left: 20 * mib}, 20*mib, "")
	_, err := s.Create(t.Context(), p)
	require.NoError(t, err)
}

func BenchmarkCreate4KiB(b *testing.B) {
	s, _ := newFake(b, &azfake.Options{Discard: true}, nil)
	data := noise(4 * kib)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		create(b, s, fmt.Sprintf("n%d", i), data)
	}
}

func BenchmarkCreate1GiB(b *testing.B) {
	const size = 1 << 30
	b.SetBytes(size)
	var peak uint64
	for b.Loop() {
		peak = max(peak, upload(b, nil, size, -1))
	}
	b.ReportMetric(float64(peak)/mib, "MiB-heap")
	require.LessOrEqual(b, peak, uint64(4*4*mib+slack))
}
