package azstore

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/blobtx/blobtx/store"
)

// Stat implements store.BlobStore: one Get Blob Properties and, for
// StatParams.Seal, one Get Blob Tags.
//
// Errors: store.ErrBlobNotFound, store.ErrInvalid, store.ErrSetup.
func (s *Store) Stat(ctx context.Context, p store.StatParams) (store.BlobInfo, error) {
	full, err := s.wireNameOfAny(p.Name)
	if err != nil {
		return store.BlobInfo{}, err
	}
	bb := s.c.NewBlobClient(full)
	head, err := bb.GetProperties(ctx, nil)
	switch {
	case isAbsent(err):
		return store.BlobInfo{}, opHead.as(store.ErrBlobNotFound, err)
	case err != nil:
		return store.BlobInfo{}, opHead.fail(ctx, err)
	}
	info := store.BlobInfo{Blob: store.Blob{
		Name:        p.Name,
		ETag:        string(deref(head.ETag)),
		Size:        deref(head.ContentLength),
		ContentType: deref(head.ContentType),
	}}
	if head.CreationTime != nil {
		info.CreatedAt = head.CreationTime.UTC()
	}
	describe(&info, head.Metadata)
	if !p.Seal {
		return info, nil
	}
	got, err := bb.GetTags(ctx, nil)
	switch {
	case isAbsent(err):
		return store.BlobInfo{}, opGetTags.as(store.ErrBlobNotFound, err)
	case err != nil:
		return store.BlobInfo{}, opGetTags.fail(ctx, err)
	}
	for _, tag := range got.BlobTagSet {
		if tag != nil && deref(tag.Key) == tagState {
			info.Sealed = deref(tag.Value) == stateCommitted
		}
	}
	return info, nil
}

// Open implements store.BlobStore: one Get Blob with If-Match, or none when
// nothing is asked for. A blob that is absent fails If-Match like one that is
// another, so a 412 costs one more request, which tells them apart. The reader
// gives what the connection gives: it does not resume.
//
// Errors: store.ErrBlobNotFound, store.ErrConflict, store.ErrInvalid,
// store.ErrSetup. See "Get Blob", REST reference.
func (s *Store) Open(ctx context.Context, p store.OpenParams) (io.ReadCloser, error) {
	full, err := s.wireNameOfAny(p.Name)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, full, p)
}

func (s *Store) open(ctx context.Context, full string, p store.OpenParams) (io.ReadCloser, error) {
	switch {
	case p.ETag == "":
		return nil, fmt.Errorf("open %.60q without an ETag: %w", p.Name, store.ErrInvalid)
	case p.Offset < 0:
		return nil, fmt.Errorf("open %.60q at offset %d: %w", p.Name, p.Offset, store.ErrInvalid)
	case p.Count == 0:
		return http.NoBody, nil
	}
	etag := azcore.ETag(p.ETag)
	bb := s.c.NewBlobClient(full)
	resp, err := bb.DownloadStream(ctx, &blob.DownloadStreamOptions{
		// A count of 0 is to the end.
		Range:            blob.HTTPRange{Offset: p.Offset, Count: max(p.Count, 0)},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}},
	})
	switch {
	case err == nil:
		return &reader{ctx: ctx, body: resp.Body}, nil
	case hasStatus(err, http.StatusRequestedRangeNotSatisfiable):
		return http.NoBody, nil
	case isAbsent(err):
		return nil, opGet.as(store.ErrBlobNotFound, err)
	case conditionFailed(err):
		switch _, look := bb.GetProperties(ctx, nil); {
		case look == nil:
			return nil, opGet.as(store.ErrConflict, err)
		case isAbsent(look):
			return nil, opGet.as(store.ErrBlobNotFound, err)
		default:
			return nil, opHead.fail(ctx, look)
		}
	}
	return nil, opGet.fail(ctx, err)
}

// reader maps the errors of a response body.
type reader struct {
	ctx  context.Context
	body io.ReadCloser
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		err = opGet.fail(r.ctx, err)
	}
	return n, err
}

func (r *reader) Close() error { return r.body.Close() }

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
