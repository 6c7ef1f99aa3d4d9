// Package scenarios is what the explorer is turned on in this module: each
// scenario is one way in which clients, sweepers and faults meet. What they
// check beyond the explorer's own invariants stands in each.
package scenarios

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/store"
)

// Named is a scenario and how far it is taken.
type Named struct {
	Name string
	// Quick and Full are how many faults an execution may have: in every test
	// run, and in a full exploration. Both complete.
	Quick, Full int
	Make        func() blobtxtest.Scenario
}

// All returns every scenario.
func All() []Named {
	same := func() blobtxtest.Scenario { return oneIdempotencyKey("hello", "hello") }
	different := func() blobtxtest.Scenario { return oneIdempotencyKey("hello", "other") }
	return []Named{
		{Name: "create against a sweeper", Quick: 2, Full: 2, Make: createAgainstSweeper},
		{Name: "two creators of one key", Quick: 1, Full: 2, Make: twoCreators},
		{Name: "one idempotency key, same bytes", Quick: 1, Full: 2, Make: same},
		{Name: "one idempotency key, different bytes", Quick: 1, Full: 2, Make: different},
		{Name: "a retry against a sweeper", Quick: 1, Full: 2, Make: retryAgainstSweeper},
		{Name: "replace against delete against a sweeper", Quick: 1, Full: 2, Make: replaceDeleteSweep},
		{Name: "two replaces", Quick: 1, Full: 2, Make: twoReplaces},
		{Name: "CommitWith beside a sweeper", Quick: 1, Full: 2, Make: commitWith},
		{Name: "CommitWith whose function swallows the error of COMMIT", Quick: 1, Full: 2, Make: swallowed},
		{Name: "CommitTx rolled back and committed again", Quick: 1, Full: 2, Make: rolledBackAndAgain},
		{Name: "a conflict after which the caller commits anyway", Quick: 1, Full: 2, Make: commitsAnyway},
		{Name: "three uploads in one transaction", Quick: 1, Full: 1, Make: threeUploads},
		{Name: "open and range read during a replace", Quick: 1, Full: 1, Make: readDuringReplace},
		{Name: "a client that leaves", Quick: 1, Full: 2, Make: clientLeaves},
		{Name: "a sleeping sweeper", Quick: 1, Full: 2, Make: sleepingSweeper},
		{Name: "Settle against the late commit", Quick: 1, Full: 1, Make: settleAgainstLateCommit},
		{Name: "delete, re-create, stale token", Quick: 1, Full: 1, Make: staleToken},
		{Name: "an upload that was repeated, then deleted", Quick: 1, Full: 2, Make: repeatedThenDeleted},
		{Name: "an outcome asked for by another process", Quick: 1, Full: 2, Make: askedByAnother},
		{Name: "an impatient first attempt", Quick: 1, Full: 2, Make: impatientFirst},
		{Name: "a process that restarts", Quick: 1, Full: 2, Make: restarted},
		{Name: "a database restored by the runbook", Quick: 0, Full: 1, Make: func() blobtxtest.Scenario { return restored(blobtxtest.ByTheRunbook) }},
		{Name: "a database restored and nothing held", Quick: 0, Full: 0, Make: func() blobtxtest.Scenario { return restored(blobtxtest.ButNotHeld) }},
	}
}

// put stores an object and reports what its client is told.
func put(ctx context.Context, p *blobtxtest.Process, key, body string, opts *blobtx.PutOptions) (blobtx.Object, error) {
	o, err := p.Put(ctx, key, strings.NewReader(body), opts)
	tell(p, key, o, err)
	return o, err
}

func tell(p *blobtxtest.Process, key string, o blobtx.Object, err error) {
	if err != nil {
		p.Refused(key, err)
		return
	}
	p.Acked(key, o)
}

func actor(name string, run func(ctx context.Context, p *blobtxtest.Process) error) blobtxtest.Actor {
	return blobtxtest.Actor{Name: name, Run: run}
}

func writer(name, key, body string, opts *blobtx.PutOptions) blobtxtest.Actor {
	return actor(name, func(ctx context.Context, p *blobtxtest.Process) error {
		_, err := put(ctx, p, key, body, opts)
		return err
	})
}

func sweeper(name string) blobtxtest.Actor {
	return actor(name, func(ctx context.Context, p *blobtxtest.Process) error {
		_, err := p.Sweep(ctx, nil)
		return err
	})
}

// keeps requires that what clients were told last is what is there.
func keeps(_ context.Context, v *blobtxtest.View) error {
	for key, want := range v.Acked {
		found := false
		for _, o := range v.Objects {
			found = found || o.Key == key && o.Version == want.Version
		}
		if !found {
			return fmt.Errorf("a client was told that %q is stored at version %s, and it is not there", key, want.Version)
		}
	}
	return nil
}

