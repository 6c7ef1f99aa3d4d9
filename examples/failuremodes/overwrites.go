package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/blobtx/blobtx"
)

// bodies are on both sides of what UploadBuffer and UploadFile send in one
// request.
var bodies = []struct {
	label string
	size  int64
}{
	{"small", 1000},
	{"above-256MiB", blockblob.MaxUploadBlobBytes + 1},
}

const mustCreate = "create-only"

// wanted reports whether the user has time for an upload.
func (w *world) wanted(size int64, options string) bool {
	return size <= blockblob.MaxUploadBlobBytes || w.sizes == "all" || w.sizes == options
}

// call is one way to upload a body of zeros. With given, its options are not
// nil; the condition is one of them.
type call struct {
	name string
	send func(ctx context.Context, b *blockblob.Client, size int64, given bool, condition *blob.AccessConditions) error
}

var contentType = "text/plain" // an option that has nothing to do with replacing

func (w *world) calls() []call {
	headers := &blob.HTTPHeaders{BlobContentType: &contentType}
	return []call{
		{"Upload", func(ctx context.Context, b *blockblob.Client, size int64, given bool, condition *blob.AccessConditions) error {
			var o *blockblob.UploadOptions
			if given {
				o = &blockblob.UploadOptions{HTTPHeaders: headers, AccessConditions: condition}
			}
			_, err := b.Upload(ctx, streaming.NopCloser(zeros(size)), o)
			return err
		}},
		{"UploadStream", func(ctx context.Context, b *blockblob.Client, size int64, given bool, condition *blob.AccessConditions) error {
			var o *blockblob.UploadStreamOptions
			if given {
				o = &blockblob.UploadStreamOptions{HTTPHeaders: headers, AccessConditions: condition}
			}
			_, err := b.UploadStream(ctx, zeros(size), o)
			return err
		}},
		{"UploadBuffer", func(ctx context.Context, b *blockblob.Client, size int64, given bool, condition *blob.AccessConditions) error {
			var o *blockblob.UploadBufferOptions
			if given {
				o = &blockblob.UploadBufferOptions{HTTPHeaders: headers, AccessConditions: condition}
			}
			_, err := b.UploadBuffer(ctx, make([]byte, size), o)
			return err
		}},
		{"UploadFile", func(ctx context.Context, b *blockblob.Client, size int64, given bool, condition *blob.AccessConditions) error {
			var o *blockblob.UploadFileOptions
			if given {
				o = &blockblob.UploadFileOptions{HTTPHeaders: headers, AccessConditions: condition}
			}
			f, err := w.sparseFile(size)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = b.UploadFile(ctx, f, o)
			return err
		}},
	}
}

// overwrite is I.
func overwrite(ctx context.Context, w *world) error {
	for _, c := range w.calls() {
		for _, body := range bodies {
			for _, o := range []struct {
				label     string
				given     bool
				condition *blob.AccessConditions
			}{
				{"without-options", false, nil},
				{"with-options", true, nil},
				{mustCreate, true, createOnly()},
			} {
				if !w.wanted(body.size, o.label) {
					continue
				}
				what := c.name + " " + body.label + " " + o.label
				result, err := w.replaced(ctx, what, body.size, func(b *blockblob.Client) error {
					return c.send(ctx, b, body.size, o.given, o.condition)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				w.say("%s %s", what, result)
			}
		}
	}
	return nil
}

// replaced uploads over a blob that is there, and says what became of it.
func (w *world) replaced(ctx context.Context, name string, size int64, send func(*blockblob.Client) error) (result string, err error) {
	if err := w.upload(ctx, name, nil); err != nil {
		return "", err
	}
	before, err := w.size(ctx, name)
	if err != nil {
		return "", err
	}
	if failed := send(w.blob(name)); failed == nil {
		result = "overwrote"
	} else if result, err = status(failed); err != nil {
		return "", err
	}
	after, err := w.size(ctx, name)
	switch {
	case err != nil:
		return "", err
	case result == "overwrote" && after != size, result != "overwrote" && after != before:
		return "", fmt.Errorf("%s, and the blob of %d bytes has %d", result, before, after)
	}
	return result, w.remove(ctx, name) // the service need not keep them all
}

// oneName makes the object's key its blob's name, so that one can be taken.
// With names of its own choice blobtx does not meet this.
var oneName = &blobtx.Options{BlobName: func(key, _ string) string { return key }}

func overwriteBlobtx(ctx context.Context, w *world) error {
	for _, body := range bodies {
		if !w.wanted(body.size, mustCreate) {
			continue
		}
		if err := w.upload(ctx, body.label, nil); err != nil {
			return err
		}
		before, err := w.size(ctx, body.label)
		if err != nil {
			return err
		}
		_, err = w.Put(ctx, body.label, zeros(body.size), nil)
		result, err := identity(err, blobtx.ErrForeignBlob, "ErrForeignBlob")
		if err != nil {
			return err
		}
		after, err := w.size(ctx, body.label)
		switch {
		case err != nil:
			return err
		case after != before:
			return fmt.Errorf("%s, and the blob of %d bytes has %d", result, before, after)
		}
		w.say("%s %s", body.label, result)
	}
	return nil
}

// zeros is a body that takes no memory.
func zeros(size int64) *io.SectionReader { return io.NewSectionReader(zero{}, 0, size) }

type zero struct{}

func (zero) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// sparseFile is a file that takes no space.
func (w *world) sparseFile(size int64) (*os.File, error) {
	f, err := os.Create(filepath.Join(w.folder, "body"))
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(size)
}
