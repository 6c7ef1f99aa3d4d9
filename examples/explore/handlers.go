package main

import (
	"context"
	"strings"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/store"
)

const (
	name      = "report.pdf"
	content   = "the bytes of the report"
	insertRow = `INSERT INTO files (name, blob) VALUES (?, ?)`

	upload = "uploads/1" // a name that no other upload has
)

func create(ctx context.Context, p *blobtxtest.Process) error {
	_, err := p.Blobs.Create(ctx, store.CreateParams{Name: upload, IntentID: upload, Body: store.NewBody(strings.NewReader(content), -1, "")})
	return err
}

func uploadThenInsert(ctx context.Context, p *blobtxtest.Process) error {
	if err := create(ctx, p); err != nil {
		return err
	}
	_, err := p.DB.ExecContext(ctx, insertRow, name, upload)
	return err
}

func catchAndDelete(ctx context.Context, p *blobtxtest.Process) error {
	err := uploadThenInsert(ctx, p)
	if err != nil {
		p.Blobs.Delete(context.WithoutCancel(ctx), []store.DeleteBlob{{Name: upload, IntentID: upload}})
	}
	return err
}

// removeOrphans deletes the blobs that no row names.
func removeOrphans(ctx context.Context, p *blobtxtest.Process) error {
	var doomed []store.DeleteBlob
	for info, err := range p.Blobs.List(ctx, store.ListBlobsParams{}) {
		if err != nil {
			return err
		}
		var rows int
		if err := p.DB.QueryRowContext(ctx, `SELECT count(*) FROM files WHERE blob = ?`, info.Name).Scan(&rows); err != nil {
			return err
		}
		if rows == 0 {
			doomed = append(doomed, store.DeleteBlob{Name: info.Name, IntentID: info.IntentID})
		}
	}
	if len(doomed) > 0 {
		p.Blobs.Delete(ctx, doomed)
	}
	return nil
}

func withBlobtx(ctx context.Context, p *blobtxtest.Process) error {
	up, err := p.Stage(ctx, name, strings.NewReader(content), nil)
	if err != nil {
		p.Refused(name, err)
		return err
	}
	defer up.Release()
	objects, err := p.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		tx, err := p.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // nothing after a commit
		if _, err := commit(p.SQL.Tx(tx)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertRow, name, up.Intent().BlobName); err != nil {
			return err
		}
		return tx.Commit()
	}, up)
	if err != nil {
		p.Refused(name, err)
		return err
	}
	p.Acked(name, objects[0])
	return nil
}

func sweep(ctx context.Context, p *blobtxtest.Process) error {
	_, err := p.Sweep(ctx, nil)
	return err
}
