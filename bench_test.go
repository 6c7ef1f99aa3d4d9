package blobtx_test

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store/memstore"
)

// BenchmarkPut is the whole protocol on stores that cost next to nothing; the
// budget is 15 µs and 80 allocations beyond BenchmarkHash.
func BenchmarkPut(b *testing.B) {
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	require.NoError(b, err)
	body := make([]byte, 4<<10)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := c.Put(b.Context(), strconv.Itoa(n), bytes.NewReader(body), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	body := make([]byte, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		h := sha256.New()
		h.Write(body)
		h.Sum(nil)
	}
}
