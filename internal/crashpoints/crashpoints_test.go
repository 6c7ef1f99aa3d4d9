package crashpoints

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/crash-points.md")

const (
	pageFile   = "../../docs/crash-points.md"
	statesFile = "../../docs/states.md"
)

// The page says what the code does now, and nobody was told a lie on the way.
func TestCrashPoints(t *testing.T) {
	text, seen, executions, problems := page(t)
	require.Empty(t, problems)
	t.Logf("crash points: executions=%d", executions)
	if *update {
		require.NoError(t, os.WriteFile(pageFile, []byte(text), 0o644))
	}
	committed, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	if string(committed) != text {
		t.Errorf("docs/crash-points.md is not what the code does now; run: %s", Update)
	}
	t.Run("states", func(t *testing.T) { drawn(t, seen) })
}

// drawn requires every change of state that was seen to be an arrow of
// docs/states.md.
func drawn(t *testing.T, seen *moves) {
	text, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	for heading, moves := range map[string]map[move]bool{"## Intents": seen.intents, "## Blobs": seen.blobs} {
		require.GreaterOrEqual(t, len(moves), 6, "%s: too little was seen", heading)
		arrows := arrowsOf(t, string(text), heading)
		for m := range moves {
			require.Contains(t, arrows, m, "%s: no arrow in docs/states.md for %s", heading, m)
		}
	}
}

var arrow = regexp.MustCompile(`(?m)^    (\S+) --> (\S+):`)

func arrowsOf(t *testing.T, text, heading string) map[move]bool {
	_, text, found := strings.Cut(text, heading)
	require.True(t, found)
	_, text, _ = strings.Cut(text, "```mermaid")
	text, _, _ = strings.Cut(text, "```")
	arrows := make(map[move]bool)
	for _, m := range arrow.FindAllStringSubmatch(text, -1) {
		arrows[move{state(m[1]), state(m[2])}] = true
	}
	return arrows
}

func state(name string) string {
	if name == "[*]" {
		return none
	}
	return name
}
