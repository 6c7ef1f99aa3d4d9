// Leader shows one leader among sweepers: several processes of a service, each
// ready to sweep, of which only the one that holds a lock does. Any number of
// processes may sweep at once and do no harm; one is enough, and spares the
// database the questions of the others.
//
//	go run ./examples/leader
//
// starts three processes over a SQLite file and an in-process Blob Storage
// server, and interrupts each as it leads, so that another takes over. With
//
//	go run ./examples/leader -name a -db postgres://… -azure CONTAINER-URL-WITH-SAS
//
// it is one such process, until it is interrupted: start more of them, stop the
// leader, or kill it and wait until its lease runs out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
)

func main() {
	name := flag.String("name", "", "of this process; empty: start three")
	db := flag.String("db", "", "postgres:// URL or SQLite file; only with -name")
	azure := flag.String("azure", "", "container URL with a SAS; only with -name")
	attached := flag.Bool("attached", false, "end when standard input does; only with -name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // stop ends ctx, too
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0 || (*name == "") != (*db == "") || (*name == "") != (*azure == ""):
		flag.Usage()
		os.Exit(2)
	case *name == "":
		err = demo(ctx, os.Stdout)
	default:
		if *attached {
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started this process is gone
				stop()
			}()
		}
		err = run(ctx, os.Stdout, *name, *db, *azure)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

// member is one process of the service.
type member struct {
	name  string
	out   io.Writer
	c     *blobtx.Coordinator
	blobs *azstore.Store
}

func run(ctx context.Context, out io.Writer, name, db, azure string) error {
	s, err := openStores(ctx, db, azure)
	if err != nil {
		return err
	}
	defer s.close()
	m := &member{name: name, out: out, c: s.c, blobs: s.blobs}
	return m.serve(ctx)
}

// serve waits for the lock and sweeps while it holds it, over and over, until
// ctx ends.
func (m *member) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		lock, err := m.blobs.Lock(ctx, "sweeper", &azstore.LockOptions{Duration: 15 * time.Second, Poll: 100 * time.Millisecond})
		if err == nil {
			err = m.lead(lock)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, blobtx.ErrWrongStore), errors.Is(err, blobtx.ErrSetup):
			return err // waiting does not help
		case err != nil:
			fmt.Fprintf(m.out, "%s: %v\n", m.name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// lead sweeps under the lock's context, which ends when the lock is lost, and
// with ctx.
func (m *member) lead(lock *azstore.Lock) error {
	fmt.Fprintf(m.out, "%s leads\n", m.name)
	err := m.c.RunSweeper(lock.Context(), &blobtx.SweeperOptions{Every: 100 * time.Millisecond})
	fmt.Fprintf(m.out, "%s steps down\n", m.name)
	// The sweeper has returned, so the next one may begin.
	return errors.Join(err, lock.Release())
}
