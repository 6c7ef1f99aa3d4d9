package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"
)

// listener is as much of a server as go-mssqldb needs to send statements: it
// lets anyone in and has done whatever is asked, for no rows (MS-TDS).
type listener struct {
	mu   sync.Mutex
	last []byte // the last request: its type, and what follows its headers
	open sync.WaitGroup
}

// Types of TDS packets.
const (
	tdsBatch    = 1
	tdsRPC      = 3
	tdsReply    = 4
	tdsLogin    = 16
	tdsPrelogin = 18
)

func (l *listener) DialContext(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	l.open.Go(func() {
		defer far.Close()
		for {
			kind, request, err := readTDS(far)
			if err != nil {
				return
			}
			done := []byte{0xfd, 12: 0}
			switch kind {
			case tdsPrelogin: // version, and no encryption
				done = []byte{0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff, 16, 0, 0, 0, 0, 0, 2}
			case tdsLogin:
				done = append([]byte{0xad, 10, 0, 1, 0x74, 0, 0, 4, 0, 16, 0, 0, 0}, done...)
			case tdsBatch, tdsRPC:
				l.mu.Lock()
				l.last = append([]byte{kind}, request[binary.LittleEndian.Uint32(request):]...)
				l.mu.Unlock()
			}
			header := []byte{tdsReply, 1, 0, 0, 0, 0, 1, 0}
			binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(done)))
			if _, err := far.Write(append(header, done...)); err != nil {
				return
			}
		}
	})
	return near, nil
}

// readTDS reads a message, which is packets up to one that says it is the last.
func readTDS(r io.Reader) (kind byte, message []byte, err error) {
	for {
		header := make([]byte, 8)
		if _, err := io.ReadFull(r, header); err != nil {
			return 0, nil, err
		}
		body := make([]byte, int(binary.BigEndian.Uint16(header[2:]))-len(header))
		if _, err := io.ReadFull(r, body); err != nil {
			return 0, nil, err
		}
		message = append(message, body...)
		if header[1]&1 != 0 {
			return header[0], message, nil
		}
	}
}

func ucs2(text string) []byte {
	var all []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		all = binary.LittleEndian.AppendUint16(all, unit)
	}
	return all
}

// declared is how sp_executesql is told of an argument.
func declared(i int, arg any) string {
	kind, size, unit := "bigint", 0, 1
	switch v := arg.(type) {
	case int64:
		return fmt.Sprintf("@p%d bigint", i+1)
	case []byte:
		kind, size = "varbinary", len(v)
	case string:
		kind, size, unit = "nvarchar", len(ucs2(v)), 2
	}
	if size == 0 || size > 8000 {
		return fmt.Sprintf("@p%d %s(max)", i+1, kind)
	}
	return fmt.Sprintf("@p%d %s(%d)", i+1, kind, size/unit)
}

// What is set in a statement ends with it if it is sent to sp_executesql, and a
// seek needs a parameter that is as its column.
func requireSentAsMeant(t *testing.T, samples map[string][]any) {
	t.Helper()
	l := &listener{}
	connector, err := mssql.NewConnector("sqlserver://user:password@localhost?encrypt=disable")
	require.NoError(t, err)
	connector.Dialer = l
	db := sql.OpenDB(connector)
	defer l.open.Wait()
	defer db.Close()
	for query, args := range samples {
		rows, err := db.QueryContext(t.Context(), query, args...)
		require.NoError(t, err, query)
		require.False(t, rows.Next())
		require.NoError(t, errors.Join(rows.Err(), rows.Close()), query)
		l.mu.Lock()
		sent := l.last
		l.mu.Unlock()
		if len(args) == 0 {
			require.Equal(t, append([]byte{tdsBatch}, ucs2(query)...), sent)
			require.NotContains(t, query, "SET LOCK_TIMEOUT")
			continue
		}
		require.True(t, bytes.HasPrefix(sent, []byte{tdsRPC, 0xff, 0xff, 10, 0}), "not sp_executesql: %s", query)
		require.True(t, bytes.Contains(sent, ucs2(query)))
		var declarations []string
		for i, arg := range args {
			declarations = append(declarations, declared(i, arg))
		}
		require.True(t, bytes.Contains(sent, ucs2(strings.Join(declarations, ","))), "%s: %s", declarations, query)
	}
}
