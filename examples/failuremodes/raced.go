package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/blobtx/blobtx"
)

const writers = 5

// race is G.
func race(ctx context.Context, w *world) error {
	conflict := func(err error) bool {
		var answer *azcore.ResponseError
		return errors.As(err, &answer) && answer.StatusCode == http.StatusConflict
	}
	return w.sayRace(ctx, conflict, func() error {
		return w.upload(ctx, "one", &blockblob.UploadOptions{AccessConditions: createOnly()})
	})
}

func raceBlobtx(ctx context.Context, w *world) error {
	conflict := func(err error) bool { return errors.Is(err, blobtx.ErrExists) }
	return w.sayRace(ctx, conflict, func() error {
		_, err := w.Put(ctx, "one", strings.NewReader("the bytes"), nil)
		return err
	})
}

func (w *world) sayRace(ctx context.Context, conflict func(error) bool, write func() error) error {
	var wg sync.WaitGroup
	start, errs := make(chan struct{}), make([]error, writers)
	for i := range errs {
		wg.Go(func() {
			<-start
			errs[i] = write()
		})
	}
	close(start)
	wg.Wait()
	var won, lost, other int
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case conflict(err):
			lost++
		default:
			other++
		}
	}
	n, err := w.count(ctx)
	if err == nil {
		w.say("won=%d conflict=%d other=%d blobs=%d", won, lost, other, n.blobs)
	}
	return err
}

// A body of three blocks.
const (
	blockSize  = 4 << 20
	stagedSize = 3 * blockSize
)

// loseStaged is K. The second writer is told only when all its blocks are
// there, and they stay: billed, for up to a week.
func loseStaged(ctx context.Context, w *world) error {
	send := func() error {
		_, err := w.blob("one").UploadStream(ctx, zeros(stagedSize), &blockblob.UploadStreamOptions{
			BlockSize: blockSize, AccessConditions: createOnly(),
		})
		return err
	}
	if err := send(); err != nil {
		return err
	}
	size, err := w.size(ctx, "one")
	if err != nil {
		return err
	}
	w.say("first size=%d", size)
	result, err := status(send())
	if err != nil {
		return err
	}
	w.say("second %s", result)
	return w.sayUncommitted(ctx)
}

func (w *world) sayUncommitted(ctx context.Context) error {
	n, err := w.uncommitted(ctx)
	if err == nil {
		w.say("uncommitted=%d", n)
	}
	return err
}

// loseStagedBlobtx uploads both before either is committed, as the loser's
// upload would be refused at its intent afterwards.
func loseStagedBlobtx(ctx context.Context, w *world) error {
	var ups []*blobtx.Upload
	for range 2 {
		up, err := w.Stage(ctx, "one", zeros(stagedSize), nil)
		if err != nil {
			return err
		}
		defer up.Release()
		ups = append(ups, up)
	}
	if _, err := w.Commit(ctx, nil, ups[0]); err != nil {
		return err
	}
	object, err := w.Get(ctx, "one")
	if err != nil {
		return err
	}
	size, err := w.size(ctx, object.Blob.Name)
	if err != nil {
		return err
	}
	w.say("first size=%d", size)
	loser := ups[1].Intent()
	_, err = w.Commit(ctx, nil, ups[1])
	result, err := identity(err, blobtx.ErrExists, "ErrExists")
	if err != nil {
		return err
	}
	w.say("second %s", result)
	if err := w.Abort(ctx, &loser); err != nil {
		return fmt.Errorf("abort: %w", err)
	}
	return w.sayUncommitted(ctx)
}
