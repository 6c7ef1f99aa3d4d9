package main

import (
	"context"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// counts is what both stores hold.
type counts struct {
	rows     int // documents
	pending  int // documents that are not ready, and uploads that may yet be committed
	blobs    int // readable in the container
	orphaned int // blobs that no document names
	dangling int // documents whose blob is not there
}

func (w *world) count(ctx context.Context) (n counts, err error) {
	err = w.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM documents),
		(SELECT count(*) FROM documents WHERE state = 'pending') + (SELECT count(*) FROM blobtx_intents WHERE state = 'uploading')`,
	).Scan(&n.rows, &n.pending)
	if err != nil {
		return n, err
	}
	unnamed := map[string]bool{}
	for name, err := range w.names(ctx, false) {
		if err != nil {
			return n, err
		}
		unnamed[strings.TrimPrefix(name, w.prefix)] = true
	}
	n.blobs = len(unnamed)
	rows, err := w.db.QueryContext(ctx, `SELECT coalesce(o.blob_name, d.content) FROM documents d
		LEFT JOIN blobtx_objects o ON o.object_key = d.content`)
	if err != nil {
		return n, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return n, err
		}
		if !unnamed[name] {
			n.dangling++
		}
		delete(unnamed, name)
	}
	n.orphaned = len(unnamed)
	return n, rows.Err()
}

// names lists what the world has in the container, under the full names. With
// uncommitted, names that have nothing but staged blocks too.
func (w *world) names(ctx context.Context, uncommitted bool) iter.Seq2[string, error] {
	pages := w.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &w.prefix, Include: container.ListBlobsInclude{UncommittedBlobs: uncommitted},
	})
	return func(yield func(string, error) bool) {
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", err)
				return
			}
			for _, item := range page.Segment.BlobItems {
				if !yield(*item.Name, nil) {
					return
				}
			}
		}
	}
}

// uncommitted counts the blocks that were staged and belong to no blob.
func (w *world) uncommitted(ctx context.Context) (n int, err error) {
	for name, err := range w.names(ctx, true) {
		if err != nil {
			return n, err
		}
		list, err := w.container.NewBlockBlobClient(name).GetBlockList(ctx, blockblob.BlockListTypeUncommitted, nil)
		if err != nil {
			return n, err
		}
		n += len(list.UncommittedBlocks)
	}
	return n, nil
}

// size is a blob's length in bytes, -1 when it is not there.
func (w *world) size(ctx context.Context, name string) (int64, error) {
	p, err := w.blob(name).GetProperties(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return *p.ContentLength, nil
}
