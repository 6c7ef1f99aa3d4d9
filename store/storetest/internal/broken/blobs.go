package broken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// copied makes a body that keeps what passes.
func copied(body *store.Body) (*store.Body, *bytes.Buffer) {
	kept := new(bytes.Buffer)
	return store.NewBody(io.TeeReader(body, kept), body.Size(), ""), kept
}

// overwrites drops the condition for bodies of more bytes than above.
type overwrites struct {
	*memstore.Blobs
	above int
}

func (s overwrites) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	var kept *bytes.Buffer
	p.Body, kept = copied(p.Body)
	b, err := s.Blobs.Create(ctx, p)
	if !errors.Is(err, store.ErrExists) || kept.Len() <= s.above {
		return b, err
	}
	s.Remove(p.Name)
	p.Body = store.NewBody(kept, -1, "")
	return s.Blobs.Create(ctx, p)
}

// unchecked commits what it has read before it looks at the error.
type unchecked struct{ *memstore.Blobs }

func (s unchecked) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	var kept *bytes.Buffer
	p.Body, kept = copied(p.Body)
	b, err := s.Blobs.Create(ctx, p)
	if err != nil && !errors.Is(err, store.ErrExists) {
		p.Body = store.NewBody(kept, -1, "")
		_, _ = s.Blobs.Create(ctx, p) // not when ctx is done
	}
	return b, err
}

// goesOn commits a body that is complete, although nobody waits for it.
type goesOn struct{ *memstore.Blobs }

func (s goesOn) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	body := p.Body
	var kept *bytes.Buffer
	p.Body, kept = copied(body)
	b, err := s.Blobs.Create(ctx, p)
	if _, _, complete := body.Sum(); complete && ctx.Err() != nil {
		p.Body = store.NewBody(kept, -1, "")
		_, _ = s.Blobs.Create(context.WithoutCancel(ctx), p) // the caller has its error
	}
	return b, err
}

type unguarded struct{ *memstore.Blobs }

func (s unguarded) Delete(_ context.Context, blobs []store.DeleteBlob) []error {
	errs := make([]error, len(blobs))
	for i, d := range blobs {
		if !s.Remove(d.Name) {
			errs[i] = fmt.Errorf("blob %q: %w", d.Name, store.ErrBlobNotFound)
		}
	}
	return errs
}

type deletesNothing struct{ *memstore.Blobs }

func (s deletesNothing) Delete(ctx context.Context, blobs []store.DeleteBlob) []error {
	errs := s.Blobs.Delete(ctx, blobs)
	for i, err := range errs {
		if errors.Is(err, store.ErrBlobNotFound) {
			errs[i] = nil
		}
	}
	return errs
}

type sealsAny struct{ *memstore.Blobs }

func (s sealsAny) Seal(ctx context.Context, name, intentID string) error {
	if info, ok := s.Get(name); ok {
		intentID = info.IntentID
	}
	return s.Blobs.Seal(ctx, name, intentID)
}

type unpinned struct{ *memstore.Blobs }

func (s unpinned) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	if info, ok := s.Get(p.Name); ok {
		p.ETag = info.ETag
	}
	return s.Blobs.Open(ctx, p)
}

type zeroIsAll struct{ *memstore.Blobs }

func (s zeroIsAll) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	if p.Count == 0 {
		p.Count = -1
	}
	return s.Blobs.Open(ctx, p)
}
