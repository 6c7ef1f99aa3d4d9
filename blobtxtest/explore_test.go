package blobtxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

func act(name string, run func(ctx context.Context, p *Process) error) Actor {
	return Actor{Name: name, Run: run}
}

func putter(name, key string) Actor {
	return act(name, func(ctx context.Context, p *Process) error {
		o, err := p.Put(ctx, key, strings.NewReader(name), nil)
		if err != nil {
			p.Refused(key, err)
			return err
		}
		p.Acked(key, o)
		return nil
	})
}

func sweeping() Actor {
	return act("sweeper", func(ctx context.Context, p *Process) error {
		_, err := p.Sweep(ctx, nil)
		return err
	})
}

// finds explores and requires a violation of this kind, which its trace
// replays.
func finds(t *testing.T, kind string, s Scenario) *violation {
	t.Helper()
	v := newExplorer(t, s).explore()
	require.NotNil(t, v, "nothing was found")
	require.Contains(t, v.what, kind)
	s.Limits.Trace = v.trace
	again := newExplorer(t, s).explore()
	require.NotNil(t, again, "the trace does not replay")
	require.Equal(t, v.what, again.what)
	require.Equal(t, v.steps, again.steps)
	return v
}

// A handler that knows nothing of blobtx: it uploads, then inserts a row, and
// deletes the blob when the insert fails.
func TestTheNaiveHandlerIsCaught(t *testing.T) {
	naive := func(clean bool) Actor {
		return act("handler", func(ctx context.Context, p *Process) error {
			in, err := p.Intent(ctx, "k", nil)
			if err != nil {
				return err
			}
			blob, err := p.Blobs.Create(ctx, store.CreateParams{Name: in.BlobName, IntentID: in.ID, Key: "k", Body: store.NewBody(strings.NewReader("hello"), -1, "")})
			if err != nil {
				return err
			}
			objects, err := p.Rows.CommitObjects(ctx, []store.CommitParams{{IntentID: in.ID, Version: in.Version, Key: "k", Blob: blob}})
			if err != nil {
				if clean {
					p.Blobs.Delete(ctx, []store.DeleteBlob{{Name: in.BlobName, IntentID: in.ID}})
				}
				p.Refused("k", err)
				return err
			}
			p.Acked("k", objects[0])
			return nil
		})
	}
	limits := Limits{Faults: 1}
	v := finds(t, "dangling: ", Scenario{Actors: []Actor{naive(true)}, Limits: limits})
	require.Contains(t, v.steps, "commit objects k: applied, reply lost")
	finds(t, "lie: ", Scenario{Actors: []Actor{naive(false)}, Limits: limits})
}

func TestEachCheckFinds(t *testing.T) {
	for _, c := range []struct {
		what string
		run  func(ctx context.Context, p *Process) error
	}{
		{"lie: actor told its client", func(_ context.Context, p *Process) error {
			p.Acked("k", blobtx.Object{Key: "k", Version: 7})
			return nil
		}},
		{"lie: version", func(ctx context.Context, p *Process) error {
			_, err := p.Put(ctx, "k", strings.NewReader("x"), nil)
			p.Refused("k", errors.New("no"))
			return err
		}},
		{"guard: sealed blob", func(ctx context.Context, p *Process) error {
			o, err := p.Put(ctx, "k", strings.NewReader("x"), nil)
			if err != nil {
				return err
			}
			if _, err := p.Rows.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.Always(), ReadGrace: 1}); err != nil {
				return err
			}
			p.run.e.ledger.retired = map[string]bool{} // as if the store had not recorded it
			p.run.e.place.(*memoryPlace).rows.RemoveRetired(o.Blob.Name)
			p.Blobs.Delete(ctx, []store.DeleteBlob{{Name: o.Blob.Name, IntentID: o.IntentID}})
			return nil
		}},
		{"orphan: ", func(ctx context.Context, p *Process) error {
			_, err := p.Blobs.Create(ctx, store.CreateParams{Name: "b", IntentID: "i", Body: store.NewBody(strings.NewReader("x"), -1, "")})
			return err
		}},
		{"actor: seen", func(_ context.Context, p *Process) error {
			p.Errorf("seen")
			return nil
		}},
		{"actor panicked: oh", func(context.Context, *Process) error { panic("oh") }},
		{"nothing moves", func(ctx context.Context, _ *Process) error {
			<-ctx.Done()
			return nil
		}},
		{"no end after", func(ctx context.Context, p *Process) error {
			for ctx.Err() == nil {
				_, _ = p.Get(ctx, "k")
			}
			return nil
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := newExplorer(t, Scenario{Actors: []Actor{act("actor", c.run)}}).explore()
			require.NotNil(t, v, "nothing was found")
			require.Contains(t, v.what, c.what)
		})
	}
}

