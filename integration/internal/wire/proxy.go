package wire

import (
	"bufio"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy is a TCP proxy. To begin a connection is a request, too.
type Proxy struct {
	Fate
	target   string
	protocol Protocol
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]bool
	late   []func() // puts a held request to the server
	closed bool
}

// New starts a proxy before the server at target, host and port. It ends with
// the test.
func New(t testing.TB, target string, p Protocol) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	x := &Proxy{target: target, protocol: p, listener: l, conns: map[*conn]bool{}}
	x.running.Go(x.accept)
	t.Cleanup(func() {
		x.mu.Lock()
		x.closed = true // for one that is being accepted
		x.mu.Unlock()
		require.NoError(t, l.Close())
		x.cutAll()
		x.running.Wait()
	})
	return x
}

// Addr is where clients connect, host and port.
func (x *Proxy) Addr() string { return x.listener.Addr().String() }

// Land lets the requests that were held reach the server, and waits for its
// answers.
func (x *Proxy) Land() {
	x.mu.Lock()
	late := x.late
	x.late = nil
	x.mu.Unlock()
	for _, land := range late {
		land()
	}
}

func (x *Proxy) accept() {
	for {
		client, err := x.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", x.target)
		if err != nil {
			_ = client.Close() // as if the proxy were not there
			continue
		}
		c := &conn{proxy: x, client: client, server: server, done: make(chan struct{})}
		x.mu.Lock()
		closed := x.closed
		x.conns[c] = true
		x.mu.Unlock()
		if closed || x.unreachable() {
			c.cut()
			continue
		}
		toServer, toClient := x.protocol()
		x.running.Go(func() { c.forward(toServer) })
		x.running.Go(func() { c.back(toClient) })
	}
}

func (x *Proxy) cutAll() {
	x.mu.Lock()
	all := make([]*conn, 0, len(x.conns))
	for c := range x.conns {
		all = append(all, c)
	}
	x.mu.Unlock()
	for _, c := range all {
		c.cut()
	}
}

// conn is one client's connection and the proxy's own to the server.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	held           bool          // its last request waits for Land
	done           chan struct{} // closed when the server has said its last

	mu      sync.Mutex
	pending []bool // per request that is not answered: its answer is to be lost
}

func (c *conn) cut() {
	// Errors of a connection that the other side, or the other pump, has closed.
	_ = c.client.Close()
	_ = c.server.Close()
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
}

// forward is the way from the client to the server.
func (c *conn) forward(read Reader) {
	defer c.leave()
	r := bufio.NewReader(c.client)
	for {
		m, err := read(r)
		if err != nil {
			return
		}
		if m.Begins {
			fault, hit := c.proxy.begin(m.Text)
			switch {
			case hit && fault == RequestLate:
				c.hold(m, read, r)
				return
			case hit && !fault.losesReply():
				return
			}
			c.mu.Lock()
			c.pending = append(c.pending, hit)
			c.mu.Unlock()
		}
		if _, err := c.server.Write(m.Bytes); err != nil {
			return
		}
	}
}

// hold takes the whole request from the client, which sees a cut then, and keeps
// the connection to the server for Land.
func (c *conn) hold(m Message, read Reader, r *bufio.Reader) {
	request := m.Bytes
	for !m.Ends {
		var err error
		if m, err = read(r); err != nil {
			return
		}
		request = append(request, m.Bytes...)
	}
	c.mu.Lock()
	c.pending = append(c.pending, true) // the answer finds nobody
	c.mu.Unlock()
	c.held = true
	c.proxy.mu.Lock()
	c.proxy.late = append(c.proxy.late, func() {
		if _, err := c.server.Write(request); err != nil {
			c.cut()
		}
		<-c.done
	})
	c.proxy.mu.Unlock()
	_ = c.client.Close()
}

// leave ends the connection. If an answer is still to be lost, only the way
// there ends: what was asked for is carried out before the cut.
func (c *conn) leave() {
	if c.held {
		return
	}
	if half, ok := c.server.(interface{ CloseWrite() error }); ok && c.owes() && half.CloseWrite() == nil {
		return
	}
	c.cut()
}

// back is the way from the server to the client.
func (c *conn) back(read Reader) {
	defer close(c.done)
	defer c.cut()
	r := bufio.NewReader(c.server)
	for {
		m, err := read(r)
		if err != nil {
			return
		}
		lost, ended := c.answered(m.Ends)
		switch {
		case lost && ended:
			return
		case lost && !m.Asks:
			continue
		}
		if _, err := c.client.Write(m.Bytes); err != nil && (m.Asks || !c.owes()) {
			return
		}
	}
}

// answered reports whether the message belongs to an answer that is to be lost,
// and whether it is the answer's last.
func (c *conn) answered(ends bool) (lost, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return false, ends // said without being asked
	}
	lost = c.pending[0]
	if ends {
		c.pending = c.pending[1:]
	}
	return lost, ends
}

// owes reports whether the answer that is to be lost is yet to come.
func (c *conn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.pending, true)
}

var errProtocol = errors.New("wire: not in the protocol")
