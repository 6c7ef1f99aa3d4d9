package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// The steps of the protocol, one by one. Applications use package blobtx,
// which takes them in this order.
func Example() {
	ctx := context.Background()
	rows, blobs := memstore.NewRows(nil), memstore.NewBlobs(nil)

	// Intent: the database learns the name first.
	in, err := rows.InsertIntent(ctx, store.InsertParams{
		ID: "4f1c", Holder: "me", Key: "greeting", BlobName: "a7/greeting-4f1c",
		TTL: 15 * time.Minute, MaxPending: 48 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Upload: pending, under that name, and no row shows it yet.
	blob, err := blobs.Create(ctx, store.CreateParams{
		Name: in.BlobName, IntentID: in.ID, Key: in.Key, Body: store.NewBody(strings.NewReader("hello"), -1, ""),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = rows.GetObject(ctx, "greeting")
	fmt.Println("before the commit:", errors.Is(err, store.ErrNotFound))

	// Commit: in a transaction, beside whatever else it does.
	tx, err := rows.Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	objects, err := tx.CommitObjects(ctx, []store.CommitParams{{IntentID: in.ID, Version: in.Version, Key: in.Key, Blob: blob}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := tx.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("committed:", objects[0].Key, objects[0].Blob.Size, "bytes")

	// Seal: from now on the blob itself says that it was committed.
	if err := blobs.Seal(ctx, in.BlobName, in.ID); err != nil {
		fmt.Println(err)
		return
	}
	refused := blobs.Delete(ctx, []store.DeleteBlob{{Name: in.BlobName, IntentID: in.ID, Pending: true}})[0]
	fmt.Println("deleted as an orphan:", !errors.Is(refused, store.ErrGuardRefused))

	// Output:
	// before the commit: true
	// committed: greeting 5 bytes
	// deleted as an orphan: false
}
