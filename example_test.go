package blobtx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// Put creates; to replace, it must be told which version.
func ExampleCoordinator_Put() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	first, err := c.Put(ctx, "invoice/7", strings.NewReader("ten euros"), &blobtx.PutOptions{ContentType: "text/plain"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Key, first.Blob.Size, first.Blob.ContentType)

	_, err = c.Put(ctx, "invoice/7", strings.NewReader("twelve euros"), nil)
	fmt.Println("exists:", errors.Is(err, blobtx.ErrExists))

	_, err = c.Put(ctx, "invoice/7", strings.NewReader("twelve euros"), &blobtx.PutOptions{If: blobtx.IfVersion(first.Version)})
	fmt.Println("replaced:", err == nil)

	_, err = c.Put(ctx, "invoice/7", strings.NewReader("two euros"), &blobtx.PutOptions{If: blobtx.IfVersion(first.Version)})
	var conflict *blobtx.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("stale version refused; the object now has", conflict.Current.Blob.Size, "bytes")
	}
	// Output:
	// invoice/7 9 text/plain
	// exists: true
	// replaced: true
	// stale version refused; the object now has 12 bytes
}

// Always replaces whatever is there, or creates: the client wins.
func ExampleCoordinator_Put_always() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, reading := range []string{"21.5", "21.7"} {
		o, err := c.Put(ctx, "sensor/latest", strings.NewReader(reading), &blobtx.PutOptions{If: blobtx.Always()})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.Key, o.Blob.SHA256[:8])
	}
	// Output:
	// sensor/latest a20fa123
	// sensor/latest adfc8056
}

// A retry with the same idempotency key gets the result of the first attempt.
func ExampleCoordinator_Put_idempotencyKey() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	opts := &blobtx.PutOptions{IdempotencyKey: "request-42"}
	first, err := c.Put(ctx, "photo", strings.NewReader("pixels"), opts)
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.Put(ctx, "photo", strings.NewReader("pixels"), opts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Version == again.Version)
	// Output:
	// true
}

