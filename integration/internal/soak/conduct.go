//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/blobtx/blobtx/integration/internal/services/launch"
)

const (
	minLife   = 50 * time.Millisecond // between two kills
	maxLife   = 900 * time.Millisecond
	maxFreeze = 7 * time.Second
	maxInto   = 60 * time.Millisecond // an operation, before a kill in its midst
	stopGrace = 2 * opBound
	lateness  = 3 * time.Second // for requests of the dead that are still on their way
)

// crew is who takes part.
var crew = []struct{ kind, name string }{
	{"writer", "writer-1"}, {"writer", "writer-2"}, {"writer", "writer-3"},
	{"replacer", "replacer-1"}, {"replacer", "replacer-2"},
	{"deleter", "deleter-1"},
	{"reader", "reader-1"}, {"reader", "reader-2"},
	{"sweeper", "sweeper-1"}, {"sweeper", "sweeper-2"},
}

// conductor is one run.
type conductor struct {
	Options
	servers *servers
	crew    []*member
	random  *rand.Rand
	kills   int
	pauses  int
	crashes int // of the database
	freezes int // of members
}

// member is one client through all its lives.
type member struct {
	role    Role
	process *launch.Process
}

// Run soaks and judges. A nil error means that the run took place; Report says
// what came of it.
func Run(ctx context.Context, o Options) (report Report, err error) {
	dir, err := os.MkdirTemp("", "blobtx-soak-")
	if err != nil {
		return Report{}, err
	}
	cleanUp, err := care(dir)
	if err != nil {
		return Report{}, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's account must pass through
		return Report{}, err
	}
	if o.Ledger == "" {
		o.Ledger = filepath.Join(dir, "ledger")
	}
	if err := os.Mkdir(o.Ledger, 0o700); err != nil {
		return Report{}, err
	}
	c := &conductor{Options: o, random: rand.New(rand.NewPCG(o.Seed, 0))}
	if o.Embedded {
		c.servers, err = startEmbedded(dir)
	} else {
		c.servers, err = startServers(ctx, dir)
	}
	if err != nil {
		return Report{}, err
	}
	defer c.servers.stop()
	return c.run(ctx)
}

func (c *conductor) run(ctx context.Context) (Report, error) {
	if err := c.prepare(ctx); err != nil {
		return Report{}, err
	}
	began := time.Now()
	if err := c.soak(ctx); err != nil {
		return Report{}, err
	}
	minutes := time.Since(began).Minutes()
	fmt.Printf("soak: %d kills, %d freezes, %d stops of the blob service, %d crashes of the database in %.1f minutes; now deadlines pass\n",
		c.kills, c.freezes, c.pauses, c.crashes, minutes)
	found, err := c.lookAtRest(ctx)
	if err != nil {
		return Report{}, err
	}
	pages, err := readLedgers(c.Ledger)
	if err != nil {
		return Report{}, err
	}
	report := compare(pages, found)
	report.Kills, report.Minutes = c.kills, minutes
	return report, nil
}

func (c *conductor) prepare(ctx context.Context) error {
	s, err := open(c.servers.address, nil)
	if err != nil {
		return err
	}
	return errors.Join(s.prepare(ctx, c.Embedded), s.db.Close())
}

// lookAtRest lets all deadlines pass and returns what both stores hold then.
func (c *conductor) lookAtRest(ctx context.Context) (facts, error) {
	select { // in real time: a request on its way knows no offset
	case <-time.After(lateness):
	case <-ctx.Done():
		return facts{}, context.Cause(ctx)
	}
	var clock offset
	s, err := open(c.servers.address, clock.now)
	if err != nil {
		return facts{}, err
	}
	defer s.db.Close() // only read by now
	restless := s.atRest(ctx, &clock)
	f, err := s.gather(ctx)
	if restless != nil { // a fault of what was soaked: judge all the same
		f.owed = append(f.owed, "last sweep: "+restless.Error())
	}
	return f, err
}

