package testenv

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// ending notes how a test ended.
type ending struct {
	testing.TB
	how string
}

func (*ending) Helper()      {}
func (*ending) Name() string { return "TestOfSomething" }
func (e *ending) Fatal(...any) {
	e.how = "failed"
	runtime.Goexit()
}

func (e *ending) Skip(...any) {
	e.how = "skipped"
	runtime.Goexit()
}

func TestWhatIsMissing(t *testing.T) {
	end := func() string {
		e, ended := &ending{how: "went on"}, make(chan struct{})
		go func() {
			defer close(ended)
			Lookup(e, "a service", "BLOBTX_TEST_NOTHING")
		}()
		<-ended
		return e.how
	}
	t.Setenv(StrictEnv, "1")
	require.Equal(t, "failed", end())
	t.Setenv(StrictEnv, "")
	require.Equal(t, "skipped", end())
	t.Setenv("BLOBTX_TEST_NOTHING", "there")
	require.Equal(t, "went on", end())
}
