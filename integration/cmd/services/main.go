//go:build unix

// Command services runs another command with real services beside it:
//
//	go run ./integration/cmd/services [-strict] -- go test ./integration/...
//
// It starts a private PostgreSQL, a private MariaDB and a private Azurite, tells
// the command through the environment where they are (package services has the
// names), and stops and removes them afterwards. Its last line says which of them the
// command really used. With -strict, a service that cannot be started or was not
// used is a failure. Run it from the root of the repository.
//
// Two processes share the work. The one that the user sees only waits; the
// keeper, its child, does everything, and takes the end of the pipe between them
// as the order to stop. So when the first is killed, however hard, the keeper
// still cleans up; and when the keeper is killed, the kernel ends the servers
// (on Linux) and the first process ends the command and removes the folder.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/blobtx/blobtx/integration/internal/services/launch"
)

// keeperEnv marks the keeper and names the folder it works in.
const keeperEnv = "BLOBTX_SERVICES_KEEPER"

type options struct {
	strict  bool
	command []string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(2)
	}
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(keep(dir, o))
	}
	code, err := supervise()
	if err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
	}
	os.Exit(code)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("services", flag.ContinueOnError)
	flags.BoolVar(&o.strict, "strict", false, "fail when a service is missing or was not used")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.command = flags.Args()
	if len(o.command) == 0 {
		return o, errors.New("no command given, such as -- go test ./integration/... -v")
	}
	return o, nil
}

// supervise runs the keeper and returns its exit code. A signal closes the pipe,
// and the keeper does the rest.
func supervise() (code int, err error) {
	dir, err := os.MkdirTemp("", "blobtx-services-")
	if err != nil {
		return 1, err
	}
	// The keeper removes it too; this is for a keeper that was killed.
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's account must pass through
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	keeper := exec.Command(self, os.Args[1:]...)
	keeper.Env = append(os.Environ(), keeperEnv+"="+dir)
	keeper.Stdout, keeper.Stderr = os.Stdout, os.Stderr
	// Out of the terminal's reach: ^C must not end the one who cleans up.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := keeper.StdinPipe()
	if err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// "go run" does not pass its own end on.
	if err := launch.SignalSelfOnDeath(syscall.SIGTERM); err != nil {
		return 1, err
	}
	if err := keeper.Start(); err != nil {
		return 1, err
	}
	go func() {
		<-signals
		_ = pipe.Close() // a failure means that the keeper is gone, which Wait reports
	}()
	err = keeper.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, errors.Join(fmt.Errorf("keeper: %w", err), killCommand(dir))
	}
	return 0, nil
}

// killCommand ends the command's process group, which the keeper wrote down.
func killCommand(dir string) error {
	text, err := os.ReadFile(groupFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the keeper did not get that far
	}
	if err != nil {
		return err
	}
	group, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	if err := syscall.Kill(-group, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func groupFile(dir string) string { return filepath.Join(dir, "command-group") }

// waitForEnd returns when the supervising process closed the pipe or died.
func waitForEnd() { _, _ = io.Copy(io.Discard, os.Stdin) }