// soak lets the crew work until every kill was given, and ends it.
func (c *conductor) soak(ctx context.Context) error {
	defer c.killAll()
	for i, one := range crew {
		m := &member{role: Role{
			Kind: one.kind, Name: one.name, Seed: c.Seed + uint64(i) + 1, Ledger: c.Ledger, Stores: c.servers.address,
		}}
		if err := m.start(); err != nil {
			return err
		}
		c.crew = append(c.crew, m)
	}
	fmt.Printf("soak: %d clients are at work\n", len(c.crew))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	uneasy, calm := context.WithCancel(ctx)
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		if err := c.disturb(uneasy); err != nil {
			cancel(err)
		}
	})
	err := c.killMany(ctx)
	calm()
	disturbing.Wait()
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.killAll)()
	return c.dismiss()
}

func (c *conductor) killMany(ctx context.Context) error {
	for c.kills < c.Kills {
		select {
		case <-ctx.Done():
			return nil // its cause is told by the caller
		case <-time.After(minLife + time.Duration(c.random.Int64N(int64(maxLife-minLife)))):
		}
		if err := c.kill(); err != nil {
			return err
		}
		if c.random.IntN(3) == 0 {
			if err := c.freeze(); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeze stops one member in its tracks, for longer than its uploads may be
// silent: others must take it for dead, and it goes on as if nothing had been.
func (c *conductor) freeze() error {
	m := c.strike()
	p := m.process
	if err := p.Pause(); err != nil {
		return fmt.Errorf("freeze %s: %w", m.role.Name, err)
	}
	c.freezes++
	time.AfterFunc(time.Duration(c.random.Int64N(int64(maxFreeze))), func() {
		_ = p.Resume() // fails when it was killed
	})
	return nil
}

// strike picks a member and waits for the moment: any moment, half of the time,
// else soon after the member wrote something down, which is in the midst of what
// it asked for.
func (c *conductor) strike() *member {
	m := c.crew[c.random.IntN(len(c.crew))]
	if c.random.IntN(2) == 0 {
		path := ledgerPath(c.Ledger, m.role.Name, m.role.Incarnation)
		for before, try := sizeOf(path), 0; sizeOf(path) == before && try < 150; try++ {
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Duration(c.random.Int64N(int64(maxInto))))
	}
	return m
}

// kill kills one member and starts it again.
func (c *conductor) kill() error {
	m := c.strike()
	m.process.Stop(syscall.SIGKILL, time.Minute)
	var exit *exec.ExitError
	if !errors.As(m.process.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s ended by itself: %v", m.role.Name, m.process.Err())
	}
	c.kills++
	if c.kills%30 == 0 {
		fmt.Printf("soak: %d kills\n", c.kills)
	}
	m.role.Incarnation++
	return m.start()
}

// sizeOf is -1 for a file that is not there yet.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

func (m *member) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env, err := m.role.env()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env), os.Stdout, os.Stderr
	p, err := launch.Start(cmd, syscall.SIGKILL)
	if err == nil {
		m.process = p
	}
	return err
}

// disturb stops the blob service in its tracks, and crashes the database, by
// turns, until ctx ends; then everything runs.
func (c *conductor) disturb(ctx context.Context) error {
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second + time.Duration(r.Int64N(int64(4*time.Second)))):
		}
		if turn%3 == 1 && c.servers.restart != nil {
			c.crashes++
			if err := c.servers.restart(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			continue
		}
		c.pauses++
		if err := c.servers.pause(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.Int64N(int64(maxPause)))):
		}
		if err := c.servers.resume(); err != nil {
			return err
		}
	}
}

// dismiss lets everybody finish what is in hand.
func (c *conductor) dismiss() error {
	ended := make(chan error, len(c.crew))
	for _, m := range c.crew {
		go func() {
			m.process.Stop(syscall.SIGTERM, stopGrace)
			err := m.process.Err()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM:
				err = nil // it had only just begun its life
			case err != nil:
				err = fmt.Errorf("%s did not end well: %w", m.role.Name, err)
			}
			ended <- err
		}()
	}
	var all error
	for range c.crew {
		all = errors.Join(all, <-ended)
	}
	return all
}

func (c *conductor) killAll() {
	for _, m := range c.crew {
		m.process.Stop(syscall.SIGKILL, time.Minute)
	}
}
