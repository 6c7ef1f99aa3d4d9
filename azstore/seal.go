package azstore

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/blobtx/blobtx/store"
)

// Seal implements store.BlobStore: one Set Blob Tags, guarded by the tag
// intent=<id>. The guard goes on to hold after the flip, so a repetition, by
// the SDK or by a sweeper, succeeds as the first did. Tags change neither the
// ETag nor the bytes.
//
// Errors: store.ErrBlobNotFound, store.ErrGuardRefused, store.ErrInvalid,
// store.ErrSetup. See "Set Blob Tags", REST reference. Azurite 3.37.0 ignores
// the guard here.
func (s *Store) Seal(ctx context.Context, name, intentID string) error {
	full, err := s.wireName(name)
	if err != nil {
		return err
	}
	if err := checkIntent(intentID); err != nil {
		return err
	}
	return s.setTags(ctx, full, intentID, guard(intentID, false))
}

func (s *Store) setTags(ctx context.Context, full, intentID string, guard *blob.AccessConditions) error {
	_, err := s.c.NewBlobClient(full).SetTags(ctx, tags(stateCommitted, intentID), &blob.SetTagsOptions{AccessConditions: guard})
	switch {
	case err == nil:
		return nil
	case isAbsent(err):
		return opSetTags.as(store.ErrBlobNotFound, err)
	case conditionFailed(err):
		return opSetTags.as(store.ErrGuardRefused, err)
	}
	return opSetTags.fail(ctx, err)
}
