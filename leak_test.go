package blobtx_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store/memstore"
)

// A Coordinator needs no Close: what it starts ends with the operation, or with
// the context given to it. Every world checks that when its test ends (newWorld),
// and the process when all have ended.

func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(time.Minute); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left after the last test:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// checkLeaks requires, when the test ends, that no goroutine is left, and in a
// bubble also that no timer goes on working: in a hundred hours nothing is kept
// alive.
func checkLeaks(t testing.TB, rows *memstore.Rows) {
	// The test's context is cancelled before its cleanups run.
	t.Cleanup(func() {
		if t.Failed() {
			return // what it left is not the news
		}
		if left := leaked(time.Minute); left != "" {
			t.Errorf("goroutines are left at the end of the test:\n\n%s", left)
		}
		if _, inside := bubbleOf(ownStack()); !inside {
			return
		}
		before := rows.Intents()
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		if !reflect.DeepEqual(before, rows.Intents()) {
			t.Error("a keep-alive goes on after the end of the test")
		}
	})
}

// leaked returns the stacks of goroutines that should have ended: in a bubble
// all of it but this one, outside those of this module. Those that are about to
// end get the time for it: in a bubble Wait knows, outside there is a bound.
func leaked(bound time.Duration) string {
	bubble, inside := bubbleOf(ownStack())
	if inside {
		synctest.Wait()
		return strings.Join(others(func(stack string) bool {
			b, is := bubbleOf(stack)
			return is && b == bubble && !strings.Contains(stack, "testing/synctest.testingSynctestTest") &&
				!strings.Contains(stack, "internal/synctest.Run")
		}), "\n\n")
	}
	ours := func(stack string) bool {
		_, inBubble := bubbleOf(stack) // which has a check of its own
		return !inBubble && strings.Contains(stack, "github.com/blobtx/blobtx") &&
			strings.Contains(stack, "created by ") && !strings.Contains(stack, "created by testing.") // main has none
	}
	for start := time.Now(); ; runtime.Gosched() {
		left := others(ours)
		if len(left) == 0 || time.Since(start) > bound {
			return strings.Join(left, "\n\n")
		}
	}
}

// others returns the stacks of the goroutines that match, without this one.
func others(match func(stack string) bool) []string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	var found []string
	for _, stack := range strings.Split(string(buf[:n]), "\n\n")[1:] { // the first is this goroutine
		if match(stack) {
			found = append(found, stack)
		}
	}
	return found
}

func ownStack() string {
	buf := make([]byte, 1<<10)
	return string(buf[:runtime.Stack(buf, false)])
}

var bubbleMark = regexp.MustCompile(`^goroutine \d+[^\n]*\[[^\]\n]*synctest bubble (\d+)`)

// bubbleOf returns which bubble a goroutine is in, if it is in one.
func bubbleOf(stack string) (bubble string, inside bool) {
	m := bubbleMark.FindStringSubmatch(stack)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func TestALeakIsFound(t *testing.T) {
	leak := func(t *testing.T) {
		require.Empty(t, leaked(time.Minute))
		end := make(chan struct{})
		go func() { <-end }()
		require.Contains(t, leaked(0), "TestALeakIsFound")
		close(end)
		require.Empty(t, leaked(time.Minute))
	}
	leak(t)
	inBubble(t, "in a bubble", leak)
}
