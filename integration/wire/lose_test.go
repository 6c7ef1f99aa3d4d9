package wire

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/integration/internal/wire"
)

// loseEach runs the operation once undisturbed, to see what it asks for, and
// then, each time in a new world, with every fault at every request.
func loseEach(t *testing.T, fate *wire.Fate, faults []wire.Fault, op operation, newWorld func(testing.TB) *world) {
	var all []string
	t.Run("undisturbed", func(t *testing.T) {
		w := newWorld(t)
		op.prepare(w)
		commits, retires := w.taken()
		fate.Heal()
		told := op.run(t.Context(), w)
		all, _ = fate.Heal()
		require.NoError(t, told)
		w.truthful(op, told, commits, retires)
	})
	require.NotEmpty(t, all)
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			for i := range all {
				t.Run(short(all[i]), func(t *testing.T) { loseOne(t, fate, f, all[:i+1], op, newWorld(t)) })
			}
		})
	}
}

// loseOne makes the last of the wanted requests meet the fault.
func loseOne(t *testing.T, fate *wire.Fate, f wire.Fault, want []string, op operation, w *world) {
	op.prepare(w)
	commits, retires := w.taken()
	fate.Fail(len(want), f)
	told := op.run(t.Context(), w)
	sent, met := fate.Heal()
	require.True(t, met, "request %d was not met: only %d were sent", len(want), len(sent))
	for i := range want {
		require.Equal(t, want[i], sent[i], "the same requests every time")
	}
	w.truthful(op, told, commits, retires)
}

// truthful: what was told is so, stays so, and leaves nothing behind. Before the
// operation so many uploads were committed and so many blobs given up.
func (w *world) truthful(op operation, told error, commits, retires int) {
	w.t.Helper()
	w.intact()
	visible := op.visible(w)
	switch {
	case told == nil:
		require.True(w.t, visible, "told yes, but it is not there")
	case errors.Is(told, blobtx.ErrOutcomeUnknown), op.partly:
	default:
		require.False(w.t, visible, "told %v, but it is there", told)
	}
	w.land()
	w.ended()
	if told == nil || !errors.Is(told, blobtx.ErrOutcomeUnknown) {
		require.Equal(w.t, visible, op.visible(w), "told %v, it changed when what was late had landed and all transactions had ended", told)
	}
	visible = op.visible(w)
	w.intact()
	if !op.partly {
		if visible {
			commits, retires = commits+op.commits, retires+op.retires
		}
		gotCommits, gotRetires := w.taken()
		require.Equal(w.t, []int{commits, retires}, []int{gotCommits, gotRetires}, "exactly once, or not at all")
		w.outcomes()
		require.Equal(w.t, visible, op.visible(w), "asking for outcomes has changed one")
	}
	w.atRest()
	require.Equal(w.t, visible, op.visible(w), "it changed when everything was at rest")
}

// short makes a statement a test's name.
func short(s string) string {
	words := strings.Fields(s)
	i := slices.IndexFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "UPDATE") || strings.HasPrefix(w, "INSERT") || w == "DELETE"
	})
	if len(words) > 6 && i > 0 {
		words = append(words[:1:1], words[i:]...)
	}
	return strings.Join(words[:min(len(words), 5)], " ")
}