// Two uploads become visible together with the application's own rows. Whatever
// happens to the reply to COMMIT, what CommitWith says is true.
func ExampleCoordinator_CommitWith() {
	ctx := context.Background()
	rows := memstore.NewRows(nil)
	c, err := blobtx.New(rows, memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	front, err := c.Stage(ctx, "passport/front", strings.NewReader("front"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer front.Release()
	back, err := c.Stage(ctx, "passport/back", strings.NewReader("back"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer back.Release()

	objects, err := c.CommitWith(ctx, func(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
		tx, err := rows.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // does nothing after Commit
		// The application's own writes go here, in the same transaction.
		if _, err := commit(tx); err != nil {
			return err
		}
		return tx.Commit()
	}, front, back)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range objects {
		fmt.Println(o.Key, o.Blob.Size)
	}
	// Output:
	// passport/front 5
	// passport/back 4
}

func ExampleCoordinator_Open() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Put(ctx, "greeting", strings.NewReader("hello, world"), nil); err != nil {
		log.Fatal(err)
	}
	r, err := c.Open(ctx, "greeting", nil) // http.ServeContent takes it
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Seek(7, io.SeekStart); err != nil {
		log.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b), "of", r.Object().Blob.Size, "bytes")
	// Output:
	// world of 12 bytes
}

// Every process of a service runs a sweeper until it shuts down.
func ExampleCoordinator_RunSweeper() {
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	swept := make(chan error)
	go func() { swept <- c.RunSweeper(ctx, nil) }()

	// ... serve ...

	stop()
	fmt.Println(<-swept)
	// Output:
	// <nil>
}

// What a process that died had uploaded is deleted when its deadline has
// passed; its name is watched for a day after.
func ExampleCoordinator_Sweep() {
	ctx := context.Background()
	clock := time.Now()
	rows := memstore.NewRows(&memstore.RowsOptions{Now: func() time.Time { return clock }})
	blobs := memstore.NewBlobs(nil)
	c, err := blobtx.New(rows, blobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	up, err := c.Stage(ctx, "draft", strings.NewReader("never committed"), nil)
	if err != nil {
		log.Fatal(err)
	}
	up.Release() // as if the process had died
	fmt.Println("blobs:", len(blobs.Snapshot()))

	clock = clock.Add(time.Hour)
	result, err := c.Sweep(ctx, nil)
	fmt.Println("abandoned:", result.Abandoned, "blobs:", len(blobs.Snapshot()), err)

	clock = clock.Add(25 * time.Hour)
	result, err = c.Sweep(ctx, nil)
	fmt.Println("cleared:", result.Cleared, "intents:", len(rows.Intents()), err)
	// Output:
	// blobs: 1
	// abandoned: 1 blobs: 0 <nil>
	// cleared: 1 intents: 0 <nil>
}

// The steps one by one. An intent is plain data and may wait in a queue: the
// process that uploads need not be the one that promised.
func ExampleCoordinator_Intent() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	in, err := c.Intent(ctx, "report", &blobtx.IntentOptions{Metadata: map[string]string{"author": "Ada"}, TTL: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("intent:", in.Key, in.State)

	up, err := c.Upload(ctx, in, strings.NewReader("all is well"), &blobtx.UploadOptions{Size: 11})
	if err != nil {
		log.Fatal(err)
	}
	defer up.Release()
	_, err = c.Get(ctx, "report")
	fmt.Println("visible before commit:", err == nil)

	objects, err := c.Commit(ctx, nil, up)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed:", objects[0].Blob.Size, objects[0].Metadata["author"])
	// Output:
	// intent: report uploading
	// visible before commit: false
	// committed: 11 Ada
}

// Abort is safe to defer: after a commit it does nothing.
func ExampleCoordinator_Abort() {
	ctx := context.Background()
	blobs := memstore.NewBlobs(nil)
	c, err := blobtx.New(memstore.NewRows(nil), blobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	save := func(key string, valid bool) error {
		up, err := c.Stage(ctx, key, strings.NewReader("bytes"), nil)
		if err != nil {
			return err
		}
		in := up.Intent()
		defer c.Abort(ctx, &in) //nolint:errcheck // the sweeper does what it could not
		defer up.Release()
		if !valid {
			return errors.New("not what we wanted")
		}
		_, err = c.Commit(ctx, nil, up)
		return err
	}
	fmt.Println(save("good", true), len(blobs.Snapshot()))
	fmt.Println(save("bad", false), len(blobs.Snapshot()))
	// Output:
	// <nil> 1
	// not what we wanted 1
}

// With CommitTx, a reply to COMMIT that was lost is settled by hand. CommitWith
// does this by itself.
func ExampleCoordinator_Settle() {
	ctx := context.Background()
	rows := memstore.NewRows(nil)
	c, err := blobtx.New(rows, memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	up, err := c.Stage(ctx, "order/1", strings.NewReader("one"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer up.Release()
	tx, err := rows.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.CommitTx(ctx, tx, up); err != nil {
		log.Fatal(err)
	}
	err = tx.Commit()
	err = errors.Join(err, errors.New("connection reset by peer")) // was it committed or not?

	outcome, settleErr := c.Settle(ctx, up)
	if settleErr != nil {
		log.Fatal(settleErr)
	}
	fmt.Println(err, "- committed:", outcome.Committed)
	if outcome.Committed {
		fmt.Println("sealed:", c.Seal(ctx, up) == nil)
	}
	// Output:
	// connection reset by peer - committed: true
	// sealed: true
}

// SetMetadata gives the object a new version, so that one token covers bytes
// and metadata alike.
func ExampleCoordinator_SetMetadata() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	o, err := c.Put(ctx, "page", strings.NewReader("text"), nil)
	if err != nil {
		log.Fatal(err)
	}
	titled, err := c.SetMetadata(ctx, "page", map[string]string{"title": "News"}, &blobtx.MetadataOptions{If: blobtx.IfVersion(o.Version)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(titled.Metadata["title"], titled.Version > o.Version)
	err = c.Delete(ctx, "page", &blobtx.DeleteOptions{If: blobtx.IfVersion(o.Version)})
	fmt.Println("stale delete refused:", errors.Is(err, blobtx.ErrConflict))
	// Output:
	// News true
	// stale delete refused: true
}

func ExampleCoordinator_Update() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	visit := func(name string) blobtx.ChangeFunc { // called again when another change came first
		return func(_ context.Context, current *blobtx.Object, old io.Reader) (io.Reader, error) {
			return io.MultiReader(old, strings.NewReader(name+"\n")), nil
		}
	}
	for _, name := range []string{"Ada", "Grace"} {
		if _, err := c.Update(ctx, "visitors", visit(name), &blobtx.UpdateOptions{Create: true}); err != nil {
			log.Fatal(err)
		}
	}
	visitors, err := c.Open(ctx, "visitors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer visitors.Close()
	b, err := io.ReadAll(visitors)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(b))
	// Output:
	// Ada
	// Grace
}

func ExampleCoordinator_List() {
	ctx := context.Background()
	c, err := blobtx.New(memstore.NewRows(nil), memstore.NewBlobs(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"a/2", "b/1", "a/1"} {
		if _, err := c.Put(ctx, key, strings.NewReader(key), nil); err != nil {
			log.Fatal(err)
		}
	}
	for o, err := range c.List(ctx, &blobtx.ListOptions{Prefix: "a/"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.Key)
	}
	// Output:
	// a/1
	// a/2
}
