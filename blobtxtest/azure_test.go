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

// azureSmall are the scenarios that every test run takes whole over Azure, with
// one fault, or as many as they ask for.
var azureSmall = []string{
	"create against a sweeper",
	"two creators of one key",
	"two replaces",
	"a conflict after which the caller commits anyway",
	"delete, re-create, stale token",
	"an upload that was repeated, then deleted",
	"an outcome asked for by another process",
	"an impatient first attempt",
	"a watched name is looked at again",
}

// azureLargest bounds a full exploration. Those with three actors and a few others
// are larger and do not complete, so that all take no more than a minute or two;
// Memory takes them whole.
const azureLargest = 30_000

// Every scenario over the real azstore, each of whose requests is a step: with
// one fault where all schedules are taken, and with as many as over Memory where
// random ones are. A test run takes the small ones whole and random schedules of
// the others; BLOBTX_EXPLORE=full takes all whole, up to azureLargest, and a
// number as many faults as it says.
func TestAzureScenarios(t *testing.T) {
	all := scenarios.All()
	for i := range all {
		all[i].Quick = min(all[i].Full, 1)
	}
	for _, n := range slices.Backward(append(all, scenarios.Azure()...)) {
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			s := n.Make()
			s.World = blobtxtest.Azure()
			switch explore := os.Getenv("BLOBTX_EXPLORE"); {
			case explore == "full":
				s.Limits = blobtxtest.Limits{Faults: n.Quick, Executions: azureLargest}
			case explore != "":
				faults, err := strconv.Atoi(explore)
				require.NoError(t, err)
				s.Limits = blobtxtest.Limits{Faults: faults, Executions: azureLargest}
			case raceEnabled || testing.Short():
				s.Limits = blobtxtest.Limits{Faults: n.Full, Executions: 150, Seed: 1}
			case slices.Contains(azureSmall, n.Name):
				s.Limits = blobtxtest.Limits{Faults: n.Quick}
			default:
				s.Limits = blobtxtest.Limits{Faults: n.Full, Executions: 800, Seed: 1}
			}
			blobtxtest.Explore(t, s)
		})
	}
}
