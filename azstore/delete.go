package azstore

import (
	"context"
	"errors"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/store"
)

const (
	maxBatch = 256 // Blob Batch, REST reference

	// parallelDeletes bounds the requests in flight of one Delete where each
	// element takes a request of its own.
	parallelDeletes = 8

	// batchPause is how many elements go out one by one after a server has
	// refused a batch and taken the elements.
	batchPause = 16 * maxBatch
)

// deletion is one element under way.
type deletion struct {
	store.DeleteBlob
	full    string
	cleared bool // an empty block list was committed: nothing readable was there
	settled bool // err is the result
	err     error
}

// Delete implements store.BlobStore. Elements go out in Blob Batch requests of
// up to 256, each with its guard, snapshots included; a single one as Delete
// Blob. Where a server refuses a batch as a whole (but not because it is busy),
// each element is a request of its own. DeleteBlob.ClearStaged costs one more
// request per element.
//
// The tag guard is the only condition of a delete. After a lost reply the SDK
// asks again and meets its own success: ErrBlobNotFound then means that the
// blob is gone, not that it never was. With ClearStaged the same lost reply can
// report nil where nothing readable was.
//
// Errors, per element: store.ErrBlobNotFound, store.ErrGuardRefused,
// store.ErrInvalid, store.ErrSetup. See "Delete Blob", REST reference.
func (s *Store) Delete(ctx context.Context, blobs []store.DeleteBlob) []error {
	all := make([]deletion, len(blobs))
	for i, b := range blobs {
		d := deletion{DeleteBlob: b}
		if d.full, d.err = s.wireName(b.Name); d.err == nil {
			d.err = checkIntent(b.IntentID)
		}
		d.settled = d.err != nil
		all[i] = d
	}
	s.deleteAll(ctx, all)
	errs := make([]error, len(all))
	for i := range all {
		errs[i] = all[i].result()
	}
	return errs
}

// deleteFull is Delete of one element under its name in the container.
func (s *Store) deleteFull(ctx context.Context, full string, d store.DeleteBlob) error {
	one := []deletion{{full: full, DeleteBlob: d}}
	s.deleteAll(ctx, one)
	return one[0].result()
}

func (s *Store) deleteAll(ctx context.Context, all []deletion) {
	s.clearAll(ctx, all)
	var todo []*deletion
	for i := range all {
		if !all[i].settled {
			todo = append(todo, &all[i])
		}
	}
	for len(todo) > 0 {
		n := min(len(todo), maxBatch)
		s.deleteBatch(ctx, todo[:n])
		todo = todo[n:]
	}
}

func (d *deletion) result() error {
	if d.cleared && d.err == nil {
		return opDelete.as(store.ErrBlobNotFound, nil) // only the empty blob of clearAll was there
	}
	return d.err
}

// clearAll makes staged blocks useless where it was asked for. It comes before
// the delete: an empty blob stands where nothing readable was, so that no block
// list can be committed any more, and the delete takes it away. A crash in
// between leaves a pending blob of this intent, which the next delete finds.
func (s *Store) clearAll(ctx context.Context, all []deletion) {
	inParallel(all, func(d *deletion) {
		if !d.ClearStaged || d.settled {
			return
		}
		_, err := s.c.NewBlockBlobClient(d.full).CommitBlockList(ctx, []string{}, &blockblob.CommitBlockListOptions{
			Tags:             tags(statePending, d.IntentID),
			Metadata:         map[string]*string{metaIntent: &d.IntentID},
			AccessConditions: createOnly(),
		})
		switch {
		case err == nil:
			d.cleared = true
		case !occupied(err):
			d.err, d.settled = opPutList.fail(ctx, err), true
		}
	})
}

// deleteBatch deletes up to 256 elements, in one request if the server lets it.
func (s *Store) deleteBatch(ctx context.Context, part []*deletion) {
	if len(part) == 1 || s.skipBatch.Add(-int64(len(part))) >= 0 {
		s.deleteEach(ctx, part)
		return
	}
	s.skipBatch.Store(0)
	err := s.submit(ctx, part)
	switch {
	case err == nil:
		return
	case response(err) == nil || throttled(err) || isContainerGone(err):
		// Hundreds of requests in its place would fare no better.
		mapped := opBatch.fail(ctx, err)
		for _, d := range part {
			d.err = mapped
		}
		return
	}
	// Refused as a whole: this server, or this credential, takes no batch. One
	// element tells whether it takes single requests.
	s.deleteOne(ctx, part[0])
	if isFinal(part[0].err) {
		s.skipBatch.Store(batchPause)
		s.deleteEach(ctx, part[1:])
		return
	}
	for _, d := range part[1:] {
		d.err = part[0].err
	}
}

// isFinal reports whether the service has decided about an element.
func isFinal(err error) bool {
	return err == nil || errors.Is(err, store.ErrBlobNotFound) || errors.Is(err, store.ErrGuardRefused)
}

// submit sends one batch and notes what became of each part. Its error is about
// the batch as a whole; no part is settled then.
func (s *Store) submit(ctx context.Context, part []*deletion) error {
	builder, err := s.c.NewBatchBuilder()
	if err != nil {
		return err
	}
	for _, d := range part {
		o := &container.BatchDeleteOptions{DeleteOptions: *d.options()}
		if err := builder.Delete(d.full, o); err != nil {
			return err
		}
	}
	answers, err := s.sendBatch(ctx, builder, len(part))
	if err != nil {
		return err
	}
	for i, d := range part {
		d.err = deleted(ctx, answers[i])
	}
	return nil
}

func (s *Store) deleteEach(ctx context.Context, part []*deletion) {
	inParallel(part, func(d **deletion) { s.deleteOne(ctx, *d) })
}

func (s *Store) deleteOne(ctx context.Context, d *deletion) {
	if ctx.Err() != nil {
		d.err = opDelete.ended(ctx)
		return
	}
	_, err := s.c.NewBlobClient(d.full).Delete(ctx, d.options())
	d.err = deleted(ctx, err)
}

func (d *deletion) options() *blob.DeleteOptions {
	include := blob.DeleteSnapshotsOptionTypeInclude
	return &blob.DeleteOptions{DeleteSnapshots: &include, AccessConditions: guard(d.IntentID, d.Pending)}
}

// deleted maps the answer to one guarded delete.
func deleted(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isAbsent(err):
		return opDelete.as(store.ErrBlobNotFound, err)
	case conditionFailed(err):
		return opDelete.as(store.ErrGuardRefused, err)
	}
	return opDelete.fail(ctx, err)
}

// inParallel calls do for each item, a bounded number at a time.
func inParallel[T any](items []T, do func(*T)) {
	if len(items) == 1 {
		do(&items[0])
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallelDeletes)
	for i := range items {
		slots <- struct{}{}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			do(&items[i])
		}()
	}
	wg.Wait()
}
