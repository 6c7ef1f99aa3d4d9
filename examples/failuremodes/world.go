package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store/faultstore"
)

// world is a database and a part of the container that nobody else uses.
type world struct {
	*blobtx.Coordinator
	label string // begins each line
	out   io.Writer

	folder    string
	db        *sql.DB
	rows      *sqlstore.Store
	container *container.Client
	prefix    string
	blobs     *azstore.Store
	sizes     string // options.large

	loseReply atomic.Bool // the next COMMIT is applied, and its reply is lost
}

// schema is the application's own table. Content is the name of a blob, under
// blobtx the key of an object.
const schema = `
CREATE TABLE documents (name TEXT NOT NULL, state TEXT NOT NULL, content TEXT NOT NULL);
CREATE UNIQUE INDEX documents_name ON documents (name);`

func (w *world) open(ctx context.Context, opts *blobtx.Options) error {
	file := filepath.Join(w.folder, strings.ReplaceAll(w.label, " ", "-")+".db")
	connector, err := sqlite.NewConnector("file:" + file +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return err
	}
	w.db = sql.OpenDB(faultstore.Connector(connector, faultstore.InjectorFunc(w.step)))
	w.db.SetMaxOpenConns(1) // SQLite has one writer
	if w.rows, err = sqlstore.New(w.db, sqlstore.SQLite, nil); err != nil {
		return err
	}
	if err := w.rows.Migrate(ctx); err != nil {
		return err
	}
	if _, err := w.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create the documents table: %w", err)
	}
	if w.blobs, err = azstore.New(w.container, &azstore.Options{Prefix: w.prefix}); err != nil {
		return err
	}
	w.Coordinator, err = blobtx.New(w.rows, w.blobs, opts)
	return err
}

// step is asked about every statement of the database.
func (w *world) step(_ context.Context, op faultstore.Op) faultstore.Fault {
	if op.Name == "COMMIT" && w.loseReply.CompareAndSwap(true, false) {
		return faultstore.Fault{Kind: faultstore.LoseReply}
	}
	return faultstore.Fault{}
}

// close deletes what the world has in the container, staged blocks included:
// an empty block list drops them, which deleting a blob does not do everywhere.
func (w *world) close(ctx context.Context) error {
	var errs []error
	if w.db != nil {
		errs = append(errs, w.db.Close())
	}
	for name, err := range w.names(ctx, true) {
		if err == nil {
			_, err = w.container.NewBlockBlobClient(name).CommitBlockList(ctx, []string{}, nil)
		}
		if err == nil {
			_, err = w.container.NewBlobClient(name).Delete(ctx, nil)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, w.label+" "+format+"\n", args...)
}