// holds requires that the object, if there is one, has one of these bodies.
func holds(key string, bodies ...string) func(context.Context, *blobtxtest.View) error {
	return func(_ context.Context, v *blobtxtest.View) error {
		for _, o := range v.Objects {
			if o.Key != key {
				continue
			}
			for _, body := range bodies {
				if string(v.Blobs[o.Blob.Name]) == body {
					return nil
				}
			}
			return fmt.Errorf("%q has the bytes %q", key, v.Blobs[o.Blob.Name])
		}
		return nil
	}
}

// old sets up one object, and keeps it where the actors find it.
func old(into *blobtx.Object) func(context.Context, *blobtxtest.Process) error {
	return func(ctx context.Context, p *blobtxtest.Process) error {
		o, err := put(ctx, p, "k", "old", nil)
		*into = o
		return err
	}
}

// never is for scenarios without a sweeper: nobody acts on a deadline before
// the end, so time that passes only multiplies the schedules.
var never = []time.Duration{}

// noGrace deletes replaced blobs at the next sweep.
func noGrace() blobtx.Options { return blobtx.Options{ReadGrace: -1} }

// createAgainstSweeper is one upload and a sweeper that comes at any moment.
func createAgainstSweeper() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{writer("writer", "k", "hello", nil), sweeper("sweeper")},
		AtRest: keeps,
	}
}

// twoCreators: at most one of two is told that it stored the object.
func twoCreators() blobtxtest.Scenario {
	var winner string
	create := func(name string) blobtxtest.Actor {
		return actor(name, func(ctx context.Context, p *blobtxtest.Process) error {
			_, err := put(ctx, p, "k", name, nil)
			if err == nil && winner != "" {
				p.Errorf("both creators were told that they stored the object")
			}
			if err == nil && ctx.Err() == nil { // nobody hears the dead
				winner = name
			}
			return err
		})
	}
	return blobtxtest.Scenario{
		Passes: never,
		Setup:  func(context.Context, *blobtxtest.Process) error { winner = ""; return nil },
		Actors: []blobtxtest.Actor{create("one"), create("two")},
		AtRest: keeps,
	}
}

// oneIdempotencyKey is a retry that another process makes of the same request.
func oneIdempotencyKey(first, second string) blobtxtest.Scenario {
	opts := &blobtx.PutOptions{IdempotencyKey: "request"}
	return blobtxtest.Scenario{
		Passes: never,
		Actors: []blobtxtest.Actor{writer("first", "k", first, opts), writer("second", "k", second, opts)},
		Always: holds("k", first, second),
		AtRest: keeps,
	}
}

// replaceDeleteSweep: the old blob goes, once; nothing else does.
func replaceDeleteSweep() blobtxtest.Scenario {
	var before blobtx.Object
	return blobtxtest.Scenario{
		Options: noGrace(),
		Setup:   old(&before),
		Actors: []blobtxtest.Actor{
			writer("replacer", "k", "new", &blobtx.PutOptions{If: blobtx.Always()}),
			actor("deleter", func(ctx context.Context, p *blobtxtest.Process) error {
				return p.Delete(ctx, "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(before.Version)})
			}),
			sweeper("sweeper"),
		},
		Always: holds("k", "old", "new"),
	}
}

// twoReplaces of one version: at most one is told that it won.
func twoReplaces() blobtxtest.Scenario {
	var before blobtx.Object
	var winner string
	replace := func(name string) blobtxtest.Actor {
		return actor(name, func(ctx context.Context, p *blobtxtest.Process) error {
			_, err := put(ctx, p, "k", name, &blobtx.PutOptions{If: blobtx.IfVersion(before.Version)})
			if err == nil && winner != "" {
				p.Errorf("both were told that they replaced one version")
			}
			if err == nil && ctx.Err() == nil { // nobody hears the dead
				winner = name
			}
			return err
		})
	}
	setup := old(&before)
	return blobtxtest.Scenario{
		Passes:  never,
		Options: noGrace(),
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			winner = ""
			return setup(ctx, p)
		},
		Actors: []blobtxtest.Actor{replace("one"), replace("two")},
		Always: holds("k", "old", "one", "two"),
		AtRest: func(ctx context.Context, v *blobtxtest.View) error {
			if winner == "" {
				return nil
			}
			return keeps(ctx, v)
		},
	}
}

// transaction is what an application gives to CommitWith.
func transaction(p *blobtxtest.Process) func(context.Context, func(store.RowTx) ([]blobtx.Object, error)) error {
	return func(ctx context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
		tx, err := p.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := commit(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// commitWith is the whole of a caller's transaction, its COMMIT included.
func commitWith() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{
			actor("writer", func(ctx context.Context, p *blobtxtest.Process) error {
				up, err := p.Stage(ctx, "k", strings.NewReader("hello"), nil)
				if err != nil {
					p.Refused("k", err)
					return err
				}
				defer up.Release()
				objects, err := p.CommitWith(ctx, transaction(p), up)
				if err != nil {
					p.Refused("k", err)
					in := up.Intent()
					return p.Abort(ctx, &in)
				}
				p.Acked("k", objects[0])
				return nil
			}),
			sweeper("sweeper"),
		},
		AtRest: keeps,
	}
}

// swallowed: a function that does not pass on how its COMMIT ended is asked
// after.
func swallowed() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Passes: never,
		Actors: []blobtxtest.Actor{
			actor("writer", func(ctx context.Context, p *blobtxtest.Process) error {
				up, err := p.Stage(ctx, "k", strings.NewReader("hello"), nil)
				if err != nil {
					p.Refused("k", err)
					return err
				}
				defer up.Release()
				var o blobtx.Object
				objects, err := p.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
					_ = transaction(p)(ctx, commit)
					return nil
				}, up)
				if err == nil {
					o = objects[0]
				}
				tell(p, "k", o, err)
				return err
			}),
		},
		AtRest: keeps,
	}
}

