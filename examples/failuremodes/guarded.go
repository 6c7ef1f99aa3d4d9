package main

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

// pendingOnly lets a request take a blob only while its index tag says pending.
var pendingOnly = `"state" = 'pending'`

// guard is J.
func guard(ctx context.Context, w *world) error {
	for _, state := range []string{"pending", "committed"} {
		if err := w.upload(ctx, state, &blockblob.UploadOptions{Tags: map[string]string{"state": state}}); err != nil {
			return err
		}
		_, err := w.blob(state).Delete(ctx, &blob.DeleteOptions{AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfTags: &pendingOnly},
		}})
		result := "deleted"
		if err != nil {
			if result, err = status(err); err != nil {
				return err
			}
		}
		if err := w.sayDeleted(ctx, state, state, result); err != nil {
			return err
		}
	}
	return nil
}

// sayDeleted says what a delete was told, if the container agrees.
func (w *world) sayDeleted(ctx context.Context, state, name, result string) error {
	size, err := w.size(ctx, name)
	switch {
	case err != nil:
		return err
	case (size < 0) != (result == "deleted"):
		return fmt.Errorf("the %s blob: %s, and its size is %d", state, result, size)
	}
	w.say("%s %s", state, result)
	return nil
}

// guardBlobtx sends the delete that a sweeper sends for an upload it believes
// was never committed, as one would whose database was restored.
func guardBlobtx(ctx context.Context, w *world) error {
	pending, err := w.stage(ctx, "a")
	if err != nil {
		return err
	}
	defer pending.Release()
	committed, err := w.stage(ctx, "b")
	if err != nil {
		return err
	}
	defer committed.Release()
	if _, err := w.Commit(ctx, nil, committed); err != nil {
		return err
	}
	for _, x := range []struct {
		state string
		up    *blobtx.Upload
	}{{"pending", pending}, {"committed", committed}} {
		in := x.up.Intent()
		err := w.blobs.Delete(ctx, []store.DeleteBlob{{Name: in.BlobName, IntentID: in.ID, Pending: true}})[0]
		result := "deleted"
		if err != nil {
			if result, err = identity(err, blobtx.ErrGuardRefused, "ErrGuardRefused"); err != nil {
				return err
			}
		}
		if err := w.sayDeleted(ctx, x.state, in.BlobName, result); err != nil {
			return err
		}
	}
	return nil
}
