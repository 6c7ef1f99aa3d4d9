//go:build unix

package launch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A shell that starts a child which ignores the polite signal, and says so by a
// line of output.
const stubborn = `trap '' TERM; sleep 600 & echo up; wait`

// pipeOf gives cmd a pipe as output. Everything that cmd starts holds the pipe
// open, so its end proves that all of it is gone.
func pipeOf(t *testing.T, cmd *exec.Cmd) (r *bufio.Reader, closeOurs func()) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { require.NoError(t, read.Close()) })
	cmd.Stdout = write
	return bufio.NewReader(read), func() { require.NoError(t, write.Close()) }
}

func TestStopEndsWhatTheCommandStarted(t *testing.T) {
	cmd := exec.Command("sh", "-c", stubborn)
	output, closeOurs := pipeOf(t, cmd)
	p, err := Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	closeOurs()
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)

	p.Stop(syscall.SIGTERM, 10*time.Millisecond)
	require.Error(t, p.Err())
	_, err = output.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	p.Stop(syscall.SIGTERM, 10*time.Millisecond) // a second time is harmless
}

func TestWhatOutlivesTheCommandIsEnded(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 &")
	output, closeOurs := pipeOf(t, cmd)
	p, err := Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	closeOurs()
	<-p.Done()
	require.NoError(t, p.Err())
	_, err = output.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cmd := exec.Command("sleep", "600")
	output, closeOurs := pipeOf(t, cmd)
	err := Run(ctx, cmd, func(int) error {
		closeOurs()
		cancel(why)
		return nil
	})
	require.ErrorIs(t, err, why)
	_, err = output.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestServerThatDoesNotStartShowsItsLog(t *testing.T) {
	tries := 0
	_, err := start(t.Context(), "broken", func(int) attempt {
		tries++
		return attempt{
			cmd:        exec.Command("sh", "-c", "echo cannot bind; exit 3"),
			logPath:    t.TempDir() + "/log",
			stopSignal: syscall.SIGKILL,
			probe:      func(context.Context) error { return errors.New("nobody home") },
		}
	})
	require.ErrorContains(t, err, "start broken: ended before it was ready: exit status 3")
	require.True(t, strings.HasSuffix(err.Error(), "cannot bind"), err.Error())
	require.Equal(t, startTries, tries)
}
