// Quickstart stores a file beside a row of a business table, replaces it, plays
// two crashes, sweeps, and shows after each step what rows and blobs exist.
//
//	go run ./examples/quickstart FILE
//	go run ./examples/quickstart -db postgres://… -azure CONNECTION-STRING-OR-CONTAINER-URL FILE
//
// Without flags nothing needs to run: the database is a SQLite file in a
// temporary folder, the container an in-process server behind the real SDK. The
// last line is computed from both stores.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

func main() {
	db := flag.String("db", "", "postgres:// URL; empty: a SQLite file in a temporary folder")
	azure := flag.String("azure", "", "storage connection string or container URL with a SAS; empty: an in-process server")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: quickstart [-db URL] [-azure URL-OR-CONNECTION-STRING] FILE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, flag.Arg(0), *db, *azure); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, path, db, azure string) error {
	s, err := openStores(ctx, db, azure)
	if err != nil {
		return err
	}
	defer s.close()
	// A service sets none of these. Here deadlines are short, so that what a
	// crash leaves behind is due while you watch, and seals are left to the
	// sweeper, so that there is something to see after a commit.
	c, err := blobtx.New(s.rows, s.blobs, &blobtx.Options{
		IntentTTL: time.Second, Quarantine: time.Second, Retention: time.Second, ReadGrace: -1, SealLater: true,
	})
	if err != nil {
		return err
	}
	if err := c.Check(ctx); err != nil {
		return err
	}
	d := &demo{Coordinator: c, stores: s, out: out, path: path, key: filepath.Base(path) + "-" + rand.Text()[:6]}
	for _, step := range []func(context.Context) error{
		d.storeBesideRow, d.readBack, d.replace, d.crashAfterUpload, d.crashAfterCommit, d.sweep,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	dangling, orphans, err := s.compare(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "dangling=%d orphans=%d\n", dangling, orphans)
	if dangling+orphans > 0 {
		return errors.New("the two stores do not agree")
	}
	return nil
}

type demo struct {
	*blobtx.Coordinator
	*stores
	out  io.Writer
	path string
	key  string
	v1   blobtx.Version
}

// upload sends the file; no row shows it until the upload is committed.
func (d *demo) upload(ctx context.Context, key string, opts *blobtx.PutOptions) (*blobtx.Upload, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return d.Stage(ctx, key, f, opts)
}

// inTx commits an upload and a row of the application's own in one transaction.
func (d *demo) inTx(up *blobtx.Upload, title string) func(context.Context, blobtx.CommitFunc) error {
	return func(ctx context.Context, commit blobtx.CommitFunc) error {
		return d.rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := commit(d.rows.Tx(tx)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, d.insertDocument, rand.Text(), title, up.Intent().Key)
			return err
		})
	}
}

func (d *demo) storeBesideRow(ctx context.Context) error {
	up, err := d.upload(ctx, d.key, nil)
	if err != nil {
		return err
	}
	defer up.Release()
	objects, err := d.CommitWith(ctx, d.inTx(up, "the document"), up)
	if err != nil {
		return err
	}
	d.v1 = objects[0].Version
	return d.show(ctx, d.out, "1. stored %s (%d bytes) and its document row in one transaction (to be seen here, seals are left to the sweep of step 6: a service seals at once)", d.path, objects[0].Blob.Size)
}

func (d *demo) readBack(ctx context.Context) error {
	r, err := d.Open(ctx, d.key, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	same, err := equal(r, f)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%s read back differs from the file", d.key)
	}
	return d.show(ctx, d.out, "2. read it back: equal to the file, byte for byte")
}

func (d *demo) replace(ctx context.Context) error {
	up, err := d.upload(ctx, d.key, &blobtx.PutOptions{If: blobtx.IfVersion(d.v1)})
	if err != nil {
		return err
	}
	defer up.Release()
	objects, err := d.Commit(ctx, nil, up)
	if err != nil {
		return err
	}
	// Someone else still holds the first version and tries the same.
	_, err = d.upload(ctx, d.key, &blobtx.PutOptions{If: blobtx.IfVersion(d.v1)})
	var conflict *blobtx.ConflictError
	if !errors.As(err, &conflict) {
		return fmt.Errorf("a replace of the stale version was not refused: %w", err)
	}
	return d.show(ctx, d.out, "3. replaced version %s by %s; a second replace of %s was refused: it is at %s",
		d.v1, objects[0].Version, conflict.Want, conflict.Current.Version)
}

func (d *demo) crashAfterUpload(ctx context.Context) error {
	up, err := d.upload(ctx, d.key+"-lost", nil)
	if err != nil {
		return err
	}
	up.Release() // a process that dies keeps nothing alive
	return d.show(ctx, d.out, "4. a process died after its upload: a blob that only an intent knows")
}

func (d *demo) crashAfterCommit(ctx context.Context) error {
	up, err := d.upload(ctx, d.key+"-kept", nil)
	if err != nil {
		return err
	}
	defer up.Release()
	// The transaction commits, and the process dies before it says a word.
	if err := d.inTx(up, "committed, unsealed")(ctx, func(tx store.RowTx) ([]blobtx.Object, error) {
		return d.CommitTx(ctx, tx, up)
	}); err != nil {
		return err
	}
	return d.show(ctx, d.out, "5. a process died after its COMMIT: the object is there, its blob still says pending")
}

// sweep passes the deadlines in real time: an upload is abandoned, its name
// watched until the quarantine ends, and at last forgotten.
func (d *demo) sweep(ctx context.Context) error {
	var all blobtx.SweepResult
	for range 60 {
		r, err := d.Sweep(ctx, nil)
		if err != nil {
			return err
		}
		all.Abandoned += r.Abandoned
		all.Sealed += r.Sealed
		all.Deleted += r.Deleted
		left, err := d.intentsLeft(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
	return d.show(ctx, d.out, "6. swept: %d abandoned upload(s) removed, %d blob(s) sealed, %d replaced blob(s) deleted", all.Abandoned, all.Sealed, all.Deleted)
}
