package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/wire"
)

// packet is one, or several where it is too long for one.
func packet(sequence byte, body string) (all []byte) {
	const most = 1<<24 - 1
	for {
		part := body[:min(len(body), most)]
		all = append(all, byte(len(part)), byte(len(part)>>8), byte(len(part)>>16), sequence)
		all = append(all, part...)
		if len(part) < most {
			return all
		}
		body, sequence = body[most:], sequence+1
	}
}

func command(kind byte, rest string) []byte { return packet(0, string(kind)+rest) }

// Capabilities of a client.
const (
	since41      = 1 << 9
	encrypt      = 1 << 11
	compress     = 1 << 5
	notMariaDB   = 1 << 0
	deprecateEOF = 1 << 24
	skipMetadata = 1 << 4 // MariaDB's own
)

func handshake(can, canMariaDB uint32) []byte {
	le := func(n uint32) string { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }
	return packet(1, le(can)+"\x00\x00\x00\x01\x2d"+strings.Repeat("\x00", 19)+le(canMariaDB)+"me\x00\x00")
}

var (
	modern = handshake(since41|notMariaDB|deprecateEOF, 0)
	old    = handshake(since41|notMariaDB, 0)
	caches = handshake(since41|deprecateEOF, skipMetadata)
)

func TestMySQLRequests(t *testing.T) {
	long := strings.Repeat("x", 1<<24+100)
	for name, c := range map[string]struct {
		data []byte
		want []string
	}{
		"a connection":         {join(modern, packet(3, "secret")), []string{"connect"}},
		"queries":              {join(modern, command(3, "BEGIN"), command(3, "SELECT\n  1"), command(14, "")), []string{"connect", "BEGIN", "SELECT ?", "ping"}},
		"values in the text":   {join(modern, command(3, `UPDATE t1 SET a = 'it''s \' 7', b = _binary'x' WHERE id IN (1, 22)`)), []string{"connect", "UPDATE t1 SET a = ?, b = ? WHERE id IN (?, ?)"}},
		"in several packets":   {join(modern, command(3, "SELECT '"+long+"'"), command(3, "COMMIT")), []string{"connect", "SELECT ?", "COMMIT"}},
		"long data":            {join(modern, command(24, "\x01\x00\x00\x00\x00\x00x"), command(24, "\x01\x00\x00\x00\x00\x00y"), command(23, "\x01\x00\x00\x00\x00"), command(14, "")), []string{"connect", "", "ping"}},
		"a statement's close":  {join(modern, command(25, "\x01\x00\x00\x00"), command(22, "SELECT ?")), []string{"connect", "prepare SELECT ?"}},
		"the end is none":      {join(modern, command(1, "")), []string{"connect"}},
		"a session begun anew": {join(modern, command(31, ""), command(2, "db"), command(26, "\x01\x00\x00\x00")), []string{"connect", "reset connection", "use", "reset statement"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := wire.MySQL()
			got, all, err := texts(client, c.data)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, c.want, got)
			require.True(t, bytes.Equal(c.data, all))
		})
	}
}

func TestMySQLRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for want, data := range map[string][]byte{
		"tls=false":        handshake(since41|encrypt, 0),
		"compress=false":   handshake(since41|compress, 0),
		"before 4.1":       handshake(0, 0),
		"handshake of":     packet(1, "short"),
		"command 0x11":     join(modern, command(17, "user")),
		"an empty command": join(modern, packet(0, "")),
	} {
		client, _ := wire.MySQL()
		_, _, err := texts(client, data)
		require.ErrorContains(t, err, want)
	}
}

