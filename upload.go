package blobtx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// UploadOptions configures Upload.
type UploadOptions struct {
	// ContentType is stored with the blob and the object. Defaults to
	// application/octet-stream.
	ContentType string
	// Size is the length of the body in bytes, checked before the bytes become
	// readable. 0 or -1: unknown.
	Size int64
	// SHA256 is the lower-case hex of the body's SHA-256, checked like Size.
	// Empty: unknown.
	SHA256 string
	// OnProgress is called with the bytes read so far. A retry starts from
	// zero. It must not block.
	OnProgress func(bytes int64)
}

// Upload is bytes in the container that no row shows yet: what Commit takes. It
// is kept alive until Commit, Release, the end of its intent's life, or the end
// of the context that made it. The zero Upload is ErrInvalid wherever it is
// used. Methods are safe for concurrent use.
type Upload struct {
	c      *Coordinator
	blob   Blob
	replay *Object
	keeper *keeper

	mu       sync.Mutex // held for a copy, never across a call
	intent   Intent
	settling int // Settles under way, which move the version themselves
}

// Intent returns the intent. Its Key is the one to use: a known idempotency key
// may bring another than the caller passed.
func (u *Upload) Intent() Intent {
	if u == nil || u.c == nil {
		return Intent{}
	}
	return u.current()
}

// Replay returns the stored object when a known idempotency key had already
// been committed; the body was not read then.
func (u *Upload) Replay() (Object, bool) {
	if u == nil || u.replay == nil {
		return Object{}, false
	}
	return *u.replay, true
}

// Release stops keeping the upload alive. It is safe to defer and to repeat. A
// released upload may still be committed, for as long as IntentTTL leaves it.
func (u *Upload) Release() {
	if u != nil {
		u.keeper.end(context.Canceled)
	}
}

func (u *Upload) current() Intent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.intent
}

// settle begins a takeover for this very upload; moved ends it, with the
// version it gave, or 0 if it failed.
func (u *Upload) settle() Intent {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.settling++
	return u.intent
}

func (u *Upload) moved(version int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.settling--
	u.intent.Version = max(u.intent.Version, version)
}

// landed adopts the version of a takeover of its own that landed after its
// Settle had given up.
func (u *Upload) landed(version int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.settling == 0 {
		u.intent.Version = max(u.intent.Version, version)
	}
}

