package wire

import "bufio"

// Protocol returns the two readers of a new connection: of what the client
// sends, and of what the server sends. The two may share state; each is called
// from one goroutine.
type Protocol func() (client, server Reader)

// Reader reads one whole message from r.
type Reader func(r *bufio.Reader) (Message, error)

// Message is one message of either side.
type Message struct {
	Bytes []byte
	// Begins, of a client's message: it is the first of a request. Those that
	// follow belong to the same request until one begins another.
	Begins bool
	// Ends, of a client's message: it is the last of its request, which the
	// server answers now. Of a server's: with it the server has answered a
	// request for good. Requests are answered in the order in which they began.
	Ends bool
	// Asks, of a server's message: the server waits for the client to say more
	// before it goes on. It arrives even if the answer is to be lost, or there
	// would be none.
	Asks bool
	// Text is what a request asks for, for people: its statement.
	Text string
}