func TestTheScenariosOwnChecks(t *testing.T) {
	no := func(context.Context, *View) error { return errors.New("no") }
	require.Contains(t, finds(t, "Always: no", Scenario{Actors: []Actor{putter("one", "k")}, Always: no}).what, "no")
	finds(t, "AtRest: no", Scenario{Actors: []Actor{putter("one", "k")}, AtRest: no})
	asked := 0
	Explore(t, Scenario{
		Setup: func(ctx context.Context, p *Process) error {
			_, err := p.Put(ctx, "before", strings.NewReader("old"), nil)
			return err
		},
		Actors: []Actor{putter("one", "k")},
		AtRest: func(_ context.Context, v *View) error {
			asked++
			if len(v.Objects) != 2 || len(v.Blobs) != 2 || v.Acked["k"].Key != "k" {
				return fmt.Errorf("%+v", v)
			}
			return nil
		},
	})
	require.Positive(t, asked)
}

func TestADeadProcessIsNotHeard(t *testing.T) {
	Explore(t, Scenario{
		Actors: []Actor{act("actor", func(ctx context.Context, p *Process) error {
			_, _ = p.Put(ctx, "k", strings.NewReader("x"), nil)
			if ctx.Err() != nil {
				p.Acked("k", blobtx.Object{Key: "k", Version: 7}) // a lie, if anybody heard it
			}
			return nil
		})},
		Limits: Limits{Faults: 1},
	})
}

// The same schedules every time, and merging states hides nothing that taking
// every schedule finds.
func TestExplorationIsRepeatable(t *testing.T) {
	s := Scenario{Actors: []Actor{putter("one", "k"), putter("two", "k")}}
	first, second := newExplorer(t, s), newExplorer(t, s)
	require.Nil(t, first.explore())
	require.Nil(t, second.explore())
	require.Equal(t, first.stats, second.stats)
	require.True(t, first.stats.Complete)

	unmerged := newExplorer(t, Scenario{Actors: s.Actors, Passes: s.Passes, Limits: Limits{Executions: 3000}})
	unmerged.keepApart = true
	require.Nil(t, unmerged.explore())
	require.Greater(t, unmerged.stats.Executions, first.stats.Executions)
}

func TestLimits(t *testing.T) {
	s := Scenario{Actors: []Actor{putter("one", "k"), sweeping()}, Limits: Limits{Faults: 1, Executions: 50}}
	x := newExplorer(t, s)
	require.Nil(t, x.explore())
	require.Equal(t, 50, x.stats.Executions)
	require.False(t, x.stats.Complete)
	require.Equal(t, x.stats.Injected, x.stats.Surfaced)

	s.Limits = Limits{Faults: 3, Executions: 200, Seed: 5}
	a, b := newExplorer(t, s), newExplorer(t, s)
	require.Nil(t, a.explore())
	require.Nil(t, b.explore())
	require.Equal(t, 200, a.stats.Executions)
	require.Equal(t, a.stats, b.stats)
	require.Positive(t, a.stats.Injected)

	s.Limits = Limits{Trace: "0z"}
	require.Contains(t, newExplorer(t, s).explore().what, "not of this scenario: decision 2 takes option 35")
	s.Limits = Limits{Trace: "?"}
	require.Contains(t, newExplorer(t, s).explore().what, "trace")
}

func TestTraces(t *testing.T) {
	s := schedule{taken: []choice{{1, 2}, {35, 99}, {40, 99}, {0, 3}, {0, 1}}, at: 5}
	require.Equal(t, "1z(40)", s.String())
	back, err := parseTrace("1z(40)")
	require.NoError(t, err)
	require.Equal(t, []choice{{one: 1}, {one: 35}, {one: 40}}, back.taken)
}

func TestCheck(t *testing.T) {
	ctx := t.Context()
	rows, blobs := memstore.NewRows(nil), memstore.NewBlobs(nil)
	c, err := blobtx.New(rows, blobs, nil)
	require.NoError(t, err)
	_, err = c.Put(ctx, "k", strings.NewReader("old"), nil)
	require.NoError(t, err)
	o, err := c.Put(ctx, "k", strings.NewReader("new"), &blobtx.PutOptions{If: blobtx.Always()})
	require.NoError(t, err)
	up, err := c.Stage(ctx, "pending", strings.NewReader("x"), nil)
	require.NoError(t, err)
	up.Release()
	Check(t, rows, blobs)

	blobs.PutForeign("foreign", []byte("x"))
	require.ErrorContains(t, errors.Join(check(ctx, rows, blobs)...), "bears no intent")
	blobs.Remove("foreign")
	rows.RemoveRetired(rows.RetiredNames()[0].BlobName)
	require.ErrorContains(t, errors.Join(check(ctx, rows, blobs)...), "orphan")
	blobs.Remove(o.Blob.Name)
	require.ErrorContains(t, errors.Join(check(ctx, rows, blobs)...), "dangling")
	blobs.PutForeign(o.Blob.Name, []byte("new"))
	require.ErrorContains(t, errors.Join(check(ctx, rows, blobs)...), "another ETag")
}
