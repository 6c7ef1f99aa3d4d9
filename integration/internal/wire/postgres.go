package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Postgres is PostgreSQL's protocol 3 without encryption (PostgreSQL, "Frontend
// and Backend Protocol"). A request is a simple query, or the messages of the
// extended protocol up to a Sync; ReadyForQuery ends the answer to either.
// Requests that are pipelined are answered in order. Beginning a connection,
// its authentication included, is a request; a cancellation is none, and COPY
// is not understood.
func Postgres() (client, server Reader) {
	c := &postgresClient{statements: map[string]string{}}
	return c.read, readBackend
}

const (
	maxMessage = 64 << 20

	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSS    = 80877104
)

type postgresClient struct {
	begun      bool
	open       bool              // inside an extended request
	statements map[string]string // prepared, by name
}

func (c *postgresClient) read(r *bufio.Reader) (Message, error) {
	if !c.begun {
		return c.startup(r)
	}
	kind, raw, err := readTyped(r)
	if err != nil {
		return Message{}, err
	}
	body := raw[5:]
	m := Message{Bytes: raw}
	switch kind {
	case 'Q', 'F': // Query, FunctionCall
		m.Begins, m.Text, m.Ends = !c.open, cstring(&body), true
		c.open = false
	case 'P', 'B', 'D', 'E', 'C', 'H', 'S': // Parse, Bind, Describe, Execute, Close, Flush, Sync
		m.Begins, m.Text = !c.open, c.text(kind, body)
		c.open, m.Ends = kind != 'S', kind == 'S'
	case 'p', 'X': // an answer to the authentication, Terminate
	default:
		return Message{}, fmt.Errorf("%w: a client's message %q", errProtocol, kind)
	}
	return m, nil
}

func (c *postgresClient) startup(r *bufio.Reader) (Message, error) {
	head, err := r.Peek(8)
	if err != nil {
		return Message{}, err
	}
	raw, err := readSized(r, 0)
	if err != nil {
		return Message{}, err
	}
	switch code := binary.BigEndian.Uint32(head[4:]); code {
	case codeCancel:
		return Message{Bytes: raw}, nil
	case codeSSL, codeGSS:
		return Message{}, fmt.Errorf("%w: encryption is asked for: use sslmode=disable", errProtocol)
	}
	c.begun = true
	return Message{Bytes: raw, Begins: true, Ends: true, Text: "connect"}, nil
}

// text says what a message of the extended protocol is about.
func (c *postgresClient) text(kind byte, body []byte) string {
	switch kind {
	case 'P':
		name, query := cstring(&body), cstring(&body)
		c.statements[name] = query
		return "prepare " + query
	case 'B':
		cstring(&body) // the portal
		return c.statements[cstring(&body)]
	case 'C':
		return "close"
	}
	return string(rune(kind))
}

// cstring takes a string that ends in NUL off the body.
func cstring(body *[]byte) string {
	s, rest, _ := bytes.Cut(*body, []byte{0})
	*body = rest
	return strings.Join(strings.Fields(string(s)), " ")
}

func readBackend(r *bufio.Reader) (Message, error) {
	kind, raw, err := readTyped(r)
	if err != nil {
		return Message{}, err
	}
	// An Authentication message with a code other than 0 is a question; the last
	// of SASL (12) is none, and is no answer either.
	asks := kind == 'R' && len(raw) >= 9 && binary.BigEndian.Uint32(raw[5:]) != 0
	return Message{Bytes: raw, Ends: kind == 'Z', Asks: asks}, nil
}

// readTyped reads a message that begins with a byte for its kind.
func readTyped(r *bufio.Reader) (kind byte, raw []byte, err error) {
	head, err := r.Peek(1)
	if err != nil {
		return 0, nil, err
	}
	kind = head[0]
	raw, err = readSized(r, 1)
	return kind, raw, err
}

// readSized reads a message whose length, which counts itself, is at this offset.
func readSized(r *bufio.Reader, at int) ([]byte, error) {
	head, err := r.Peek(at + 4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[at:])
	if size < 4 || size > maxMessage {
		return nil, fmt.Errorf("%w: a message of %d bytes", errProtocol, size)
	}
	raw := make([]byte, at+int(size))
	_, err = io.ReadFull(r, raw)
	return raw, err
}
