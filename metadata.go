package blobtx

import (
	"context"
	"errors"
	"maps"

	"github.com/blobtx/blobtx/store"
)

// MetadataOptions configures SetMetadata and SetMetadataTx.
type MetadataOptions struct {
	// If is what the object must be. The zero value means IfExists here.
	If Condition
}

func (o *MetadataOptions) condition() Condition {
	if o == nil || o.If == IfAbsent() {
		return IfExists()
	}
	return o.If
}

// SetMetadata replaces the object's metadata and gives it a new version; the
// bytes stay. So the version can serve as the token of the application's whole
// aggregate. Once begun it does not end with ctx.
//
// A *ConflictError: the object is not what If wants; it is also ErrNotFound
// when there is none. ErrOutcomeUnknown: a reply was lost, and now the object
// is another. ErrBusy: nothing was changed. ErrInvalid. ErrSetup.
func (c *Coordinator) SetMetadata(ctx context.Context, key string, m map[string]string, opts *MetadataOptions) (Object, error) {
	want := opts.condition()
	if err := errors.Join(c.made(), store.ValidateKey(key), want.Validate(), store.ValidateMetadata(m), context.Cause(ctx)); err != nil {
		return Object{}, failed("set metadata", key, "", err)
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	bits := c.random.versionBits()
	object, err := c.change(ctx, key, want, func(exact Condition) (Object, error) {
		object, err := c.rows.SetObjectMetadata(ctx, store.MetadataParams{Key: key, If: exact, Metadata: m, Random: bits})
		var conflict *ConflictError
		if errors.As(err, &conflict) && conflict.Current != nil &&
			uint32(conflict.Current.Version)&(1<<store.RandomBits-1) == bits && maps.Equal(conflict.Current.Metadata, m) {
			return *conflict.Current, nil // an earlier attempt of this call, whose reply was lost
		}
		return object, err
	})
	return object, failed("set metadata", key, "", err)
}

// SetMetadataTx is SetMetadata inside a transaction of the caller's. A
// *ConflictError, or ErrNotFound under Always, leaves no trace in it.
// ErrTxUnusable: roll back.
func (c *Coordinator) SetMetadataTx(ctx context.Context, tx store.RowTx, key string, m map[string]string, opts *MetadataOptions) (Object, error) {
	want := opts.condition()
	if err := errors.Join(c.made(), validTx(tx), store.ValidateKey(key), want.Validate(), store.ValidateMetadata(m)); err != nil {
		return Object{}, failed("set metadata", key, "", err)
	}
	object, err := tx.SetObjectMetadata(ctx, store.MetadataParams{Key: key, If: want, Metadata: m, Random: c.random.versionBits()})
	return object, failed("set metadata", key, "", err)
}
