package blobtx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/blobtx/blobtx/store"
)

// ErrNoChange is what a ChangeFunc returns to end an Update without a write.
var ErrNoChange = errors.New("blobtx: no change")

// ChangeFunc makes the new bytes of an object out of what is there now. It is
// called again, with what is there then, each time another change came first,
// so it must be repeatable. Current is nil, and old empty, when the object is
// absent. Old is one version; it may be read while the result is read, is for
// one goroutine, and is over when the result ends. A result that is an
// io.Closer is closed. ErrNoChange ends the Update without a write; every other
// error ends it with that error.
type ChangeFunc func(ctx context.Context, current *Object, old io.Reader) (io.Reader, error)

// UpdateOptions configures Update.
type UpdateOptions struct {
	Create      bool              // call the function for an absent object, too
	ContentType string            // of the new version; empty: as before
	Metadata    map[string]string // of the new version; nil: as before
	OnProgress  func(bytes int64) // must not block; begins again with each attempt
}

// mostUpdates bounds how often an Update is tried: some seven seconds of losing.
const mostUpdates = 10

// Update replaces an object by what change makes of it, if nothing came
// between; otherwise it calls change again with the newer object and bytes, at
// most 10 times, with growing random pauses. So of two updates at once both
// take effect, one after the other. What change was given is read to its end
// and verified before the new version is committed: nothing is derived from
// bytes that were not the object's.
//
// After ErrNoChange it returns the object that stands, the zero Object when
// there is none. ErrNotFound: absent, and Create is not set. A *ConflictError
// that counts the attempts: another change came first each time. ErrCorrupt:
// the bytes are missing or different. ErrOutcomeUnknown: the change may have
// been made, and calling again may make it twice. Otherwise the errors are those
// of Put and those of change.
func (c *Coordinator) Update(ctx context.Context, key string, change ChangeFunc, opts *UpdateOptions) (Object, error) {
	var o UpdateOptions
	if opts != nil {
		o = *opts
	}
	object, err := c.update(ctx, key, change, o)
	return object, failed("update", key, "", err)
}

func (c *Coordinator) update(ctx context.Context, key string, change ChangeFunc, o UpdateOptions) (Object, error) {
	if change == nil {
		return Object{}, fmt.Errorf("the function is nil: %w", ErrInvalid)
	}
	if err := errors.Join(c.made(), store.ValidateKey(key), store.ValidateMetadata(o.Metadata), store.ValidateContentType(o.ContentType)); err != nil {
		return Object{}, err
	}
	for try := 1; ; try++ {
		object, err := c.updateOnce(ctx, key, change, o)
		var own ended
		if errors.As(err, &own) {
			return Object{}, own.error
		}
		var lost *ConflictError
		if !errors.As(err, &lost) || lost.Key != key || bodyFailed(err) {
			return object, err
		}
		if try == mostUpdates {
			return Object{}, fmt.Errorf("%d attempts, and another change came first each time: %w", try, err)
		}
		if !c.pause(ctx, try) {
			return Object{}, fmt.Errorf("%w after %d attempts: %w", context.Cause(ctx), try, err)
		}
	}
}

// ended is an error of the ChangeFunc's own, which ends the Update whatever it is.
type ended struct{ error }

// updateOnce is one attempt. A *ConflictError: lost the race.
func (c *Coordinator) updateOnce(ctx context.Context, key string, change ChangeFunc, o UpdateOptions) (Object, error) {
	put := PutOptions{ContentType: o.ContentType, Metadata: o.Metadata, OnProgress: o.OnProgress}
	old := new(oldBytes)
	var current *Object
	object, err := c.get(ctx, key)
	switch {
	case err == nil:
		old.reader = &Reader{c: c, ctx: ctx, object: object, pinned: true}
		defer old.reader.Close()
		put.If = IfVersion(object.Version)
		if put.ContentType == "" {
			put.ContentType = object.Blob.ContentType
		}
		if put.Metadata == nil {
			put.Metadata = maps.Clone(object.Metadata)
		}
		shown := object
		current = &shown
	case !errors.Is(err, ErrNotFound) || !o.Create:
		return Object{}, err
	}
	body, err := change(ctx, current, old)
	if closer, ok := body.(io.Closer); ok {
		defer closer.Close()
	}
	switch {
	case old.moved(): // whatever change made of it
		return Object{}, old.err
	case errors.Is(err, ErrNoChange):
		return object, nil
	case err != nil:
		return Object{}, ended{err}
	}
	return c.replace(ctx, key, body, put, old)
}

// replace is Put, which commits after old was read to its end.
func (c *Coordinator) replace(ctx context.Context, key string, body io.Reader, put PutOptions, old *oldBytes) (Object, error) {
	up, err := c.stage(ctx, "update", key, body, &put)
	if err != nil {
		if old.moved() {
			err = old.err
		}
		return Object{}, err
	}
	defer up.Release()
	var objects []Object
	if _, err = io.Copy(io.Discard, old); err == nil {
		objects, err = c.commit(ctx, []*Upload{up})
	}
	if err != nil {
		in := up.current()
		return Object{}, c.clean(ctx, &in, err)
	}
	return objects[0], nil
}

// oldBytes is what a ChangeFunc reads: nothing but Read, so that all of it is
// verified, and the first failure kept, whatever becomes of it on its way.
type oldBytes struct {
	reader *Reader // nil: absent
	err    error
}

func (o *oldBytes) Read(p []byte) (int, error) {
	if o.reader == nil {
		return 0, io.EOF
	}
	n, err := o.reader.Read(p)
	if err != nil && err != io.EOF {
		o.err = err
	}
	return n, err
}

func (o *oldBytes) moved() bool { return errors.Is(o.err, ErrConflict) }
