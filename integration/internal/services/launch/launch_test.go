//go:build unix

package launch

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that has written a line for each of its lives is ready.
func TestRestartIsANewLifeAtTheSamePlace(t *testing.T) {
	dir := t.TempDir()
	lives := filepath.Join(dir, "lives")
	read := func() []string {
		text, _ := os.ReadFile(lives) // not there yet: no life
		return strings.Fields(string(text))
	}
	want := 1
	server, err := start(t.Context(), "test", func(port int) attempt {
		return attempt{
			cmd:        exec.Command("sh", "-c", fmt.Sprintf("echo %d >>%s; sleep 600", port, lives)),
			logPath:    filepath.Join(dir, "log"),
			stopSignal: syscall.SIGQUIT,
			probe: func(context.Context) error {
				if n := len(read()); n != want {
					return fmt.Errorf("%d lives", n)
				}
				return nil
			},
		}
	})
	require.NoError(t, err)
	defer server.Stop()
	first := server.Done()
	want = 2
	require.NoError(t, server.Restart(t.Context()))
	<-first
	ports := read()
	require.Len(t, ports, 2)
	require.Equal(t, ports[0], ports[1])
	select {
	case <-server.Done():
		require.Fail(t, "its second life has ended")
	default:
	}
	server.Stop()
	<-server.Done()
}

func TestAPausedServerAnswersAfterResume(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, write, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = write
	p, err := Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	require.NoError(t, write.Close())
	server := &Server{process: p, stopSignal: syscall.SIGKILL}
	defer server.Stop()
	lines := bufio.NewReader(out)
	ask := func(wait time.Duration) (string, error) {
		require.NoError(t, out.SetReadDeadline(time.Now().Add(wait)))
		return lines.ReadString('\n')
	}

	_, err = in.Write([]byte("one\n"))
	require.NoError(t, err)
	line, err := ask(time.Minute)
	require.NoError(t, err)
	require.Equal(t, "one\n", line)

	require.NoError(t, server.Pause())
	_, err = in.Write([]byte("two\n"))
	require.NoError(t, err)
	_, err = ask(100 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, server.Resume())
	line, err = ask(time.Minute)
	require.NoError(t, err)
	require.Equal(t, "two\n", line)

	server.Stop()
	require.ErrorIs(t, server.Pause(), os.ErrProcessDone)
}
