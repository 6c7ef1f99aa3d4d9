package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// MySQL is the client/server protocol of MySQL and MariaDB without encryption
// and compression (MySQL Source Code Documentation, "Client/Server Protocol";
// MariaDB, "Clients & Utilities", "Protocol"). A request is a command; what
// SendLongData says belongs to the Execute that follows. Beginning a connection,
// its authentication included, is a request. Commands that are not answered,
// the closing of a statement among them, are none. LOAD DATA LOCAL, cursors and
// a change of user are not understood.
//
// In a request's text a value is a question mark, as it is where the client does
// not write values into the text itself: so the same statement is the same text.
func MySQL() (client, server Reader) {
	c := &mysqlConn{statements: map[uint32]string{}}
	return (&mysqlClient{conn: c}).read, (&mysqlServer{conn: c}).read
}

// Commands ("Command Phase"); connecting stands for the connection phase.
const (
	connecting          = 0xff
	comQuit             = 0x01
	comInitDB           = 0x02
	comQuery            = 0x03
	comPing             = 0x0e
	comStmtPrepare      = 0x16
	comStmtExecute      = 0x17
	comStmtSendLongData = 0x18
	comStmtClose        = 0x19
	comStmtReset        = 0x1a
	comResetConnection  = 0x1f
)

// Capabilities ("Capabilities Flags"; MariaDB, "Connecting").
const (
	canMySQL        = 1 << 0 // not set where MariaDB's own capabilities follow
	canCompress     = 1 << 5
	canProtocol41   = 1 << 9
	canEncrypt      = 1 << 11
	canDeprecateEOF = 1 << 24
	canSkipMetadata = 1 << 4 // MariaDB's own: MARIADB_CLIENT_CACHE_METADATA
)

const (
	maxPacket   = 1<<24 - 1 // a packet so long is continued in the next
	moreResults = 1 << 3    // SERVER_MORE_RESULTS_EXISTS
)

// First bytes of answers.
const (
	okPacket       = 0x00
	moreAuthData   = 0x01
	localInfile    = 0xfb
	eofPacket      = 0xfe
	authSwitch     = 0xfe
	errPacket      = 0xff
	fastAuthIsDone = 0x03
)

// mysqlConn is what the answer to a command depends on.
type mysqlConn struct {
	mu           sync.Mutex
	asked        []mysqlCommand // not answered yet
	statements   map[uint32]string
	deprecateEOF bool
	skipMetadata bool
}

type mysqlCommand struct {
	kind byte
	text string
}

func (c *mysqlConn) ask(kind byte, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, mysqlCommand{kind, text})
}

func (c *mysqlConn) statement(id []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(id) < 4 {
		return ""
	}
	return c.statements[binary.LittleEndian.Uint32(id)]
}

type mysqlClient struct {
	conn  *mysqlConn
	begun bool
	open  bool // long data was sent, and its Execute was not
}

func (c *mysqlClient) read(r *bufio.Reader) (Message, error) {
	raw, body, err := readPackets(r)
	switch {
	case err != nil:
		return Message{}, err
	case !c.begun:
		return c.startup(raw, body)
	case raw[3] != 0: // continues what the server began: the authentication
		return Message{Bytes: raw}, nil
	case len(body) == 0:
		return Message{}, fmt.Errorf("%w: an empty command", errProtocol)
	}
	m := Message{Bytes: raw, Begins: !c.open}
	switch kind, rest := body[0], body[1:]; kind {
	case comQuit, comStmtClose:
		return Message{Bytes: raw}, nil
	case comStmtSendLongData:
		m.Text, c.open = c.conn.statement(rest), true
		return m, nil
	case comQuery:
		m.Text = withoutValues(rest)
	case comStmtPrepare:
		m.Text = "prepare " + withoutValues(rest)
	case comStmtExecute:
		m.Text = c.conn.statement(rest)
	case comInitDB, comPing, comStmtReset, comResetConnection:
		m.Text = map[byte]string{comInitDB: "use", comPing: "ping", comStmtReset: "reset statement", comResetConnection: "reset connection"}[kind]
	default:
		return Message{}, fmt.Errorf("%w: a client's command %#x", errProtocol, kind)
	}
	c.open, m.Ends = false, true
	c.conn.ask(body[0], m.Text)
	return m, nil
}

// startup reads the answer to the server's greeting.
func (c *mysqlClient) startup(raw, body []byte) (Message, error) {
	if len(body) < 32 {
		return Message{}, fmt.Errorf("%w: a handshake of %d bytes", errProtocol, len(body))
	}
	can := binary.LittleEndian.Uint32(body)
	switch {
	case can&canEncrypt != 0:
		return Message{}, fmt.Errorf("%w: encryption is asked for: use tls=false", errProtocol)
	case can&canCompress != 0:
		return Message{}, fmt.Errorf("%w: compression is asked for: use compress=false", errProtocol)
	case can&canProtocol41 == 0:
		return Message{}, fmt.Errorf("%w: a client of before 4.1", errProtocol)
	}
	c.begun = true
	c.conn.mu.Lock()
	c.conn.deprecateEOF = can&canDeprecateEOF != 0
	c.conn.skipMetadata = can&canMySQL == 0 && binary.LittleEndian.Uint32(body[28:])&canSkipMetadata != 0
	c.conn.mu.Unlock()
	c.conn.ask(connecting, "connect")
	return Message{Bytes: raw, Begins: true, Ends: true, Text: "connect"}, nil
}

