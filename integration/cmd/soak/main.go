//go:build unix

// Soak kills blobtx's clients, processes of the operating system, at random
// moments on real stores and compares what they were told with what is there:
//
//	go run ./integration/cmd/soak -kills 300
//
// It needs PostgreSQL and Azurite installed ("make services") and starts private
// ones. With SOAK_STORES=embedded it uses a SQLite file and a blob service of
// its own, and needs nothing. Run it from the root of the repository.
//
// The last line is machine-readable. The exit code is 1 when there is any
// fault, and when some client got nothing done.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/blobtx/blobtx/integration/internal/services/launch"
	"github.com/blobtx/blobtx/integration/internal/soak"
)

func main() {
	if soak.IsClient() {
		if err := soak.RunClient(); err != nil {
			fmt.Fprintln(os.Stderr, "soak: client:", err)
			os.Exit(1)
		}
		return
	}
	o := soak.Options{Embedded: os.Getenv("SOAK_STORES") == "embedded"}
	flag.IntVar(&o.Kills, "kills", 300, "how many processes to kill")
	flag.Uint64Var(&o.Seed, "seed", rand.Uint64(), "of the random choices; those of the scheduler are its own")
	flag.StringVar(&o.Ledger, "ledger", "", "new folder in which to keep the clients' ledgers")
	flag.Parse()
	passed, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

func run(o soak.Options) (passed bool, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	// "go run" does not pass its own end on.
	if err := launch.SignalSelfOnDeath(syscall.SIGTERM); err != nil {
		return false, err
	}
	stores := "postgresql and azurite"
	if o.Embedded {
		stores = "sqlite and azfake"
	}
	fmt.Printf("soak: seed %d, %d kills, on %s\n", o.Seed, o.Kills, stores)
	report, err := soak.Run(ctx, o)
	if err != nil {
		return false, err
	}
	report.Print(os.Stdout)
	return report.Passed(), nil
}
