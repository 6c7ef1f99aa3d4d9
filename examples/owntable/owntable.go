// Package owntable keeps a row of the application's own beside its file, with
// database/sql, sqlx, gorm and native pgx: one file of this package each, to be
// copied. Row and object become visible in one transaction, a foreign key ties
// them together, and the row's own version column refuses whoever was late.
//
//	go test -v -run Example ./examples/owntable
package owntable

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/blobtx/blobtx"
)

// Schema is the application's table, on SQLite and PostgreSQL. The foreign key
// lets no row name a file that is not there, and no file be deleted under a row;
// UNIQUE is also the index by which a delete looks for such rows. SQLite checks
// foreign keys only on connections with PRAGMA foreign_keys = ON.
const Schema = `CREATE TABLE invoices (
	id      TEXT   NOT NULL PRIMARY KEY,
	cents   BIGINT NOT NULL,
	version BIGINT NOT NULL,
	file    TEXT   NOT NULL UNIQUE REFERENCES blobtx_objects (object_key)
)`

// SchemaMySQL is Schema for MySQL and MariaDB. The types of both ends must be
// equal, and MySQL ignores REFERENCES that stands beside a column.
const SchemaMySQL = `CREATE TABLE invoices (
	id      VARCHAR(100)   NOT NULL PRIMARY KEY,
	cents   BIGINT         NOT NULL,
	version BIGINT         NOT NULL,
	file    VARBINARY(700) NOT NULL UNIQUE,
	FOREIGN KEY (file) REFERENCES blobtx_objects (object_key)
)`

// Invoice is a row. Version is the one that the row was read with, and counts
// its changes; File is the key of its object.
type Invoice struct {
	ID      string
	Cents   int64
	Version int64
	File    string
}

// What happened to a row that no longer has the version it was read with.
var (
	ErrModified = errors.New("the invoice was modified")
	ErrDeleted  = errors.New("the invoice was deleted")
)

// Table is what this package does four times. Every method is one transaction
// over row and object. After an error neither has changed, unless it is
// blobtx.ErrOutcomeUnknown.
type Table interface {
	// Insert adds the row, as version 1, with its file.
	Insert(ctx context.Context, row Invoice, file *blobtx.Upload) error
	// Update changes the row and replaces its file. ErrModified, ErrDeleted.
	Update(ctx context.Context, row Invoice, file *blobtx.Upload) error
	// Delete removes both. ErrModified, ErrDeleted.
	Delete(ctx context.Context, row Invoice) error
}

// Create stores an invoice and its file.
func Create(ctx context.Context, c *blobtx.Coordinator, t Table, row Invoice, body io.Reader) error {
	up, err := c.Stage(ctx, row.File, body, nil) // create-only
	if err != nil {
		return err
	}
	return finish(ctx, c, up, t.Insert(ctx, row, up))
}

// Change stores what became of an invoice and its file. The row's version guards
// both, so the object's may be any.
func Change(ctx context.Context, c *blobtx.Coordinator, t Table, row Invoice, body io.Reader) error {
	up, err := c.Stage(ctx, row.File, body, &blobtx.PutOptions{If: blobtx.IfExists()})
	if err != nil {
		return err
	}
	return finish(ctx, c, up, t.Update(ctx, row, up))
}

// finish gives up an upload that was not committed. A sweeper would do the same
// later, and does when this fails.
func finish(ctx context.Context, c *blobtx.Coordinator, up *blobtx.Upload, err error) error {
	up.Release()
	if err == nil {
		return nil
	}
	in := up.Intent()
	return errors.Join(err, c.Abort(ctx, &in))
}

// modified is ErrModified with the version that the row has now.
func modified(version int64) error {
	return fmt.Errorf("%w: it is at version %d", ErrModified, version)
}