var literal = regexp.MustCompile(`(?s)(_binary)?'(?:[^'\\]|\\.|'')*'|\b\d+\b`)

func withoutValues(query []byte) string {
	return strings.Join(strings.Fields(literal.ReplaceAllLiteralString(string(query), "?")), " ")
}

// mysqlServer follows one answer.
type mysqlServer struct {
	conn *mysqlConn
	skip int  // packets about columns that are yet to come
	rows bool // and rows, until their end
}

func (s *mysqlServer) read(r *bufio.Reader) (Message, error) {
	raw, body, err := readPackets(r)
	if err != nil {
		return Message{}, err
	}
	m := Message{Bytes: raw}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.conn.asked) == 0 { // the greeting, or why the server hangs up
		return m, nil
	}
	if len(body) == 0 {
		return m, fmt.Errorf("%w: an empty answer", errProtocol)
	}
	command := s.conn.asked[0]
	if command.kind == connecting {
		m.Ends = body[0] == okPacket || body[0] == errPacket
		fast := len(body) == 2 && body[0] == moreAuthData && body[1] == fastAuthIsDone
		m.Asks = (body[0] == authSwitch || body[0] == moreAuthData) && !fast
	} else if m.Ends, err = s.answer(command, body); err != nil {
		return m, err
	}
	if m.Ends {
		s.conn.asked = s.conn.asked[1:]
		s.skip, s.rows = 0, false
	}
	return m, nil
}

// answer reports whether the packet is the last of the answer to the command.
func (s *mysqlServer) answer(command mysqlCommand, body []byte) (ends bool, err error) {
	first := body[0]
	switch {
	case first == errPacket:
		return true, nil
	case s.skip > 0:
		s.skip--
		return s.skip == 0 && !s.rows, nil
	case s.rows:
		if first != eofPacket || len(body) >= s.longestEOF() {
			return false, nil
		}
		s.rows = false
		more, err := s.more(body)
		return !more, err
	case command.kind == comStmtPrepare:
		return s.prepared(command, body)
	case first == okPacket:
		more, err := s.more(body)
		return !more, err
	case first == localInfile || command.kind != comQuery && command.kind != comStmtExecute:
		return false, fmt.Errorf("%w: a server's answer %#x", errProtocol, first)
	}
	columns, rest := lengthEncoded(body)
	s.skip, s.rows = int(min(columns, maxPacket)), true
	if s.conn.skipMetadata && len(rest) > 0 && rest[0] == 0 {
		s.skip = 0 // the client has them from the prepare
	}
	if !s.conn.deprecateEOF {
		s.skip++
	}
	return false, nil
}

// prepared reads the answer to a prepare, which the descriptions of parameters
// and of columns follow.
func (s *mysqlServer) prepared(command mysqlCommand, body []byte) (ends bool, err error) {
	if len(body) < 9 {
		return false, fmt.Errorf("%w: a prepared statement of %d bytes", errProtocol, len(body))
	}
	s.conn.statements[binary.LittleEndian.Uint32(body[1:])] = strings.TrimPrefix(command.text, "prepare ")
	for _, at := range []int{5, 7} {
		n := int(binary.LittleEndian.Uint16(body[at:]))
		if n > 0 && !s.conn.deprecateEOF {
			n++
		}
		s.skip += n
	}
	return s.skip == 0, nil
}

// longestEOF: a row may begin with an EOF's first byte, but not a short one.
func (s *mysqlServer) longestEOF() int {
	if s.conn.deprecateEOF {
		return maxPacket
	}
	return 9
}

// more reports whether another result follows the one that this packet ends.
func (s *mysqlServer) more(body []byte) (bool, error) {
	status := body[1:]
	if body[0] == eofPacket && !s.conn.deprecateEOF {
		status = status[min(2, len(status)):] // after the warnings
	} else {
		for range 2 { // affected rows, last insert id
			if len(status) > 0 {
				_, status = lengthEncoded(status)
			}
		}
	}
	if len(status) < 2 {
		return false, fmt.Errorf("%w: an end of %d bytes", errProtocol, len(body))
	}
	return binary.LittleEndian.Uint16(status)&moreResults != 0, nil
}

// lengthEncoded takes an integer off the body, which is not empty.
func lengthEncoded(body []byte) (n uint64, rest []byte) {
	size := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[body[0]]
	if size == 0 {
		return uint64(body[0]), body[1:]
	}
	body = body[1:]
	size = min(size, len(body))
	var digits [8]byte
	copy(digits[:], body[:size])
	return binary.LittleEndian.Uint64(digits[:]), body[size:]
}

// readPackets reads a packet and those that continue it.
func readPackets(r *bufio.Reader) (raw, body []byte, err error) {
	for {
		head, err := r.Peek(4)
		if err == io.EOF && len(raw) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, nil, err
		}
		size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		if len(raw)+size > maxMessage {
			return nil, nil, fmt.Errorf("%w: a message of more than %d bytes", errProtocol, maxMessage)
		}
		at := len(raw)
		raw = append(raw, make([]byte, 4+size)...)
		if _, err := io.ReadFull(r, raw[at:]); err != nil {
			return nil, nil, err
		}
		body = append(body, raw[at+4:]...)
		if size < maxPacket {
			return raw, body, nil
		}
	}
}
