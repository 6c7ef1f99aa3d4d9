package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"unicode"

	"github.com/blobtx/blobtx"
)

// save is POST and PUT: the bytes go up first, under a name that no row shows;
// then the object and the document's row are committed in one transaction. When
// it fails, or the client leaves in the middle, it leaves neither.
func (s *service) save(w http.ResponseWriter, r *http.Request, id string, want blobtx.Condition) (document, error) {
	opts, err := s.request(r, want)
	if err != nil {
		return document{}, err
	}
	body := http.MaxBytesReader(w, r.Body, s.maxSize)
	up, err := s.Stage(r.Context(), keyOf(id), body, opts)
	if err != nil {
		return document{}, err // and Stage has cleaned up
	}
	defer up.Release()
	if err = sameRequest(up, opts, body); err == nil {
		var objects []blobtx.Object
		objects, err = s.CommitWith(r.Context(), func(ctx context.Context, commit blobtx.CommitFunc) error {
			return s.rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
				objects, err := commit(s.rows.Tx(tx))
				if err != nil {
					return err
				}
				return documentOf(objects[0]).write(ctx, tx)
			})
		}, up)
		if err == nil {
			return documentOf(objects[0]), nil
		}
	}
	// Not left to the sweeper. It does nothing to what was committed after all,
	// or is a later attempt's by now.
	in := up.Intent()
	if abort := s.Abort(r.Context(), &in); abort != nil {
		s.log.Warn("abort failed, the sweeper will clean up", "error", abort)
	}
	return document{}, err
}

// request reads what the request says besides its bytes.
func (s *service) request(r *http.Request, want blobtx.Condition) (*blobtx.PutOptions, error) {
	title := strings.TrimSpace(r.URL.Query().Get("title"))
	if title == "" || len(title) > 200 || strings.ContainsFunc(title, unicode.IsControl) {
		return nil, &refusal{http.StatusBadRequest, "give the document a title of at most 200 bytes: ?title="}
	}
	if r.ContentLength > s.maxSize { // told beforehand: nothing needs to be sent
		return nil, &http.MaxBytesError{Limit: s.maxSize}
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	opts := &blobtx.PutOptions{
		If: want, ContentType: contentType, Size: r.ContentLength,
		// What makes two requests the same, but for their bytes.
		Metadata: map[string]string{"title": title, "type": contentType},
	}
	// One key is one request to one address. With accounts, put the account's id
	// in front, or one could ask for another's answer.
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		opts.IdempotencyKey = r.Method + " " + r.URL.Path + " " + key
	}
	return opts, nil
}

// sameRequest compares a request with the one that first used its idempotency
// key. The bytes of an unfinished one were compared by Stage already; after a
// finished one nobody has read this body yet.
func sameRequest(up *blobtx.Upload, opts *blobtx.PutOptions, body io.Reader) error {
	if !maps.Equal(up.Intent().Metadata, opts.Metadata) {
		return fmt.Errorf("another title or content type: %w", blobtx.ErrIdempotencyReuse)
	}
	stored, replay := up.Replay()
	if !replay {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return &blobtx.BodyError{Err: err}
	}
	if hex.EncodeToString(sum.Sum(nil)) != stored.Blob.SHA256 {
		return fmt.Errorf("other bytes: %w", blobtx.ErrIdempotencyReuse)
	}
	return nil
}
