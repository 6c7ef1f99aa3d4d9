package faultstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/blobtx/blobtx/store"
)

// Blobs returns b with every call a step of in. A listing is one step, before
// its first element. Caps is none.
func Blobs(b store.BlobStore, in Injector) store.BlobStore { return &blobs{b, in} }

type blobs struct {
	under store.BlobStore
	in    Injector
}

// Create: the body of a late request is read to its end first, since that is
// what was sent. A failure of the body is the caller's own, never lost.
func (b *blobs) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	op := Op{Store: "blobs", Name: "create blob", Subject: p.Name, Write: true, Parts: true}
	f, waited, unheard := begin(ctx, b.in, op)
	switch f.Kind {
	case Proceed:
		blob, err := b.under.Create(waited, p)
		if f.Told != nil {
			f.Told(blob, err)
		}
		return blob, err
	case Die:
		return store.Blob{}, f.tell(nil, ErrDead)
	case LoseReply:
		if _, err := b.under.Create(unheard, p); bodyFailed(err) {
			return store.Blob{}, f.tell(nil, err)
		}
	case Late:
		sent, err := io.ReadAll(p.Body)
		if err != nil {
			return store.Blob{}, f.tell(nil, err)
		}
		f.late(Message{Op: op, Drop: func() {}, Apply: func() {
			p := p
			p.Body = store.NewBody(bytes.NewReader(sent), int64(len(sent)), "")
			_, _ = b.under.Create(unheard, p)
		}})
	case Midway:
		if _, err := p.Body.Read(make([]byte, 1)); bodyFailed(err) {
			return store.Blob{}, f.tell(nil, err)
		}
	}
	return store.Blob{}, f.tell(nil, ErrLost)
}

func bodyFailed(err error) bool {
	var body *store.BodyError
	return errors.As(err, &body) || errors.Is(err, store.ErrBodyMismatch)
}

func (b *blobs) Seal(ctx context.Context, name, intentID string) error {
	_, err := call(ctx, b.in, Op{Store: "blobs", Name: "seal", Subject: name, Write: true}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.under.Seal(ctx, name, intentID)
	})
	return err
}

// Delete is one step. Midway, the first half of the batch is deleted and
// nothing is known of any.
func (b *blobs) Delete(ctx context.Context, doomed []store.DeleteBlob) []error {
	op := Op{
		Store: "blobs", Name: "delete blobs", Subject: each(doomed, func(d *store.DeleteBlob) string { return d.Name }),
		Write: true, Parts: len(doomed) > 1,
	}
	f, waited, unheard := begin(ctx, b.in, op)
	lost := ErrLost
	switch f.Kind {
	case Proceed:
		errs := b.under.Delete(waited, doomed)
		if f.Told != nil {
			f.Told(errs, errors.Join(errs...))
		}
		return errs
	case Die:
		lost = ErrDead
	case LoseReply:
		b.under.Delete(unheard, doomed)
	case Midway:
		b.under.Delete(unheard, doomed[:len(doomed)/2])
	case Late:
		f.late(Message{Op: op, Drop: func() {}, Apply: func() { b.under.Delete(unheard, doomed) }})
	}
	_ = f.tell(nil, lost)
	errs := make([]error, len(doomed))
	for i := range errs {
		errs[i] = lost
	}
	return errs
}

func (b *blobs) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	return call(ctx, b.in, Op{Store: "blobs", Name: "stat", Subject: p.Name}, func(ctx context.Context) (store.BlobInfo, error) {
		return b.under.Stat(ctx, p)
	})
}

func (b *blobs) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	f, waited, _ := begin(ctx, b.in, Op{Store: "blobs", Name: "open blob", Subject: p.Name, Parts: true})
	switch f.Kind {
	case Proceed, Midway:
		body, err := b.under.Open(waited, p)
		if f.Told != nil {
			f.Told(nil, err)
		}
		if err == nil && f.Kind == Midway {
			body = &halfBody{ReadCloser: body}
		}
		return body, err
	case Die:
		return nil, f.tell(nil, ErrDead)
	}
	return nil, f.tell(nil, ErrLost)
}

// halfBody gives one byte and then breaks.
type halfBody struct {
	io.ReadCloser
	given bool
}

func (h *halfBody) Read(p []byte) (int, error) {
	if h.given {
		return 0, ErrLost
	}
	n, err := h.ReadCloser.Read(p[:min(1, len(p))])
	h.given = n > 0
	return n, err
}

func (b *blobs) List(ctx context.Context, p store.ListBlobsParams) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		listing, err := call(ctx, b.in, Op{Store: "blobs", Name: "list blobs", Subject: p.Prefix}, func(ctx context.Context) (iter.Seq2[store.BlobInfo, error], error) {
			return b.under.List(ctx, p), nil
		})
		if err != nil {
			yield(store.BlobInfo{}, err)
			return
		}
		listing(yield)
	}
}

func (b *blobs) Probe(ctx context.Context) error {
	_, err := call(ctx, b.in, Op{Store: "blobs", Name: "probe"}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.under.Probe(ctx)
	})
	return err
}

func (b *blobs) Caps() store.Caps { return b.under.Caps() }
