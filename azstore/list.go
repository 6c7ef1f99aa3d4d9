package azstore

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/store"
)

// List implements store.BlobStore: one List Blobs for each page of up to 5,000
// names, with metadata and tags, without what is only staged. A page is asked
// for when the page before was consumed. The order is checked, because a merge
// with a listing of the database rests on it.
//
// Errors, each of which ends the listing: store.ErrSetup. See "List Blobs",
// REST reference.
func (s *Store) List(ctx context.Context, p store.ListBlobsParams) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		if err := s.usable(); err != nil {
			yield(store.BlobInfo{}, err)
			return
		}
		prefix := s.prefix + p.Prefix
		o := &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Metadata: true, Tags: true}}
		if prefix != "" {
			o.Prefix = &prefix
		}
		last := ""
		for pager := s.c.NewListBlobsFlatPager(o); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				yield(store.BlobInfo{}, opList.fail(ctx, err))
				return
			}
			if page.Segment == nil {
				continue
			}
			for _, item := range page.Segment.BlobItems {
				info, ok := s.listed(item)
				if !ok {
					continue
				}
				if info.Name <= last {
					yield(store.BlobInfo{}, fmt.Errorf("list blobs: %.60q came after %.60q: the service does not list in byte order", info.Name, last))
					return
				}
				last = info.Name
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) listed(item *container.BlobItem) (store.BlobInfo, bool) {
	if item == nil || item.Name == nil || item.Properties == nil {
		return store.BlobInfo{}, false
	}
	name, ok := strings.CutPrefix(*item.Name, s.prefix)
	if !ok || name == "" {
		return store.BlobInfo{}, false
	}
	info := store.BlobInfo{Blob: store.Blob{
		Name:        name,
		ETag:        quoted(string(deref(item.Properties.ETag))),
		Size:        deref(item.Properties.ContentLength),
		ContentType: deref(item.Properties.ContentType),
	}}
	if item.Properties.CreationTime != nil {
		info.CreatedAt = item.Properties.CreationTime.UTC()
	}
	describe(&info, item.Metadata)
	if item.BlobTags != nil {
		for _, tag := range item.BlobTags.BlobTagSet {
			if tag != nil && deref(tag.Key) == tagState {
				info.Sealed = deref(tag.Value) == stateCommitted
			}
		}
	}
	return info, true
}

// quoted gives a listed ETag the quotes that it has as a header: listings leave
// them out.
func quoted(etag string) string {
	if etag == "" || strings.HasSuffix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}
