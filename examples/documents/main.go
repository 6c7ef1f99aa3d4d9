// Documents is a small web service that keeps files: the bytes in Azure Blob
// Storage, a row of its own table in the same transaction, and HTTP's conditions
// (ETag, If-Match, Range, Idempotency-Key) on top. It serves a page to try it.
//
//	go run ./examples/documents
//	go run ./examples/documents -db postgres://… -azure CONNECTION-STRING-OR-CONTAINER-URL
//
// Without flags nothing needs to run, and nothing is kept: the database is a
// SQLite file in a temporary folder, the container an in-process server behind
// the real SDK. docs/http.md says which header does what, and where in this code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	db := flag.String("db", "", "postgres:// URL or the path of a SQLite file; empty: a SQLite file in a temporary folder")
	azure := flag.String("azure", "", "storage connection string or container URL with a SAS; empty: an in-process server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Stdout, *addr, *db, *azure); err != nil {
		fmt.Fprintln(os.Stderr, "documents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, addr, db, azure string) error {
	s, err := open(ctx, db, azure, slog.Default())
	if err != nil {
		return err
	}
	defer s.close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on http://%s/\n", listener.Addr())
	return s.serve(ctx, listener)
}

// grace is how long requests in flight may go on once the service is to stop.
const grace = 30 * time.Second

// serve serves and sweeps until ctx is done, and then lets requests in flight
// come to their end. What the grace cuts short is aborted by its handler, or
// swept by the next process.
func (s *service) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Hour, // the slowest upload
		IdleTimeout:       2 * time.Minute,
	}
	sweeping, stopSweeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSweeping()
	served, swept := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	go func() { swept <- s.RunSweeper(sweeping, nil) }() // in every process

	select {
	case err := <-served:
		return err
	case err := <-swept: // the database and the container do not belong together
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(stopping)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	stopSweeping()
	return errors.Join(err, <-swept)
}
