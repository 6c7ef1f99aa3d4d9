package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// cluster is the account, the database, and the processes over them.
type cluster struct {
	*stores
	out     io.Writer
	members map[string]*exec.Cmd
	lines   chan string // what the members say, in the order in which they said it
}

func demo(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx) // ends what is still running
	defer cancel()
	folder, err := os.MkdirTemp("", "leader")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	azure, err := serveBlobs(ctx)
	if err != nil {
		return err
	}
	db := filepath.Join(folder, "leader.db")
	s, err := openStores(ctx, db, azure) // migrates, before the others come
	if err != nil {
		return err
	}
	defer s.close()
	d := &cluster{stores: s, out: out, members: map[string]*exec.Cmd{}}
	if err := d.start(ctx, db, azure, "a", "b", "c"); err != nil {
		return err
	}
	for range 3 {
		if err := d.oneReign(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serveBlobs serves an empty container on the loopback interface until ctx ends.
func serveBlobs(ctx context.Context) (string, error) {
	account := azfake.New(nil)
	account.MakeContainer("leader")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: account}
	go func() { _ = server.Serve(listener) }() // ends with Close
	context.AfterFunc(ctx, func() { server.Close() })
	return "http://" + listener.Addr().String() + "/" + azfake.DefaultAccount + "/leader", nil
}

// start starts the members. They share one pipe, so what they say stays in
// order across them.
func (d *cluster) start(ctx context.Context, db, azure string, names ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	for _, name := range names {
		cmd := exec.CommandContext(ctx, self, "-attached", "-name", name, "-db", db, "-azure", azure)
		cmd.Stdout, cmd.Stderr = w, w
		if _, err := cmd.StdinPipe(); err != nil { // ends with this process, or with Wait
			return errors.Join(err, r.Close(), w.Close())
		}
		if err := cmd.Start(); err != nil {
			return errors.Join(err, r.Close(), w.Close())
		}
		d.members[name] = cmd
	}
	d.lines = make(chan string, 1000)
	go func() {
		defer close(d.lines)
		defer r.Close()
		for scan := bufio.NewScanner(r); scan.Scan(); { // until the last member has ended
			d.lines <- scan.Text()
		}
	}()
	return w.Close()
}

// oneReign waits for a leader, gives it something to do, and interrupts it.
func (d *cluster) oneReign(ctx context.Context) error {
	line, err := d.await(ctx, " leads")
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(line, " leads")
	o, err := d.c.Put(ctx, "made while "+line, strings.NewReader("x"), nil)
	if err != nil {
		return err
	}
	for info := (store.BlobInfo{}); !info.Sealed; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if info, err = d.blobs.Stat(ctx, store.StatParams{Name: o.Blob.Name, Seal: true}); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "%s has sealed an object\n", name)
	leader := d.members[name]
	if err := leader.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	if _, err := d.await(ctx, " steps down"); err != nil {
		return err
	}
	return leader.Wait()
}

// await passes on what the members say until one says this.
func (d *cluster) await(ctx context.Context, what string) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case line, ok := <-d.lines:
			if !ok {
				return "", errors.New("all processes have ended")
			}
			fmt.Fprintln(d.out, line)
			if strings.Contains(line, what) {
				return line, nil
			}
		}
	}
}
