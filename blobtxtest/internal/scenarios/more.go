package scenarios

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
)

// readDuringReplace: a reader sees one version or an error that says it is
// gone, never a mixture, never missing bytes under a row.
func readDuringReplace() blobtxtest.Scenario {
	var before blobtx.Object
	setup := func(ctx context.Context, p *blobtxtest.Process) error {
		o, err := put(ctx, p, "k", "old-old", nil)
		before = o
		return err
	}
	return blobtxtest.Scenario{
		Options: noGrace(),
		Setup:   setup,
		Actors: []blobtxtest.Actor{
			actor("reader", read),
			writer("replacer", "k", "new-new", &blobtx.PutOptions{If: blobtx.Always()}),
			sweeper("sweeper"),
		},
		Always: holds("k", "old-old", "new-new"),
		AtRest: func(ctx context.Context, v *blobtxtest.View) error {
			if len(v.Objects) != 1 {
				return errors.New("the object is gone")
			}
			if v.Acked["k"].Version == before.Version { // nobody was told of the replace
				return nil
			}
			return keeps(ctx, v)
		},
	}
}

// read reads the head, then the tail after a seek.
func read(ctx context.Context, p *blobtxtest.Process) error {
	r, err := p.Open(ctx, "k", nil)
	if err != nil {
		return err
	}
	defer r.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return judgeRead(p, err)
	}
	if _, err := r.Seek(4, io.SeekStart); err != nil {
		return err
	}
	if _, err := r.Seek(3, io.SeekStart); err != nil {
		return err
	}
	tail, err := io.ReadAll(r)
	if err != nil {
		return judgeRead(p, err)
	}
	if got := string(head) + string(tail[1:]); got != "old-old" && got != "new-new" {
		p.Errorf("a reader saw a mixture: %q", got)
	}
	return nil
}

func judgeRead(p *blobtxtest.Process, err error) error {
	if errors.Is(err, blobtx.ErrCorrupt) {
		p.Errorf("a reader met a row without its bytes: %v", err)
	}
	return err
}

// clientLeaves: a request whose client leaves at any moment, in the middle of
// the body or after it, leaves nothing behind.
func clientLeaves() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{
			actor("handler", func(ctx context.Context, p *blobtxtest.Process) error {
				ctx, leave := context.WithCancel(ctx)
				defer leave()
				p.Meanwhile("the client leaves", leave)
				o, err := p.Put(ctx, "k", &leavingBody{ctx: ctx, text: strings.NewReader("hello")}, nil)
				tell(p, "k", o, err)
				return err
			}),
			sweeper("sweeper"),
		},
		AtRest: keeps,
	}
}

// leavingBody is a request's body: it breaks once the client has left, and
// cannot be rewound.
type leavingBody struct {
	ctx  context.Context
	text io.Reader
}

func (b *leavingBody) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, io.ErrUnexpectedEOF
	}
	return b.text.Read(p[:1])
}

// sleepingSweeper: one sweeper falls asleep between any two of its steps, for
// longer than its claims, while another does the work.
func sleepingSweeper() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Options: noGrace(),
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			for _, body := range []string{"old", "new"} {
				if _, err := put(ctx, p, "replaced", body, &blobtx.PutOptions{If: blobtx.Always()}); err != nil {
					return err
				}
			}
			up, err := p.Stage(ctx, "k", strings.NewReader("hello"), nil)
			up.Release()
			return err
		},
		Actors: []blobtxtest.Actor{sweeper("sleeper"), sweeper("sweeper")},
		Passes: []time.Duration{15*time.Minute + time.Second, 6 * time.Minute},
		AtRest: keeps,
	}
}

// retryAgainstSweeper: a client tries again what another process left
// unfinished, while a sweeper cleans it up.
func retryAgainstSweeper() blobtxtest.Scenario {
	opts := &blobtx.PutOptions{IdempotencyKey: "request"}
	return blobtxtest.Scenario{
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			up, err := p.Stage(ctx, "k", strings.NewReader("hello"), opts)
			up.Release()
			return err
		},
		Actors: []blobtxtest.Actor{writer("writer", "k", "hello", opts), sweeper("sweeper")},
		AtRest: keeps,
	}
}

// repeatedThenDeleted: an upload that took two requests is committed and then
// deleted; nothing of either request stays.
func repeatedThenDeleted() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Passes:  never,
		Options: noGrace(),
		Actors: []blobtxtest.Actor{
			actor("client", func(ctx context.Context, p *blobtxtest.Process) error {
				if _, err := put(ctx, p, "k", "hello", nil); err != nil {
					return err
				}
				return p.Delete(ctx, "k", nil)
			}),
		},
	}
}

