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
	"github.com/blobtx/blobtx/store"
)

func invoices(ctx context.Context, db *sql.DB, client *container.Client, logo, invoice io.Reader, out io.Writer) error {
	rows, err := sqlstore.New(db, sqlstore.SQLite, nil) // your *sql.DB; run rows.Migrate once
	if err != nil {
		return err
	}
	blobs, err := azstore.New(client, nil) // your *container.Client
	if err != nil {
		return err
	}
	// README: begin
	c, err := blobtx.New(rows, blobs, nil)
	if err != nil {
		return err
	}
	go c.RunSweeper(ctx, nil) // in every process; there is nothing else to run

	if _, err := c.Put(ctx, "logo.png", logo, nil); err != nil { // creates, never replaces
		return err
	}
	up, err := c.Stage(ctx, "invoice/7.pdf", invoice, nil) // bytes that no row shows yet
	if err != nil {
		return err
	}
	defer up.Release()
	_, err = c.CommitWith(ctx, func(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
		return rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error { // your transaction
			if _, err := commit(rows.Tx(tx)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO invoices (id, file) VALUES (7, 'invoice/7.pdf')`)
			return err
		})
	}, up)
	if err != nil {
		return err
	}
	file, err := c.Open(ctx, "invoice/7.pdf", nil) // io.ReadSeekCloser: http.ServeContent takes it
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
	// README: end
}

func main() {}
