// Readme holds the README's code, compiled and run by its test.
package main

import (
	"context"
	"database/sql"
	"io"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/sqlstore"
)

func invoices(ctx context.Context, db *sql.DB, client *container.Client, logo, invoice io.Reader, out io.Writer) error {
	rows, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		return err
	}
	blobs, err := azstore.New(client, nil)
	if err != nil {
		return err
	}
	c, err := blobtx.New(rows, blobs, nil)
	if err != nil {
		return err
	}
	go func() { _ = c.RunSweeper(ctx, nil) }()
	if err := save(ctx, c, rows, logo, invoice); err != nil {
		return err
	}
	return load(ctx, c, out)
}

// README: begin
func save(ctx context.Context, c *blobtx.Coordinator, rows *sqlstore.Store, logo, invoice io.Reader) error {
	if _, err := c.Put(ctx, "logo.png", logo, nil); err != nil { // creates, never replaces
		return err
	}
	up, err := c.Stage(ctx, "invoice/7.pdf", invoice, nil) // bytes that no row shows yet
	if err != nil {
		return err
	}
	defer up.Release()
	_, err = c.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error { // your transaction
			if _, err := commit(rows.Tx(tx)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO invoices (id, file) VALUES (7, 'invoice/7.pdf')`)
			return err
		})
	}, up)
	return err
}

func load(ctx context.Context, c *blobtx.Coordinator, to io.Writer) error {
	file, err := c.Open(ctx, "invoice/7.pdf", nil) // one version; http.ServeContent takes it
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}

// README: end

func main() {}