const (
	ok       = "\x00\x01\x00\x02\x00\x00\x00"
	okMore   = "\x00\x01\x00\x0a\x00\x00\x00"
	okEnd    = "\xfe\x00\x00\x02\x00\x00\x00"
	okFar    = "\x00\xfc\x00\x01\xfd\x00\x00\x01\x02\x00\x00\x00" // long numbers
	failed   = "\xff\x28\x04#23000Duplicate"
	greeting = "\x0a10.11\x00"
	eof      = "\xfe\x00\x00\x02\x00"
	eofMore  = "\xfe\x00\x00\x0a\x00"
	column   = "\x03def"
	row      = "\x011"
)

// Where an answer ends, and where the server asks: with what the client said
// before, because one packet means several things.
func TestMySQLAnswers(t *testing.T) {
	longRow := "\xfe\x00\x00\x00\x01\x00\x00\x00\x00" + strings.Repeat("x", 1<<24)
	query, prepare, execute := command(3, "SELECT 1"), command(22, "SELECT ?"), command(23, "\x07\x00\x00\x00\x00")
	const prepared = "\x00\x07\x00\x00\x00" // then the columns, the parameters, and a filler
	for name, c := range map[string]struct {
		client []byte
		server []string
		want   string // per packet: . nothing, E ends, A asks
	}{
		"ok":                         {join(modern, query), []string{greeting, ok, okFar}, ".EE"},
		"refused":                    {modern, []string{greeting, failed}, ".E"},
		"another way to log in":      {modern, []string{greeting, "\xfeplugin\x00salt", "\x01\x04", "\x01\x03", ok}, ".AA.E"},
		"an error":                   {join(modern, query), []string{greeting, ok, failed}, ".EE"},
		"an error that nobody asked": {modern, []string{greeting, ok, failed}, ".E."},
		"rows":                       {join(modern, query), []string{greeting, ok, "\x02", column, column, row, row, okEnd}, ".E.....E"},
		"rows, the old way":          {join(old, query), []string{greeting, ok, "\x02", column, column, eof, row, eof}, ".E.....E"},
		"no rows":                    {join(modern, query), []string{greeting, ok, "\x01", column, okEnd}, ".E..E"},
		"no rows, the old way":       {join(old, query), []string{greeting, ok, "\x01", column, eof, eof}, ".E...E"},
		"an error among the rows":    {join(modern, query), []string{greeting, ok, "\x01", column, row, failed}, ".E...E"},
		"a row that begins as an end": {join(modern, query, query),
			[]string{greeting, ok, "\x01", column, longRow, okEnd, ok}, ".E...EE"},
		"a long row, the old way":         {join(old, query), []string{greeting, ok, "\x01", column, eof, longRow, eof}, ".E....E"},
		"several results":                 {join(modern, query), []string{greeting, ok, okMore, "\x01", column, row, "\xfe\x00\x00\x0a\x00\x00\x00", ok}, ".E.....E"},
		"several results, the old way":    {join(old, query), []string{greeting, ok, "\x01", column, eof, row, eofMore, ok}, ".E.....E"},
		"a binary row begins as an ok":    {join(modern, execute), []string{greeting, ok, "\x01", column, "\x00\x00\x01", okEnd}, ".E...E"},
		"prepared":                        {join(modern, prepare, query), []string{greeting, ok, prepared + "\x01\x00\x02\x00\x00\x00\x00", column, column, column, ok}, ".E...EE"},
		"prepared, the old way":           {join(old, prepare, query), []string{greeting, ok, prepared + "\x01\x00\x02\x00\x00\x00\x00", column, column, eof, column, eof, ok}, ".E.....EE"},
		"prepared without anything":       {join(modern, prepare, query), []string{greeting, ok, prepared + "\x00\x00\x00\x00\x00\x00\x00", ok}, ".EEE"},
		"not prepared":                    {join(modern, prepare, query), []string{greeting, ok, failed, ok}, ".EEE"},
		"columns that the client knows":   {join(caches, execute), []string{greeting, ok, "\x02\x00", "\x00\x00\x01\x01", okEnd}, ".E..E"},
		"columns that it does not know":   {join(caches, execute), []string{greeting, ok, "\x02\x01", column, column, "\x00\x00\x01\x01", okEnd}, ".E....E"},
		"a statement closed in between":   {join(modern, query, command(25, "\x07\x00\x00\x00"), query), []string{greeting, ok, ok, ok}, ".EEE"},
		"a ping, and the session's reset": {join(modern, command(14, ""), command(31, "")), []string{greeting, ok, ok, ok}, ".EEE"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := wire.MySQL()
			var data []byte
			for i, body := range c.server {
				data = append(data, packet(byte(i), body)...)
			}
			r := bufio.NewReader(bytes.NewReader(data))
			m, err := server(r) // the server speaks first
			require.NoError(t, err)
			_, _, err = texts(client, c.client)
			require.ErrorIs(t, err, io.EOF)
			all, got := m.Bytes, "."
			for range c.server[1:] {
				m, err := server(r)
				require.NoError(t, err)
				all = append(all, m.Bytes...)
				switch {
				case m.Ends:
					got += "E"
				case m.Asks:
					got += "A"
				default:
					got += "."
				}
			}
			require.Equal(t, c.want, got)
			require.True(t, bytes.Equal(data, all))
		})
	}
}

