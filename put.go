package blobtx

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/blobtx/blobtx/store"
)

// PutOptions configures Put and Stage: the fields of IntentOptions and
// UploadOptions, with the same meaning.
type PutOptions struct {
	IdempotencyKey string            // the caller's name for the request; empty: none
	If             Condition         // zero: IfAbsent
	Metadata       map[string]string // kept with the object
	TTL            time.Duration     // silence allowed before the keep-alive's first beat; 0: Options.IntentTTL
	ContentType    string            // empty: application/octet-stream
	Size           int64             // bytes; 0 or -1: unknown
	SHA256         string            // lower-case hex; empty: unknown
	OnProgress     func(bytes int64) // must not block
}

func (o *PutOptions) split() (IntentOptions, UploadOptions) {
	if o == nil {
		return IntentOptions{}, UploadOptions{}
	}
	return IntentOptions{IdempotencyKey: o.IdempotencyKey, If: o.If, Metadata: o.Metadata, TTL: o.TTL},
		UploadOptions{ContentType: o.ContentType, Size: o.Size, SHA256: o.SHA256, OnProgress: o.OnProgress}
}

// Put stores an object: the four steps in one call. Without options it creates
// and never replaces; to replace, set If to IfVersion, IfExists or Always. When
// it fails it leaves nothing behind that the sweeper would not find.
//
// The errors are those of Intent, Upload and Commit. After ErrOutcomeUnknown
// the same call with the same idempotency key finds out. A *ConflictError that
// is also ErrExists says that the object is there already.
func (c *Coordinator) Put(ctx context.Context, key string, body io.Reader, opts *PutOptions) (Object, error) {
	up, err := c.stage(ctx, "put", key, body, opts)
	if err != nil {
		return Object{}, err
	}
	defer up.Release()
	objects, err := c.commit(ctx, []*Upload{up})
	if err != nil {
		in := up.current()
		return Object{}, failed("put", in.Key, in.ID, c.clean(ctx, &in, err))
	}
	return objects[0], nil
}

// Stage is Intent and Upload in one call: bytes in the container that no row
// shows yet, to be committed with CommitWith, CommitTx or Commit. When it fails
// it aborts. The context's end ends the keep-alive; defer Release for the rest,
// and Abort when the upload is not to be committed after all.
func (c *Coordinator) Stage(ctx context.Context, key string, body io.Reader, opts *PutOptions) (*Upload, error) {
	return c.stage(ctx, "stage", key, body, opts)
}

func (c *Coordinator) stage(ctx context.Context, op, key string, body io.Reader, opts *PutOptions) (*Upload, error) {
	promise, o := opts.split()
	if err := validUpload(body, &o); err != nil {
		return nil, failed(op, key, "", err)
	}
	sent := time.Now()
	in, err := c.promise(ctx, key, promise)
	if err != nil {
		return nil, failed(op, key, "", err)
	}
	lease := promise.TTL
	if lease == 0 {
		lease = c.opts.IntentTTL
	}
	up, err := c.upload(ctx, in, sent, lease, body, o)
	if err != nil {
		return nil, failed(op, in.Key, in.ID, c.clean(ctx, &in, err))
	}
	return up, nil
}

// clean aborts after a failure, unless the intent is not this call's any more or
// may have been committed. It returns the failure, put right by what the abort
// met: an upload that fell silent may have been taken over, not abandoned.
func (c *Coordinator) clean(ctx context.Context, in *Intent, why error) error {
	if in.Committed() || !bodyFailed(why) && (errors.Is(why, ErrOutcomeUnknown) || errors.Is(why, ErrTakenOver)) {
		return why
	}
	now, err := c.abort(ctx, in)
	if err != nil {
		c.opts.Logger.Warn("blobtx: abort failed, the sweeper will clean up", "key", in.Key, "intent", in.ID, "error", err)
	}
	if errors.Is(why, ErrIntentLost) && now.ID != "" && now.State != store.Abandoned {
		return ErrTakenOver
	}
	return why
}
