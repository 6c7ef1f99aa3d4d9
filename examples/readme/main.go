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
	if err := save(ctx, c, rows, "invoice/7", invoice); err != nil {
		return err
	}
	return use(ctx, c, logo, out)
}

// README: begin
func save(ctx context.Context, c *blobtx.Coordinator, rows *sqlstore.Store, key string, body io.Reader) error {
	up, err := c.Stage(ctx, key, body, nil) // bytes that no row shows yet
	if err != nil {
		return err
	}
	defer up.Release()
	_, err = c.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error { // your transaction
			if _, err := commit(rows.Tx(tx)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO invoices (file) VALUES ($1)`, key)
			return err
		})
	}, up)
	return err
}

// README: end

//nolint:errcheck,ineffassign,staticcheck // what is done with an error is left out here
func use(ctx context.Context, c *blobtx.Coordinator, logo io.Reader, out io.Writer) error {
	var err error
	// README: begin
	go c.RunSweeper(ctx, nil)                  // in every process
	_, err = c.Put(ctx, "logo.png", logo, nil) // creates, never replaces
	file, err := c.Open(ctx, "invoice/7", nil) // one version, an io.ReadSeekCloser: http.ServeContent takes it
	// README: end
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
}

func main() {}
