//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/integration/internal/services/launch"
)

// service is one server that the keeper knows how to start.
type service struct {
	name  string
	env   string // where the command finds its URL
	start func(ctx context.Context, dir string) (*launch.Server, error)
}

var all = []service{
	{"postgresql", services.PostgresEnv, func(ctx context.Context, dir string) (*launch.Server, error) {
		return launch.StartPostgres(ctx, dir, nil)
	}},
	{"mariadb", services.MariaDBEnv, func(ctx context.Context, dir string) (*launch.Server, error) {
		return launch.StartMariaDB(ctx, dir, nil)
	}},
	{"azurite", services.AzuriteEnv, func(ctx context.Context, dir string) (*launch.Server, error) {
		return launch.StartAzurite(ctx, dir, nil)
	}},
}

// keep starts the services, runs the command, and puts everything away again. It
// returns the exit code.
func keep(dir string, o options) (code int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// Caught rather than ignored, so that the command does not inherit it: when
	// nobody reads our output any more, cleaning up still comes first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		waitForEnd()
		cancel(errors.New("interrupted"))
	}()
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "services:", err)
			code = 1
		}
	}()

	r := &run{options: o, dir: dir, absent: map[string]string{}, env: os.Environ()}
	r.env = slices.DeleteFunc(r.env, func(kv string) bool { return strings.HasPrefix(kv, keeperEnv+"=") })
	defer r.stop()
	if err := r.start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		return 1
	}
	code = r.runCommand(ctx)
	r.stop()
	if ctx.Err() == nil && !r.report() && code == 0 {
		code = 1
	}
	return code
}

// run is one run of the command.
type run struct {
	options
	dir     string
	env     []string
	servers []*launch.Server
	absent  map[string]string // by name: why it was not started
}

func (r *run) start(ctx context.Context) error {
	for _, s := range all {
		dir := filepath.Join(r.dir, s.name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		server, err := s.start(ctx, dir)
		if errors.Is(err, launch.ErrNotInstalled) && !r.strict {
			r.absent[s.name] = "not installed"
			continue
		}
		if errors.Is(err, launch.ErrNotInstalled) {
			return fmt.Errorf("%w; \"make services\" as root installs it", err)
		}
		if err != nil {
			return err
		}
		r.servers = append(r.servers, server)
		r.env = append(r.env, s.env+"="+server.URL)
	}
	r.env = append(r.env, services.TookPartEnv+"="+r.tookPartFile())
	if r.strict {
		r.env = append(r.env, services.StrictEnv+"=1")
	}
	return nil
}

func (r *run) stop() {
	for _, server := range r.servers {
		server.Stop()
	}
	r.servers = nil
}

func (r *run) runCommand(ctx context.Context) int {
	cmd := exec.Command(r.command[0], r.command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, os.Stdout, os.Stderr
	err := launch.Run(ctx, cmd, func(group int) error {
		return os.WriteFile(groupFile(r.dir), []byte(strconv.Itoa(group)), 0o600)
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "services: %s: %v\n", r.command[0], err)
		return 1
	}
	return 0
}

func (r *run) tookPartFile() string { return filepath.Join(r.dir, "took-part") }

// report prints the closing line and says whether it satisfies -strict.
func (r *run) report() bool {
	seen, err := readLines(r.tookPartFile())
	if err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		return false
	}
	satisfied := true
	var parts []string
	for _, s := range all {
		i := slices.IndexFunc(seen, func(line string) bool { return strings.HasPrefix(line, s.name+" ") })
		switch why, absent := r.absent[s.name]; {
		case i >= 0:
			parts = append(parts, seen[i]+" took part")
			continue
		case absent:
			parts = append(parts, fmt.Sprintf("%s DID NOT TAKE PART (%s; \"make test\" as root installs it)", s.name, why))
		default:
			parts = append(parts, s.name+" DID NOT TAKE PART (started, but no test used it)")
		}
		satisfied = satisfied && !r.strict
	}
	fmt.Println("services: " + strings.Join(parts, ", "))
	return satisfied
}

// readLines returns a file's lines; a file that does not exist has none.
func readLines(path string) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}
