package wire_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/wire"
)

func message(kind string, body string) []byte {
	raw := append([]byte(kind), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(raw[len(kind):], uint32(len(body)+4))
	return append(raw, body...)
}

func join(all ...[]byte) []byte { return bytes.Join(all, nil) }

var startup = message("", "\x00\x03\x00\x00user\x00me\x00\x00")

// texts reads everything and returns what the requests were, the bytes of all
// messages, and why it ended.
func texts(read wire.Reader, data []byte) (requests []string, all []byte, err error) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		m, err := read(r)
		if err != nil {
			return requests, all, err
		}
		all = append(all, m.Bytes...)
		if m.Begins {
			requests = append(requests, m.Text)
		}
	}
}

func TestPostgresRequests(t *testing.T) {
	sync, execute := message("S", ""), message("E", "\x00\x00\x00\x00\x00")
	for name, c := range map[string]struct {
		data []byte
		want []string
	}{
		"a connection":   {join(startup, message("p", "secret\x00")), []string{"connect"}},
		"simple queries": {join(startup, message("Q", "BEGIN\x00"), message("Q", "SELECT\n  1\x00")), []string{"connect", "BEGIN", "SELECT 1"}},
		"prepared, then run twice": {join(startup,
			message("P", "s1\x00SELECT $1\x00\x00\x00"), message("D", "Ss1\x00"), sync,
			message("B", "\x00s1\x00"), execute, sync, message("B", "\x00s1\x00"), execute, sync),
			[]string{"connect", "prepare SELECT $1", "SELECT $1", "SELECT $1"}},
		"a pipeline in one request": {join(startup,
			message("P", "\x00SELECT 1\x00\x00\x00"), message("B", "\x00\x00"), execute, message("H", ""), message("B", "\x00\x00"), execute, sync, message("Q", "COMMIT\x00")),
			[]string{"connect", "prepare SELECT 1", "COMMIT"}},
		"a cancellation is none": {message("", "\x04\xd2\x16\x2e12345678"), nil},
		"the end is none":        {join(startup, message("X", "")), []string{"connect"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := wire.Postgres()
			got, all, err := texts(client, c.data)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, c.want, got)
			require.Equal(t, c.data, all)
		})
	}
}

func TestPostgresWithEncryptionIsRefused(t *testing.T) {
	client, _ := wire.Postgres()
	_, _, err := texts(client, message("", "\x04\xd2\x16\x2f"))
	require.ErrorContains(t, err, "sslmode=disable")
}

// FuzzPostgres: whatever either side sends, the readers end, pass on exactly the
// bytes that came, and never begin a request inside one.
func FuzzPostgres(f *testing.F) {
	f.Add(join(startup, message("p", "x\x00"), message("P", "s\x00SELECT 1\x00\x00\x00"), message("S", "")), join(message("R", "\x00\x00\x00\x0a"), message("Z", "I")))
	f.Add(join(startup, message("Q", "COMMIT")), message("E", ""))
	f.Add(message("", "\x04\xd2\x16\x2e12345678"), []byte("Z\x00\x00\x00\x03"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"), []byte("R\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, fromClient, fromServer []byte) {
		client, server := wire.Postgres()
		for i, read := range []wire.Reader{client, server} {
			data := [][]byte{fromClient, fromServer}[i]
			_, all, err := texts(read, data)
			require.Error(t, err)
			require.True(t, bytes.HasPrefix(data, all))
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				require.Less(t, len(data)-len(all), 8, "only the beginning of a message is left over")
			}
		}
	})
}
