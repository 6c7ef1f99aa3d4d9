//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"syscall"
	"time"

	"github.com/blobtx/blobtx"
)

const (
	opBound   = 90 * time.Second // of one operation: longer than any bound of the library
	maxThink  = 80 * time.Millisecond
	maxTravel = 60 * time.Millisecond // of an answer to whoever asked, and of other work between two steps
	hotKeys   = 3                     // created, replaced and deleted by everybody
	keptKeys  = 3                     // the same, but never deleted
	hotSpace  = "hot/"
	keptSpace = "kept/"
	ownSpace  = "own/" // created once, never touched again
)

// client is one life of one client.
type client struct {
	*stores
	role    Role
	ledger  *ledger
	random  *rand.Rand
	asks    int
	pending *Record // asked without a final answer, to be asked again
}

// RunClient is main of a process that the conductor started. It ends when it is
// asked to, its operation in hand done, and otherwise by being killed.
func RunClient() error {
	role, err := roleOfThisProcess()
	if err != nil {
		return err
	}
	if role.Kind == caretaker {
		return takeCare(role.Ledger)
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	l, err := openLedger(ledgerPath(role.Ledger, role.Name, role.Incarnation))
	if err != nil {
		return err
	}
	s, err := open(role.Stores, nil)
	if err != nil {
		return err
	}
	defer s.db.Close() // the process ends
	c := &client{stores: s, role: role, ledger: l, random: rand.New(rand.NewPCG(role.Seed, uint64(role.Incarnation)))}
	if c.pending, err = unfinished(role.Ledger, role.Name, role.Incarnation); err != nil {
		return err
	}
	steps := map[string]func(context.Context) error{
		"writer": c.write, "replacer": c.replace, "deleter": c.remove, "reader": c.look,
	}
	if role.Kind == "sweeper" {
		return s.RunSweeper(stop, &blobtx.SweeperOptions{Every: 300 * time.Millisecond})
	}
	step := steps[role.Kind]
	if step == nil {
		return fmt.Errorf("no such role: %q", role.Kind)
	}
	for stop.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), opBound)
		err := step(ctx)
		cancel()
		if err != nil { // the ledger cannot be written
			return err
		}
		select {
		case <-stop.Done():
		case <-time.After(time.Duration(c.random.Int64N(int64(maxThink)))):
		}
	}
	return nil
}

func (c *client) chance(n int) bool { return c.random.IntN(n) == 0 }

// newAsk gives a name that no other ask of the run has.
func (c *client) newAsk(via string) Record {
	c.asks++
	return Record{Kind: asked, Ask: fmt.Sprintf("%s-%d-%d", c.role.Name, c.role.Incarnation, c.asks), Via: via}
}

// tell writes down what came of an ask. First: nothing was sent under its name
// before, so any failure that does not call the outcome unknown means that
// nothing was committed. Later, only a decision does: a failure to get through
// says nothing about the earlier attempt.
func (c *client) tell(ask Record, objects []blobtx.Object, err error, first bool) error {
	answer := judge(err, first)
	r := Record{Kind: told, Ask: ask.Ask, Answer: answer}
	if err != nil {
		r.Error = err.Error()
	}
	for _, o := range objects {
		r.Versions, r.SHA256 = append(r.Versions, o.Version), append(r.SHA256, o.Blob.SHA256)
	}
	if c.chance(2) { // those who die now have done it, and nobody was told
		time.Sleep(time.Duration(c.random.Int64N(int64(maxTravel))))
	}
	c.pending = nil
	if answer == unknown && ask.Again {
		c.pending = &ask
	}
	return c.ledger.write(r)
}

func judge(err error, first bool) string {
	is := func(any ...error) bool {
		for _, one := range any {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return acked
	case is(blobtx.ErrOutcomeUnknown, blobtx.ErrTakenOver, blobtx.ErrAlreadyCommitted):
		return unknown
	case is(blobtx.ErrConflict, blobtx.ErrIntentLost, blobtx.ErrNotCommitted):
		return refused
	case is(blobtx.ErrInvalid, blobtx.ErrIdempotencyReuse, blobtx.ErrForeignBlob, blobtx.ErrCorrupt, blobtx.ErrHeld, blobtx.ErrBodyMismatch):
		return broken // nothing that the clients do may lead there
	case is(blobtx.ErrNotFound): // no longer remembered
		return unknown
	case first:
		return refused
	}
	return unknown
}
