package azstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// containerInMemory stands for a container of yours.
func containerInMemory() *azstore.Store {
	client, err := azfake.New(nil).ContainerClient("documents", nil)
	if err != nil {
		panic(err)
	}
	s, err := azstore.New(client, nil)
	if err != nil {
		panic(err)
	}
	return s
}

// One process at a time does the nightly work; the others go home.
func ExampleStore_Lock() {
	ctx, blobs := context.Background(), containerInMemory()
	nightly := func(who string, work func(ctx context.Context)) {
		lock, err := blobs.Lock(ctx, "nightly", &azstore.LockOptions{Wait: -1})
		if errors.Is(err, store.ErrBusy) {
			fmt.Println(who, "finds the lock taken")
			return
		}
		if err != nil {
			fmt.Println(who, err)
			return
		}
		defer func() {
			if err := lock.Release(); err != nil {
				fmt.Println(who, err) // lost meanwhile, or taken until it runs out
			}
		}()
		work(lock.Context()) // which ends when the lock is lost
		fmt.Println(who, "is done")
	}
	nightly("a", func(context.Context) {
		nightly("b", nil)
	})
	nightly("b", func(context.Context) {})
	// Output:
	// b finds the lock taken
	// a is done
	// b is done
}

// An operator ends the lock of a holder that hangs. A period as long as the
// lock's duration lets the holder notice first.
func ExampleStore_BreakLock() {
	ctx, blobs := context.Background(), containerInMemory()
	lock, err := blobs.Lock(ctx, "nightly", nil)
	if err != nil {
		panic(err)
	}
	left, err := blobs.BreakLock(ctx, "nightly", 10*time.Second)
	fmt.Println("free in", left, err)
	left, err = blobs.BreakLock(ctx, "nightly", 0)
	fmt.Println("free in", left, err)
	fmt.Println(lock.Release())
	_, err = blobs.BreakLock(ctx, "nightly", 0)
	fmt.Println(errors.Is(err, azstore.ErrLeaseNotPresent))
	// Output:
	// free in 10s <nil>
	// free in 0s <nil>
	// <nil>
	// true
}

func ExampleStore_ProtectContainer() {
	ctx, blobs := context.Background(), containerInMemory()
	fmt.Println(blobs.ProtectContainer(ctx))
	fmt.Println(blobs.ProtectContainer(ctx), "again")
	// From here on a request to delete the container is refused with 412.
	fmt.Println(blobs.UnprotectContainer(ctx))
	// Output:
	// <nil>
	// <nil> again
	// <nil>
}
