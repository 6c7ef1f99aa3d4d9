package blobtxtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// statsVariable is the environment variable that names the file to which every
// exploration appends one line of Stats.
const statsVariable = "BLOBTX_EXPLORE_STATS"

// Stats is what one exploration did.
type Stats struct {
	Name       string
	Executions int  // distinct schedules that were run
	Merged     int  // of those: ended in a state that was met before
	States     int  // distinct states at which there was a choice
	Injected   int  // faults
	Surfaced   int  // of those: somebody got an error for it
	Complete   bool // every schedule within the limits was taken
	Violations int
	Seconds    float64
}

// String is one line of fields.
func (s Stats) String() string {
	complete := "no"
	if s.Complete {
		complete = "yes"
	}
	return fmt.Sprintf("executions=%d merged=%d states=%d injected=%d surfaced=%d complete=%s violations=%d seconds=%.1f scenario=%q",
		s.Executions, s.Merged, s.States, s.Injected, s.Surfaced, complete, s.Violations, s.Seconds, s.Name)
}

var statsFile sync.Mutex

func (s Stats) publish(t testing.TB) {
	t.Log(s)
	name := os.Getenv(statsVariable)
	if name == "" {
		return
	}
	statsFile.Lock()
	defer statsFile.Unlock()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, s)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		t.Errorf("write statistics: %v", err)
	}
}