// rolledBackAndAgain: an upload outlives a transaction that was rolled back.
func rolledBackAndAgain() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{
			actor("writer", func(ctx context.Context, p *blobtxtest.Process) error {
				up, err := p.Stage(ctx, "k", strings.NewReader("hello"), nil)
				if err != nil {
					p.Refused("k", err)
					return err
				}
				defer up.Release()
				tx, err := p.Begin(ctx)
				if err != nil {
					return err
				}
				_, _ = p.CommitTx(ctx, tx, up)
				_ = tx.Rollback()
				return commitTx(ctx, p, up)
			}),
			sweeper("sweeper"),
		},
		AtRest: keeps,
	}
}

// commitTx is the low-level form: commit in a transaction of one's own, and
// settle when the reply to its COMMIT is lost.
func commitTx(ctx context.Context, p *blobtxtest.Process, up *blobtx.Upload) error {
	var last error
	for range 2 {
		tx, err := p.Begin(ctx)
		if err != nil {
			return err
		}
		objects, err := p.CommitTx(ctx, tx, up)
		if err == nil {
			err = tx.Commit()
		}
		_ = tx.Rollback()
		if err == nil {
			p.Acked("k", objects[0])
			return p.Seal(ctx, up)
		}
		last = err
		outcome, err := p.Settle(ctx, up)
		if err != nil {
			p.Refused("k", err)
			return err
		}
		if outcome.Committed {
			p.Acked("k", outcome.Objects[0])
			return p.Seal(ctx, up)
		}
	}
	p.Refused("k", last)
	return last
}

// commitsAnyway: whoever meets a conflict commits the transaction all the
// same, and nothing of any of its uploads may show.
func commitsAnyway() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Passes: never,
		Actors: []blobtxtest.Actor{
			actor("one", func(ctx context.Context, p *blobtxtest.Process) error { return commitAnyway(ctx, p, "k") }),
			actor("two", func(ctx context.Context, p *blobtxtest.Process) error { return commitAnyway(ctx, p, "a", "k") }),
		},
		AtRest: keeps,
	}
}

func commitAnyway(ctx context.Context, p *blobtxtest.Process, keys ...string) error {
	told := func(objects []blobtx.Object, err error) error {
		for i, key := range keys {
			var o blobtx.Object
			if err == nil {
				o = objects[i]
			}
			tell(p, key, o, err)
		}
		return err
	}
	var ups []*blobtx.Upload
	for _, key := range keys {
		up, err := p.Stage(ctx, key, strings.NewReader(key), nil)
		if err != nil {
			return told(nil, err)
		}
		defer up.Release()
		ups = append(ups, up)
	}
	tx, err := p.Begin(ctx)
	if err != nil {
		return told(nil, err)
	}
	objects, refusal := p.CommitTx(ctx, tx, ups...)
	err = tx.Commit()
	_ = tx.Rollback()
	switch {
	case refusal != nil:
		return told(nil, refusal)
	case err != nil: // unknown, and not asked for
		return told(nil, fmt.Errorf("%w: %w", blobtx.ErrOutcomeUnknown, err))
	}
	return told(objects, nil)
}

// threeUploads become visible together or not at all.
func threeUploads() blobtxtest.Scenario {
	keys := []string{"c", "a", "b"}
	return blobtxtest.Scenario{
		Passes:  never,
		Options: blobtx.Options{SealLater: true},
		Actors: []blobtxtest.Actor{
			actor("writer", func(ctx context.Context, p *blobtxtest.Process) error {
				var ups []*blobtx.Upload
				for _, key := range keys {
					up, err := p.Stage(ctx, key, strings.NewReader(key), nil)
					if err != nil {
						return err
					}
					defer up.Release()
					ups = append(ups, up)
				}
				objects, err := p.CommitWith(ctx, transaction(p), ups...)
				for i, key := range keys {
					var o blobtx.Object
					if err == nil {
						o = objects[i]
					}
					tell(p, key, o, err)
				}
				return err
			}),
			writer("other", "b", "taken", nil),
		},
		Always: together,
		AtRest: keeps,
	}
}

// together: a and c are there both or neither, and b with them.
func together(_ context.Context, v *blobtxtest.View) error {
	var keys string
	for _, o := range v.Objects {
		keys += o.Key
	}
	if keys != "" && keys != "b" && keys != "abc" {
		return fmt.Errorf("of three uploads that commit together, these are visible: %s", keys)
	}
	return nil
}
