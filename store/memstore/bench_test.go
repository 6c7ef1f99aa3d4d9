package memstore_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// BenchmarkPut takes the store's part of one Put of 4 KiB: all of its steps,
// hashing included.
func BenchmarkPut(b *testing.B) {
	ctx := b.Context()
	rows, blobs := memstore.NewRows(nil), memstore.NewBlobs(nil)
	content := make([]byte, 4<<10)
	b.ReportAllocs()
	for i := range b.N {
		id := strconv.Itoa(i)
		in, err := rows.InsertIntent(ctx, store.InsertParams{
			ID: id, Holder: "h", IdempotencyKey: id, Key: id, BlobName: id, TTL: time.Minute, MaxPending: time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		facts, err := blobs.Create(ctx, store.CreateParams{
			Name: in.BlobName, IntentID: id, Key: id, Body: store.NewBody(bytes.NewReader(content), -1, ""),
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := rows.CommitObjects(ctx, []store.CommitParams{{IntentID: id, Version: 1, Key: id, Blob: facts}}); err != nil {
			b.Fatal(err)
		}
		if err := blobs.Seal(ctx, in.BlobName, id); err != nil {
			b.Fatal(err)
		}
		n, err := rows.SettleIntents(ctx, []store.IntentSettlement{{ID: id, State: store.Sealing, Version: 2, To: store.ToDone}})
		if err != nil || n != 1 {
			b.Fatal(n, err)
		}
	}
}
