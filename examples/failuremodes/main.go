// Failuremodes is the lab: it plays what goes wrong between a database and a
// blob container, first as programs are usually written, then under blobtx, and
// prints what is left in both stores. The database is SQLite, in a temporary
// folder.
//
//	go run ./examples/failuremodes -fake
//	go run ./examples/failuremodes -azure CONNECTION-STRING-OR-CONTAINER-URL
//
// Every number printed was counted a moment before, rows by SQL and blobs by
// listing the container. A line begins with the letter of its situation; the
// lines that go on with "blobtx" are the same situation under the protocol.
//
//   - E: a rolled-back transaction does not undo an upload.
//   - A: a unique index refuses the row when its blob is already there: an orphan.
//   - B: the same with a compensating delete in the error branch, which works
//     for as long as nothing else fails: see M.
//   - F: the same with the compensation as a hook that any failed save runs.
//   - C: a pending row, for a process that died before it said ready, and the
//     sweep that finds it. Every reader has to know about such rows; under
//     blobtx it is an intent, and no row.
//   - I: which upload calls of the SDK replace what is there. Above 256 MiB
//     UploadBuffer and UploadFile do so even when told to create only.
//   - G: five concurrent create-only writers of one name: one wins.
//   - K: a staged create-only upload that loses has paid for its blocks, and
//     leaves them behind.
//   - J: a delete guarded by an index tag takes a pending blob and is refused
//     for a committed one.
//   - M: the compensating delete of B when the COMMIT was applied and its reply
//     was lost: it destroys a committed document.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/blobtx/blobtx"
)

// options is the command line.
type options struct {
	azure string
	fake  bool
	only  string // letters; empty: all
	large string
}

func main() {
	var o options
	flag.StringVar(&o.azure, "azure", "", "storage connection string or container URL with a SAS")
	flag.BoolVar(&o.fake, "fake", false, "an in-process server in place of -azure")
	flag.StringVar(&o.only, "only", "", "letters of the situations to play, as in EAM; empty: all")
	flag.StringVar(&o.large, "large", "all", "which uploads above 256 MiB: all (13), create-only (5), none")
	flag.Parse()
	if flag.NArg() != 0 || o.fake == (o.azure != "") {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: failuremodes {-fake | -azure URL-OR-CONNECTION-STRING} [-only LETTERS] [-large WHICH]")
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "failuremodes:", err)
		os.Exit(1)
	}
}

// situation is one letter of the lab, played in two worlds that begin empty.
type situation struct {
	letter, title string
	plain, blobtx func(context.Context, *world) error
	opts          *blobtx.Options // nil: the defaults
	large         bool            // bodies that the in-process server must not keep in memory
}

// shortTTL makes what a process leaves behind when it dies due while you watch.
// A service leaves it alone.
var shortTTL = &blobtx.Options{IntentTTL: 2 * time.Second}

var situations = []situation{
	{letter: "E", title: "a rolled-back transaction does not undo an upload", plain: rollBack, blobtx: rollBackBlobtx, opts: shortTTL},
	{letter: "A", title: "a unique index refuses the row of a blob that is there", plain: refused, blobtx: refusedBlobtx, opts: shortTTL},
	{letter: "B", title: "the same, with a compensating delete in the error branch", plain: compensate, blobtx: compensateBlobtx},
	{letter: "F", title: "the same, with the compensation as a hook of any failed save", plain: hook, blobtx: hookBlobtx},
	{letter: "C", title: "a process died between its upload and ready", plain: diePending, blobtx: diePendingBlobtx, opts: shortTTL},
	{letter: "I", title: "which upload calls of the SDK replace what is there", plain: overwrite, blobtx: overwriteBlobtx, opts: oneName, large: true},
	{letter: "G", title: "five concurrent create-only writers of one name", plain: race, blobtx: raceBlobtx},
	{letter: "K", title: "two staged create-only uploads to one name", plain: loseStaged, blobtx: loseStagedBlobtx},
	{letter: "J", title: "a guarded delete of a pending and of a committed blob", plain: guard, blobtx: guardBlobtx},
	{letter: "M", title: "a compensating delete after a COMMIT whose reply was lost", plain: loseReply, blobtx: loseReplyBlobtx},
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	o.only = strings.NewReplacer(",", "", " ", "").Replace(o.only)
	for _, letter := range strings.Split(o.only, "") {
		if !slices.ContainsFunc(situations, func(s situation) bool { return s.letter == letter }) {
			return fmt.Errorf("-only %s: there is no situation %s", o.only, letter)
		}
	}
	if !slices.Contains([]string{"all", "create-only", "none"}, o.large) {
		return fmt.Errorf("-large %s: neither all, nor create-only, nor none", o.large)
	}
	l, err := openLab(ctx, out, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, s := range situations {
		if o.only != "" && !strings.Contains(o.only, s.letter) {
			continue
		}
		fmt.Fprintf(out, "# %s: %s\n", s.letter, s.title)
		if err := l.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.letter, withoutSAS(err))
		}
	}
	return nil
}
