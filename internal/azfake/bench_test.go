package azfake_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func BenchmarkPut4KiB(b *testing.B) {
	for name, client := range map[string]func(*azfake.Server) *container.Client{
		"transport": func(s *azfake.Server) *container.Client {
			cc, err := s.ContainerClient("box", nil)
			require.NoError(b, err)
			return cc
		},
		"socket": func(s *azfake.Server) *container.Client { return overSocket(b, s, 3) },
	} {
		b.Run(name, func(b *testing.B) {
			cc := client(azfake.New(&azfake.Options{Account: account, Key: key}))
			data := make([]byte, 4<<10)
			var n atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bb := cc.NewBlockBlobClient(fmt.Sprint("b", n.Add(1)))
					if _, err := bb.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), nil); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkStage8MiB shows that Discard buffers nothing: B/op stays small.
func BenchmarkStage8MiB(b *testing.B) {
	for name, discard := range map[string]bool{"keep": false, "discard": true} {
		b.Run(name, func(b *testing.B) {
			srv := azfake.New(&azfake.Options{Discard: discard})
			cc, err := srv.ContainerClient("box", nil)
			require.NoError(b, err)
			bb := cc.NewBlockBlobClient("big")
			data := make([]byte, 8<<20)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := bb.StageBlock(ctx, blockID(0), streaming.NopCloser(bytes.NewReader(data)), nil)
				require.NoError(b, err)
			}
		})
	}
}
