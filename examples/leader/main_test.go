package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The demo starts its own executable again, which here is the test's.
func TestMain(m *testing.M) {
	if os.Getenv("LEADER_IS_MEMBER") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Real processes, of which one at a time sweeps, and each in its turn.
func TestOneLeaderAmongSweepers(t *testing.T) {
	t.Setenv("LEADER_IS_MEMBER", "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, demo(ctx, &out), "%s", &out)
	reign := regexp.MustCompile(`^(\w) leads\n(\w) has sealed an object\n(\w) steps down\n`)
	var leaders []string
	for left := out.String(); left != ""; left = left[len(reign.FindString(left)):] {
		who := reign.FindStringSubmatch(left)
		require.NotNil(t, who, "%s", out.String())
		require.Equal(t, []string{who[1], who[1]}, who[2:])
		leaders = append(leaders, who[1])
	}
	require.ElementsMatch(t, []string{"a", "b", "c"}, leaders)
}
