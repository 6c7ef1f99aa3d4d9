package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/blobtx/blobtx"
)

// The application as it is usually written: one call to each store.

func (w *world) blob(name string) *blockblob.Client {
	return w.container.NewBlockBlobClient(w.prefix + name)
}

func (w *world) upload(ctx context.Context, name string, opts *blockblob.UploadOptions) error {
	_, err := w.blob(name).Upload(ctx, streaming.NopCloser(strings.NewReader("the bytes of "+name)), opts)
	return err
}

func (w *world) remove(ctx context.Context, name string) error {
	_, err := w.blob(name).Delete(ctx, nil)
	return err
}

// insert adds a document in a transaction of its own.
func (w *world) insert(ctx context.Context, name, state, content string) error {
	return w.rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
		return insertDocument(ctx, tx, name, state, content)
	})
}

func insertDocument(ctx context.Context, tx *sql.Tx, name, state, content string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO documents (name, state, content) VALUES (?, ?, ?)`, name, state, content)
	return err
}

func createOnly() *blob.AccessConditions {
	any := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}
}

// The application under blobtx.

// stage uploads the bytes of an object; no row shows them yet.
func (w *world) stage(ctx context.Context, key string) (*blobtx.Upload, error) {
	return w.Stage(ctx, key, strings.NewReader("the bytes of "+key), nil)
}

// commit makes the upload an object and adds its document, in one transaction.
// Last runs before the COMMIT.
func (w *world) commit(ctx context.Context, up *blobtx.Upload, name string, last func() error) error {
	_, err := w.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return w.rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := commit(w.rows.Tx(tx)); err != nil {
				return err
			}
			if err := insertDocument(ctx, tx, name, "ready", up.Intent().Key); err != nil {
				return err
			}
			return last()
		})
	}, up)
	return err
}

func nothing() error { return nil }

// sweep goes on until no upload can be committed any more, which takes until
// the deadline of the last one that died.
func (w *world) sweep(ctx context.Context) (swept int, err error) {
	for {
		r, err := w.Sweep(ctx, nil)
		swept += r.Abandoned
		if err != nil {
			return swept, err
		}
		if n, err := w.count(ctx); err != nil || n.pending == 0 {
			return swept, err
		}
		select {
		case <-ctx.Done():
			return swept, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// What was met, in words.

// status is the status of a refusal by the service.
func status(err error) (string, error) {
	var answer *azcore.ResponseError
	switch {
	case errors.As(err, &answer):
		return fmt.Sprintf("HTTP %d", answer.StatusCode), nil
	case err == nil:
		err = errors.New("not refused")
	}
	return "", err
}

// identity is the name of the expected error, if it was met.
func identity(err, want error, name string) (string, error) {
	switch {
	case errors.Is(err, want):
		return name, nil
	case err == nil:
		err = errors.New("not refused")
	}
	return "", fmt.Errorf("in place of %s: %w", name, err)
}

// isUnique reports whether a unique index refused the row.
func isUnique(err error) bool {
	return err != nil && strings.Contains(err.Error(), "UNIQUE constraint failed: documents.name")
}
