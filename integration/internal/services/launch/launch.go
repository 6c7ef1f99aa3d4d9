//go:build unix

// Package launch starts private servers for tests: own data folder, own free
// port on 127.0.0.1, own random password, nothing shared with servers that the
// machine may already run.
package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ErrNotInstalled is returned when a server's program is not on this machine.
var ErrNotInstalled = errors.New("not installed")

const (
	readyTimeout  = time.Minute
	probeInterval = 50 * time.Millisecond
	stopGrace     = 10 * time.Second
	startTries    = 3 // another program may take the port between our look and the server's bind
)

// Server is a running server.
type Server struct {
	// URL is what a client needs to reach the server: a DSN or a connection string.
	URL string

	process    *Process
	stopSignal syscall.Signal
	again      func() attempt // to start it once more, on its port
}

// Done is closed when the server's process has ended, asked or not.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Stop ends the server and everything it started, and returns when it is gone.
// The data folder stays: it belongs to the caller.
func (s *Server) Stop() { s.process.Stop(s.stopSignal, stopGrace) }

// Restart stops the server as Stop does, which for PostgreSQL is an immediate
// shutdown, and starts it again with the data and at the URL it had. It returns
// when the server is ready. No other method may be called meanwhile.
func (s *Server) Restart(ctx context.Context) error {
	s.Stop()
	next, err := s.again().run(ctx)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	s.process = next.process
	return nil
}

// Pause stops the server in its tracks: its connections stay, and requests wait
// in them until Resume.
func (s *Server) Pause() error { return s.process.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.process.Resume() }

// attempt is one try at starting a server on a given port.
type attempt struct {
	cmd        *exec.Cmd
	logPath    string
	stopSignal syscall.Signal
	probe      func(context.Context) error // nil error means ready
}

// start runs attempts on fresh ports until one answers its probe.
func start(ctx context.Context, name string, prepare func(port int) attempt) (*Server, error) {
	var last error
	for range startTries {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		a := prepare(port)
		server, err := a.run(ctx)
		if err == nil {
			server.again = func() attempt { return prepare(port) }
			return server, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start %s: %w", name, last)
}

func (a attempt) run(ctx context.Context) (*Server, error) {
	log, err := os.Create(a.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy of the descriptor
	a.cmd.Stdout, a.cmd.Stderr = log, log
	process, err := Start(a.cmd, a.stopSignal)
	if err != nil {
		return nil, err
	}
	server := &Server{process: process, stopSignal: a.stopSignal}
	if err := a.waitReady(ctx, process); err != nil {
		server.Stop()
		return nil, fmt.Errorf("%w\n%s", err, tail(a.logPath))
	}
	return server, nil
}

func (a attempt) waitReady(ctx context.Context, process *Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := a.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-process.Done():
			return fmt.Errorf("ended before it was ready: %v", process.Err())
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// freePort asks the kernel for a port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func secret() string { return rand.Text() }

// tail returns the end of a server's log, for the error that says it did not start.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