func TestMySQLAnswersThatAreNotUnderstood(t *testing.T) {
	for want, c := range map[string][2]string{
		"answer 0xfb":           {"\x03LOAD DATA LOCAL", "\xfbname"},
		"answer 0x7":            {"\x0e", "\x07"},
		"an empty answer":       {"\x0e", ""},
		"end of 3 bytes":        {"\x0e", "\x00\x00\x00"},
		"prepared statement of": {"\x16SELECT 1", "\x00\x07"},
	} {
		client, server := wire.MySQL()
		_, _, err := texts(client, join(modern, packet(0, c[0])))
		require.ErrorIs(t, err, io.EOF)
		_, _, err = texts(server, join(packet(2, ok), packet(1, c[1])))
		require.ErrorContains(t, err, want)
	}
}

// An Execute is told by what its statement was prepared from.
func TestMySQLKnowsItsStatements(t *testing.T) {
	client, server := wire.MySQL()
	_, _, err := texts(client, join(modern, command(22, "UPDATE t SET a = ?")))
	require.ErrorIs(t, err, io.EOF)
	_, _, err = texts(server, join(packet(2, ok), packet(1, "\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), packet(2, column)))
	require.ErrorIs(t, err, io.EOF)
	got, _, err := texts(client, join(command(24, "\x07\x00\x00\x00\x00\x00x"), command(23, "\x07\x00\x00\x00\x00"), command(23, "\x07\x00\x00\x00\x00")))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"UPDATE t SET a = ?", "UPDATE t SET a = ?"}, got)
}

// FuzzMySQL: whatever either side sends, the readers end and pass on exactly the
// bytes that came.
func FuzzMySQL(f *testing.F) {
	f.Add(join(modern, command(3, "SELECT 1"), command(22, "SELECT ?")), join(packet(2, ok), packet(1, "\x01"), packet(2, column), packet(3, row), packet(4, okEnd), packet(1, "\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00")))
	f.Add(join(old, command(23, "\x07\x00\x00\x00\x00")), join(packet(2, ok), packet(1, "\xfc\x01"), packet(2, eof)))
	f.Add(join(caches, command(23, "")), join(packet(2, ok), packet(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x00")))
	f.Add([]byte("\xff\xff\xff\x00"), []byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, fromClient, fromServer []byte) {
		client, server := wire.MySQL()
		for i, read := range []wire.Reader{client, server} {
			data := [][]byte{fromClient, fromServer}[i]
			_, all, err := texts(read, data)
			require.Error(t, err)
			require.True(t, bytes.HasPrefix(data, all))
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				require.Less(t, len(data)-len(all), 4, "only the beginning of a message is left over")
			}
		}
	})
}