// Upload streams body to the intent's blob, create-only, and keeps the intent
// alive from its start. The bytes are not visible to anyone before Commit.
// Reading stops between two reads when ctx ends, when the body is not as
// declared, or when the intent is lost. A body that can seek is rewound by a retry; one that
// cannot is retried inside the blob store only.
//
// The context's end ends the keep-alive too, so that a request's uploads end
// with the request; defer Release for the rest.
//
// ErrInvalid: bad input, nothing was sent. A *BodyError or ErrBodyMismatch: the
// body failed or is not as declared, nothing is readable. ErrIntentLost: too
// slow, or aborted. ErrTakenOver. ErrIdempotencyReuse: other bytes than the
// first attempt's. ErrForeignBlob. ErrNotFound: the intent is no longer
// remembered. ErrAlreadyCommitted: who has a copy of the intent committed it
// meanwhile. ErrHeld. ErrCorrupt: the stores contradict each other. ErrBusy,
// ErrSetup, and what the stores say when they cannot be reached.
func (c *Coordinator) Upload(ctx context.Context, in *Intent, body io.Reader, opts *UploadOptions) (*Upload, error) {
	if in == nil || in.ID == "" {
		return nil, fmt.Errorf("blobtx: upload: no intent: %w", ErrInvalid)
	}
	var o UploadOptions
	if opts != nil {
		o = *opts
	}
	if err := cmp.Or(c.made(), validUpload(body, &o)); err != nil {
		return nil, failed("upload", in.Key, in.ID, err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, failed("upload", in.Key, in.ID, err)
	}
	current, sent := *in, time.Now()
	lease := c.opts.IntentTTL
	if !in.Committed() {
		// It may have waited in a queue: is it alive, and still its holder's?
		ask := func(version int64) (Intent, error) {
			beat, err := repeated(ctx, c, func() (Intent, error) {
				sent = time.Now()
				return c.rows.Heartbeat(ctx, store.HeartbeatParams{ID: in.ID, Version: version, TTL: lease})
			})
			if err == nil {
				err = lostTo(beat, *in)
			}
			return beat, err
		}
		beat, err := ask(in.Version)
		if err == nil && beat.Version != in.Version { // a copy from before a Settle of its own
			beat, err = ask(beat.Version)
		}
		if err != nil && !beat.Committed() {
			return nil, failed("upload", in.Key, in.ID, err)
		}
		current = beat
	}
	up, err := c.upload(ctx, current, sent, lease, body, o)
	return up, failed("upload", in.Key, in.ID, err)
}

// lostTo returns why an intent, as it stands now, is no longer what its holder
// knew, nil while it is. A version that grew under the same holder is the
// holder's own Settle.
func lostTo(now, known Intent) error {
	switch {
	case now.State == store.Abandoned:
		return ErrIntentLost
	case now.State == store.Held:
		return ErrHeld
	case now.Version != known.Version && now.Holder != known.Holder:
		return ErrTakenOver
	case now.Committed():
		return ErrAlreadyCommitted
	}
	return nil
}

func validUpload(body io.Reader, o *UploadOptions) error {
	if o.ContentType == "" {
		o.ContentType = "application/octet-stream"
	}
	switch {
	case body == nil:
		return fmt.Errorf("body is nil: %w", ErrInvalid)
	case o.Size < -1:
		return fmt.Errorf("size %d: %w", o.Size, ErrInvalid)
	}
	if err := store.ValidateSHA256(o.SHA256); err != nil {
		return err
	}
	return store.ValidateContentType(o.ContentType)
}

// upload sends the bytes of an intent that was confirmed alive by a statement
// sent at that time, and is to be silent for lease at most.
func (c *Coordinator) upload(ctx context.Context, in Intent, sent time.Time, lease time.Duration, r io.Reader, o UploadOptions) (*Upload, error) {
	up := &Upload{c: c, intent: in}
	if in.Committed() {
		if in.Result == nil {
			return nil, fmt.Errorf("the stored result is missing: %w", ErrOutcomeUnknown)
		}
		if o.Size > 0 && o.Size != in.Result.Blob.Size || o.SHA256 != "" && o.SHA256 != in.Result.Blob.SHA256 {
			return nil, fmt.Errorf("declared are %d bytes, SHA-256 %q; stored are %d, %q: %w", o.Size, o.SHA256, in.Result.Blob.Size, in.Result.Blob.SHA256, ErrIdempotencyReuse)
		}
		up.replay = in.Result
		return up, nil
	}
	up.keeper = newKeeper(ctx, up, sent, lease)
	sound := false
	defer func() {
		if !sound { // not when the caller's reader panics either
			up.Release()
		}
	}()
	size := o.Size
	if size == 0 {
		size = -1
	}
	body := store.NewBody(r, size, o.SHA256)
	body.OnProgress = o.OnProgress
	blob, err := c.create(up.keeper.ctx, in, body, o.ContentType)
	if err != nil {
		if lost := context.Cause(up.keeper.ctx); lost != nil && ctx.Err() == nil {
			err = lost // why the upload was cancelled, not that it was
		}
		return nil, err
	}
	up.blob, sound = blob, true
	return up, nil
}

// create is done when the blob under the intent's name is known to be ours and
// equal to the body. A status code alone never says so: an SDK's own retry can
// meet its own first try. So after every answer that is not a success it looks.
func (c *Coordinator) create(ctx context.Context, in Intent, body *store.Body, contentType string) (Blob, error) {
	p := store.CreateParams{Name: in.BlobName, IntentID: in.ID, Key: in.Key, Base: in.Expect.String(), ContentType: contentType, Body: body}
	for try := 1; ; try++ {
		blob, err := c.blobs.Create(ctx, p)
		if err == nil {
			size, sum, complete := body.Sum()
			if !complete {
				return Blob{}, fmt.Errorf("the blob store did not read the body to its end: %w", ErrCorrupt)
			}
			blob.Name, blob.Size, blob.SHA256, blob.ContentType = in.BlobName, size, sum, contentType
			return blob, nil
		}
		if bodyFailed(err) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrSetup) {
			return Blob{}, err
		}
		blob, absent, lookErr := c.look(ctx, in, body)
		if !absent {
			return blob, lookErr
		}
		if try == 3 {
			return Blob{}, err
		}
		if !c.pause(ctx, try) {
			return Blob{}, context.Cause(ctx)
		}
		if rewindErr := body.Rewind(); rewindErr != nil {
			return Blob{}, fmt.Errorf("%w; %w", err, rewindErr)
		}
	}
}

func bodyFailed(err error) bool {
	var body *BodyError
	return errors.As(err, &body) || errors.Is(err, ErrBodyMismatch)
}

// look compares what is under the intent's name with the body: intent id, size
// and SHA-256. Absent: nothing is there; the upload may be tried again.
func (c *Coordinator) look(ctx context.Context, in Intent, body *store.Body) (_ Blob, absent bool, _ error) {
	var info store.BlobInfo
	for try := 1; ; try++ {
		var err error
		if info, err = c.blobs.Stat(ctx, store.StatParams{Name: in.BlobName}); err == nil {
			break
		}
		switch {
		case errors.Is(err, ErrBlobNotFound):
			return Blob{}, true, nil
		case ctx.Err() != nil:
			return Blob{}, false, context.Cause(ctx)
		case errors.Is(err, ErrSetup) || try == 3 || !c.pause(ctx, try):
			return Blob{}, false, fmt.Errorf("look at the blob after an unclear answer: %w", err)
		}
	}
	if info.IntentID != in.ID {
		return Blob{}, false, fmt.Errorf("blob %q belongs to intent %q: %w", in.BlobName, info.IntentID, ErrForeignBlob)
	}
	if info.SHA256 == "" { // the empty blob by which a sweeper clears an abandoned name
		return Blob{}, false, fmt.Errorf("a sweeper is clearing the name: %w", ErrIntentLost)
	}
	if err := body.Drain(ctx); err != nil {
		return Blob{}, false, err
	}
	size, sum, _ := body.Sum()
	if info.Size != size || info.SHA256 != sum {
		return Blob{}, false, fmt.Errorf("the first attempt's blob has %d bytes %s, this body has %d bytes %s: %w", info.Size, info.SHA256, size, sum, ErrIdempotencyReuse)
	}
	return info.Blob, false, nil
}
