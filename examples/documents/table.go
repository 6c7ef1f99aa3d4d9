package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/blobtx/blobtx"
)

// document is a row of the service's own table, and what clients see of one. It
// commits with the object, in one transaction, so the two never differ.
type document struct {
	ID          string         `json:"id"`
	Title       string         `json:"title"`
	ContentType string         `json:"contentType"`
	Size        int64          `json:"size"`    // bytes
	Version     blobtx.Version `json:"version"` // text: it exceeds what JavaScript's numbers hold
	UpdatedAt   time.Time      `json:"updatedAt"`
}

// One text for both databases: SQLite takes $1, PostgreSQL ON CONFLICT.
const (
	createTable = `CREATE TABLE IF NOT EXISTS documents (
	id           VARCHAR(64) PRIMARY KEY,
	title        TEXT   NOT NULL,
	file_key     TEXT   NOT NULL UNIQUE,
	content_type TEXT   NOT NULL,
	size         BIGINT NOT NULL,
	version      BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL
)`
	writeRow = `INSERT INTO documents (id, title, file_key, content_type, size, version, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, content_type = excluded.content_type,
	size = excluded.size, version = excluded.version, updated_at = excluded.updated_at`
	deleteRow = `DELETE FROM documents WHERE id = $1`
	listRows  = `SELECT id, title, content_type, size, version, updated_at FROM documents
WHERE $1 = '' OR id < $1 ORDER BY id DESC LIMIT $2`
)

// keyOf is the object's key of a document's file, and idOf its inverse.
func keyOf(id string) string { return "documents/" + id }
func idOf(key string) string { return key[len("documents/"):] }

// documentOf is the document as the object tells it: for a request that is
// repeated, as it was then, whatever has become of the row.
func documentOf(o blobtx.Object) document {
	return document{
		ID: idOf(o.Key), Title: o.Metadata["title"], ContentType: o.Blob.ContentType,
		Size: o.Blob.Size, Version: o.Version, UpdatedAt: o.UpdatedAt,
	}
}

// write inserts or replaces the row. Which of the two it may be, the object's
// condition has decided in the same transaction.
func (d document) write(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, writeRow, d.ID, d.Title, keyOf(d.ID), d.ContentType, d.Size, int64(d.Version), d.UpdatedAt.UnixMicro())
	return err
}

// listDocuments returns the newest documents first, those after one id.
func (s *service) listDocuments(ctx context.Context, after string, limit int) ([]document, error) {
	rows, err := s.db.QueryContext(ctx, listRows, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []document{} // in JSON [], not null
	for rows.Next() {
		var d document
		var micros int64
		if err := rows.Scan(&d.ID, &d.Title, &d.ContentType, &d.Size, &d.Version, &micros); err != nil {
			return nil, err
		}
		d.UpdatedAt = time.UnixMicro(micros).UTC()
		list = append(list, d)
	}
	return list, rows.Err()
}
