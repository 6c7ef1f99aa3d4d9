package azstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/blobtx/blobtx/store"
)

// firstBuffer is what a body of unknown length gets before it has shown that
// it needs more.
const firstBuffer = 16 * kib

// upload is one Create.
type upload struct {
	s    *Store
	p    store.CreateParams
	bb   *blockblob.Client
	plan blockPlan
	src  source
}

// Create implements store.BlobStore. A body that fits into one block is one
// Put Blob; a larger one is a Put Block for each block and one Put Block List.
// The request that makes bytes readable is sent after the body has ended as
// declared and while ctx is not done; no request is sent after that. It carries
// If-None-Match: *, the tags and the metadata on both paths.
//
// A refused create-only Put Blob costs one more request, which asks whether
// anything is readable there: where nothing is, staged blocks were in the way,
// and the bytes go up as a block of their own.
//
// Errors: store.ErrExists; store.ErrInvalid; store.ErrSetup; p.Body's own, as
// they are. See "Put Blob", "Put Block" and "Put Block List", REST reference.
func (s *Store) Create(ctx context.Context, p store.CreateParams) (store.Blob, error) {
	full, err := s.wireName(p.Name)
	if err != nil {
		return store.Blob{}, err
	}
	return s.create(ctx, full, p)
}

func (s *Store) create(ctx context.Context, full string, p store.CreateParams) (store.Blob, error) {
	u, err := s.newUpload(full, p)
	if err != nil {
		return store.Blob{}, err
	}
	return u.send(ctx)
}

func (u *upload) send(ctx context.Context) (store.Blob, error) {
	head, err := u.readHead(ctx)
	if err != nil {
		u.s.release(head)
		return store.Blob{}, u.readError(ctx, err)
	}
	if !u.src.done() {
		return u.stage(ctx, head)
	}
	defer u.s.release(head)
	return u.putBlob(ctx, head)
}

func (s *Store) newUpload(full string, p store.CreateParams) (*upload, error) {
	if err := checkIntent(p.IntentID); err != nil {
		return nil, err
	}
	if err := store.ValidateContentType(p.ContentType); err != nil {
		return nil, err
	}
	if p.Body == nil {
		return nil, fmt.Errorf("create %.60q without a body: %w", p.Name, store.ErrInvalid)
	}
	if p.ContentType == "" {
		p.ContentType = defaultContentType
	}
	plan, err := planBlocks(s.blockSize, p.Body.Size())
	if err != nil {
		return nil, err
	}
	return &upload{s: s, p: p, bb: s.c.NewBlockBlobClient(full), plan: plan, src: source{body: p.Body}}, nil
}

// readHead reads the first block, or the whole body if it is no longer, into a
// buffer no larger than need be. The source is done if that was all.
func (u *upload) readHead(ctx context.Context) ([]byte, error) {
	limit := u.plan.size(0)
	size := u.p.Body.Size()
	if size < 0 {
		size = firstBuffer
	}
	// A declared size may be a lie: memory follows what is read.
	buf := u.s.buffer(min(size, limit, u.s.blockSize))
	n := 0
	for {
		k, err := u.src.fill(ctx, buf[n:])
		n += k
		if err == nil {
			err = u.src.look(ctx)
		}
		if err != nil || u.src.done() || int64(n) == limit {
			return buf[:n], err
		}
		larger := u.s.buffer(min(4*int64(len(buf)), limit))
		copy(larger, buf[:n])
		u.s.release(buf)
		buf = larger
	}
}

// readError is Create's error after a read: the body's own as it is, or the
// end of ctx.
func (u *upload) readError(ctx context.Context, err error) error {
	if errors.Is(err, errStopped) {
		return opPutBlob.ended(ctx)
	}
	return err
}

// putBlob sends the whole body in one request.
func (u *upload) putBlob(ctx context.Context, data []byte) (store.Blob, error) {
	if ctx.Err() != nil {
		return store.Blob{}, opPutBlob.ended(ctx)
	}
	facts := u.facts()
	body := &blockBody{data: data}
	resp, err := u.bb.Upload(ctx, body, &blockblob.UploadOptions{
		Tags:             tags(statePending, u.p.IntentID),
		Metadata:         metadataOf(u.p, facts.SHA256),
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
		AccessConditions: createOnly(),
	})
	body.detach()
	switch {
	case err == nil:
		return facts.with(resp.ETag), nil
	case !occupied(err):
		return store.Blob{}, opPutBlob.fail(ctx, err)
	}
	// Blocks that an earlier try staged are nothing that can be read, but they
	// are in the way of a Put Blob on some servers. Not so for a block list.
	_, look := u.bb.GetProperties(ctx, nil)
	switch {
	case look == nil:
		return store.Blob{}, opPutBlob.as(store.ErrExists, err)
	case !isAbsent(look):
		return store.Blob{}, opHead.fail(ctx, look) // no claim without having looked
	}
	return u.putOneBlock(ctx, data)
}

// putOneBlock sends the whole body as one block and its block list.
func (u *upload) putOneBlock(ctx context.Context, data []byte) (store.Blob, error) {
	var ids []string
	if len(data) > 0 {
		ids = []string{blockID(0, data)}
		body := &blockBody{data: data}
		_, err := u.bb.StageBlock(ctx, ids[0], body, nil)
		body.detach()
		if err != nil {
			return store.Blob{}, u.blockError(ctx, err)
		}
	}
	return u.putList(ctx, ids)
}

// putList makes the staged blocks readable, all at once.
func (u *upload) putList(ctx context.Context, ids []string) (store.Blob, error) {
	if ctx.Err() != nil {
		return store.Blob{}, opPutList.ended(ctx)
	}
	facts := u.facts()
	resp, err := u.bb.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
		Tags:             tags(statePending, u.p.IntentID),
		Metadata:         metadataOf(u.p, facts.SHA256),
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
		AccessConditions: createOnly(),
	})
	switch {
	case err == nil:
		return facts.with(resp.ETag), nil
	case occupied(err):
		return store.Blob{}, opPutList.as(store.ErrExists, err)
	}
	return store.Blob{}, opPutList.fail(ctx, err)
}

func (u *upload) blockError(ctx context.Context, err error) error {
	if occupied(err) {
		return opPutBlock.as(store.ErrExists, err)
	}
	return opPutBlock.fail(ctx, err)
}

type facts store.Blob

// facts is what is known once the body has ended.
func (u *upload) facts() facts {
	size, sum, _ := u.p.Body.Sum()
	return facts{Name: u.p.Name, Size: size, SHA256: sum, ContentType: u.p.ContentType}
}

func (f facts) with(etag *azcore.ETag) store.Blob {
	if etag != nil {
		f.ETag = string(*etag)
	}
	return store.Blob(f)
}

func createOnly() *blob.AccessConditions {
	any := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}
}
