package wire_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/wire"
)

// lines is a protocol in which each line is a request, and its answer is the
// line "<line> done" after any number of others.
func lines() (client, server wire.Reader) {
	read := func(r *bufio.Reader) (string, error) { return r.ReadString('\n') }
	return func(r *bufio.Reader) (wire.Message, error) {
			s, err := read(r)
			return wire.Message{Bytes: []byte(s), Begins: true, Ends: true, Text: s}, err
		}, func(r *bufio.Reader) (wire.Message, error) {
			s, err := read(r)
			return wire.Message{Bytes: []byte(s), Ends: len(s) > 5 && s[len(s)-5:] == "done\n"}, err
		}
}

// lineServer answers each line with two, and remembers what it was asked.
type lineServer struct {
	mu   sync.Mutex
	seen []string
}

func (s *lineServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *lineServer) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewScanner(c); r.Scan(); {
		s.mu.Lock()
		s.seen = append(s.seen, r.Text())
		s.mu.Unlock()
		if _, err := fmt.Fprintf(c, "%s begun\n%s done\n", r.Text(), r.Text()); err != nil {
			return
		}
	}
}

func startLines(t *testing.T) (*lineServer, *wire.Proxy) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &lineServer{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		all.Wait()
	})
	return s, wire.New(t, l.Addr().String(), lines)
}

// say sends everything at once and returns all that comes back until the end.
func say(t *testing.T, x *wire.Proxy, text string) string {
	c, err := net.Dial("tcp", x.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	got, _ := io.ReadAll(c) // the end is a close or a reset
	return string(got)
}

const answerToA = "a begun\na done\n"

func TestAFaultMeetsExactlyItsRequest(t *testing.T) {
	for _, c := range []struct {
		fault wire.Fault
		asked []string // of the server, at least: what follows in a pipeline may arrive or not
	}{
		{wire.RequestLost, []string{"a"}},
		{wire.ReplyLost, []string{"a", "b"}},
		{wire.Unreachable, []string{"a"}},
		{wire.ReplyLostUnreachable, []string{"a", "b"}},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			s, x := startLines(t)
			x.Fail(2, c.fault)
			got := say(t, x, "a\nb\n")
			if c.fault == wire.ReplyLost || c.fault == wire.ReplyLostUnreachable {
				require.Equal(t, answerToA, got, "a pipelined request is answered before the cut")
			} else {
				require.Contains(t, answerToA, got) // the cut may overtake the answer
			}
			again := ask(t, x, "c")
			if c.fault == wire.Unreachable || c.fault == wire.ReplyLostUnreachable {
				require.Empty(t, again)
			} else {
				require.Equal(t, "c begun\nc done\n", again)
				c.asked = append(c.asked, "c")
			}
			sent, met := x.Heal()
			require.True(t, met)
			require.Equal(t, []string{"a\n", "b\n"}, sent[:2])
			require.Equal(t, "d begun\nd done\n", ask(t, x, "d"))
			if got := s.asked(); c.fault == wire.RequestLost || c.fault == wire.Unreachable {
				require.NotContains(t, got, "b")
			} else {
				require.Equal(t, append(c.asked, "d"), got)
			}
		})
	}
}

// ask asks one thing and waits for its answer, or for the end.
func ask(t *testing.T, x *wire.Proxy, line string) string {
	c, err := net.Dial("tcp", x.Addr())
	require.NoError(t, err)
	defer c.Close()
	if _, err := fmt.Fprintln(c, line); err != nil {
		return ""
	}
	r := bufio.NewReader(c)
	got := ""
	for range 2 {
		s, err := r.ReadString('\n')
		got += s
		if err != nil {
			break
		}
	}
	return got
}

func TestALateRequestLandsWhenTheTestSaysSo(t *testing.T) {
	s, x := startLines(t)
	x.Fail(2, wire.RequestLate)
	require.NotEmpty(t, ask(t, x, "a"))
	require.Empty(t, ask(t, x, "b"))
	require.NotEmpty(t, ask(t, x, "c"))
	require.Equal(t, []string{"a", "c"}, s.asked())
	x.Land()
	require.Equal(t, []string{"a", "c", "b"}, s.asked())
	x.Land()
	require.Equal(t, []string{"a", "c", "b"}, s.asked(), "once")
}

func TestWithoutAFaultTheProxyOnlyCounts(t *testing.T) {
	s, x := startLines(t)
	for _, line := range []string{"a", "b", "c"} {
		require.Equal(t, line+" begun\n"+line+" done\n", ask(t, x, line))
	}
	sent, met := x.Heal()
	require.False(t, met)
	require.Equal(t, []string{"a\n", "b\n", "c\n"}, sent)
	require.Equal(t, []string{"a", "b", "c"}, s.asked())
	x.Fail(2, wire.RequestLost)
	require.NotEmpty(t, ask(t, x, "d"))
	_, met = x.Heal()
	require.False(t, met, "there was no second")
}
