package blobtxtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// The copy is put back at every moment there is, everything starts again, and
// what the explorer then still asks for can be missed.
func TestARestoredDatabase(t *testing.T) {
	started, held := 0, 0
	s := Scenario{
		Actors: []Actor{act("writer", func(ctx context.Context, p *Process) error {
			started++
			up, err := p.Stage(ctx, "k", strings.NewReader("x"), nil)
			if err != nil {
				return err
			}
			defer up.Release()
			_, err = p.Commit(ctx, nil, up)
			return err
		})},
		AtRest: func(_ context.Context, v *View) error {
			if len(v.Blobs) > len(v.Objects) {
				held++
			}
			return nil
		},
		Held:    true,
		Restore: ByTheRunbook,
	}
	x := newExplorer(t, s)
	require.Nil(t, x.explore())
	require.True(t, x.stats.Complete)
	require.Greater(t, started, x.stats.Executions, "nobody started again")
	require.Positive(t, held, "no upload of a copy was held")

	s.Held = false
	finds(t, "held: ", s)
	s.Held = true
	s.AtRest = nil
	s.Actors = append(s.Actors, act("vandal", func(ctx context.Context, p *Process) error {
		intents := p.run.e.ledger.now.intents
		if len(intents) == 0 || intents[0].State != store.Held {
			return nil
		}
		return errors.Join(p.Blobs.Delete(ctx, []store.DeleteBlob{{Name: intents[0].BlobName, IntentID: intents[0].ID}})...)
	}))
	finds(t, "restore: ", s)
}
