package blobtxtest_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/blobtxtest/internal/scenarios"
)

// Every schedule of every scenario, with a few faults anywhere. What a test
// run takes is a slice; BLOBTX_EXPLORE=full takes them all, and a number as
// many faults as it says.
func TestScenarios(t *testing.T) {
	// Of parallel tests the last to register starts first: so the longest do.
	for _, n := range slices.Backward(scenarios.All()) {
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			s := n.Make()
			s.Limits.Faults = n.Quick
			switch explore := os.Getenv("BLOBTX_EXPLORE"); {
			case explore == "full":
				s.Limits.Faults = n.Full
			case explore != "":
				var err error
				s.Limits.Faults, err = strconv.Atoi(explore)
				require.NoError(t, err)
			case raceEnabled || testing.Short():
				s.Limits.Faults = min(n.Quick, 1)
				s.Limits.Executions = 1500
			}
			blobtxtest.Explore(t, s)
		})
	}
}