// settleAgainstLateCommit: after a COMMIT whose reply was lost, Settle's answer
// is final, even for a COMMIT that is still on its way.
func settleAgainstLateCommit() blobtxtest.Scenario {
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
				return commitTx(ctx, p, up)
			}),
			writer("other", "k", "other", nil),
		},
		AtRest: keeps,
	}
}

// staleToken: who holds a version of an object that was deleted and created
// again changes nothing.
func staleToken() blobtxtest.Scenario {
	var before, again blobtx.Object
	setup := old(&before)
	return blobtxtest.Scenario{
		Passes:  never,
		Options: noGrace(),
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			again = blobtx.Object{}
			return setup(ctx, p)
		},
		Actors: []blobtxtest.Actor{
			actor("recreator", func(ctx context.Context, p *blobtxtest.Process) error {
				if err := p.Delete(ctx, "k", nil); err != nil {
					return err
				}
				o, err := put(ctx, p, "k", "again", nil)
				if err == nil && ctx.Err() == nil { // nobody hears the dead
					again = o
				}
				return err
			}),
			actor("stale", func(ctx context.Context, p *blobtxtest.Process) error {
				_, err := put(ctx, p, "k", "stale", &blobtx.PutOptions{If: blobtx.IfVersion(before.Version)})
				if err == nil {
					return nil
				}
				return p.Delete(ctx, "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(before.Version)})
			}),
		},
		Always: func(ctx context.Context, v *blobtxtest.View) error {
			if again.IntentID == "" {
				return holds("k", "old", "stale", "again")(ctx, v)
			}
			if len(v.Objects) != 1 || v.Objects[0].IntentID != again.IntentID {
				return errors.New("what was created again was changed by a stale token")
			}
			return nil
		},
	}
}

// impatientFirst: an attempt that gives up, because its client left, does not
// take a later attempt of the same request with it.
func impatientFirst() blobtxtest.Scenario {
	opts := &blobtx.PutOptions{IdempotencyKey: "request"}
	return blobtxtest.Scenario{
		Passes: never,
		Actors: []blobtxtest.Actor{
			actor("first", func(ctx context.Context, p *blobtxtest.Process) error {
				_, err := p.Put(ctx, "k", io.MultiReader(strings.NewReader("hel"), clientLeft{}), opts)
				return err
			}),
			actor("second", func(ctx context.Context, p *blobtxtest.Process) error {
				in, err := p.Intent(ctx, "k", &blobtx.IntentOptions{IdempotencyKey: opts.IdempotencyKey})
				if err != nil {
					return err
				}
				up, err := p.Upload(ctx, in, strings.NewReader("hello"), nil)
				if err == nil {
					defer up.Release()
					_, err = p.Commit(ctx, nil, up)
				}
				if in.Version > 1 && errors.Is(err, blobtx.ErrIntentLost) { // it had taken over
					p.Errorf("the latest attempt lost its intent to one that had given up: %v", err)
				}
				return err
			}),
		},
	}
}

type clientLeft struct{}

func (clientLeft) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// askedByAnother: a process asks for the outcome of another's upload. Told
// "not committed", it can rely on that for ever.
func askedByAnother() blobtxtest.Scenario {
	var id, denied string
	return blobtxtest.Scenario{
		Passes: never,
		Setup: func(context.Context, *blobtxtest.Process) error {
			id, denied = "", ""
			return nil
		},
		Actors: []blobtxtest.Actor{
			actor("writer", func(ctx context.Context, p *blobtxtest.Process) error {
				up, err := p.Stage(ctx, "k", strings.NewReader("hello"), nil)
				if err != nil {
					p.Refused("k", err)
					return err
				}
				defer up.Release()
				id = up.Intent().ID
				objects, err := p.Commit(ctx, nil, up)
				if err != nil {
					p.Refused("k", err)
					return err
				}
				p.Acked("k", objects[0])
				return nil
			}),
			actor("asker", func(ctx context.Context, p *blobtxtest.Process) error {
				if err := p.Moment(ctx, "the question"); err != nil || id == "" {
					return err
				}
				asked := id
				outcome, err := p.Outcome(ctx, asked)
				if err == nil && !outcome.Committed && ctx.Err() == nil {
					denied = asked
				}
				return err
			}),
		},
		Always: func(_ context.Context, v *blobtxtest.View) error {
			for _, o := range v.Objects {
				if o.IntentID == denied {
					return errors.New("an upload is visible that was said to be not committed, for good")
				}
			}
			return nil
		},
	}
}

// restarted: a process that dies at any moment is started again and tries the
// same request; the client hears of it once.
func restarted() blobtxtest.Scenario {
	w := writer("writer", "k", "hello", &blobtx.PutOptions{IdempotencyKey: "request"})
	w.Restarts = 2
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{w, sweeper("sweeper")},
		AtRest: keeps,
	}
}
