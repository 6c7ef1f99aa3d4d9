package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store/memstore"
)

// memoryPut is what the protocol itself costs: Put of 4 KiB on stores that cost
// next to nothing, less the hashing of the same bytes.
func memoryPut(ctx context.Context, rounds int, _ time.Duration) ([]figure, error) {
	const puts = 5000
	body := make([]byte, 4<<10)
	var put, hash []float64
	var allocs uint64
	for range rounds {
		c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
		if err != nil {
			return nil, err
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		for n := range puts {
			if _, err := c.Put(ctx, strconv.Itoa(n), bytes.NewReader(body), nil); err != nil {
				return nil, err
			}
		}
		put = append(put, float64(time.Since(start).Microseconds())/puts)
		runtime.ReadMemStats(&after)
		allocs = (after.Mallocs - before.Mallocs) / puts
		start = time.Now()
		for range puts {
			h := sha256.New()
			h.Write(body)
			h.Sum(nil)
		}
		hash = append(hash, float64(time.Since(start).Microseconds())/puts)
	}
	fmt.Printf("memstore: Put of 4 KiB %.1f µs, hashing the same bytes %.1f µs, %d allocations\n", median(put), median(hash), allocs)
	return []figure{
		{"memory_put_us", median(put) - median(hash), 15, true},
		{"memory_put_allocs", float64(allocs), 80, true},
	}, nil
}

// streamHeap is how much heap an upload of 1 GiB holds beyond block size times
// concurrency.
func streamHeap(ctx context.Context, _ int, _ time.Duration) ([]figure, error) {
	const size, block, concurrency = 1 << 30, 4 << 20, 4
	client, err := azfake.New(&azfake.Options{Discard: true}).ContainerClient("stream", nil)
	if err != nil {
		return nil, err
	}
	blobs, err := azstore.New(client, &azstore.Options{BlockSize: block, Concurrency: concurrency})
	if err != nil {
		return nil, err
	}
	c, err := blobtx.New(memstore.NewRows(nil), blobs, nil)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	body := &sampled{left: size}
	start := time.Now()
	if _, err := c.Put(ctx, "stream", body, nil); err != nil {
		return nil, err
	}
	over := float64(body.peak-min(body.peak, before.HeapAlloc)) / (1 << 20)
	fmt.Printf("azfake: 1 GiB streamed at %.0f MB/s, %.1f MiB of heap at its peak (blocks in flight: %d MiB)\n",
		size/1e6/time.Since(start).Seconds(), over, block*concurrency>>20)
	return []figure{{"stream_heap_mib", over, block*concurrency>>20 + 16, true}}, nil
}

// sampled yields zeros and looks at the heap every 16 MiB.
type sampled struct {
	left, since int64
	peak        uint64
}

func (s *sampled) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), s.left)
	clear(p[:n])
	s.left -= n
	if s.since += n; s.since >= 16<<20 {
		s.since = 0
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.peak = max(s.peak, m.HeapAlloc)
	}
	return int(n), nil
}
