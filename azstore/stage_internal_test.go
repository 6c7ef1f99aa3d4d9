package azstore

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// A block list that the body fills to its last byte is complete: most readers
// tell of their end only in a read of its own.
func TestABodyMayFillTheBlockList(t *testing.T) {
	const limit = 5
	full := strings.Repeat("0123456789abcdef", limit*int(minBlockSize)/16)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		body     io.Reader
		declared int64
		is       error
		says     string
	}{
		"declared":                   {strings.NewReader(full), int64(len(full)), nil, ""},
		"unknown":                    {strings.NewReader(full), -1, nil, ""},
		"the end with the last byte": {iotest.DataErrReader(strings.NewReader(full)), -1, nil, ""},
		"one byte less":              {strings.NewReader(full[1:]), -1, nil, ""},
		"one byte more":              {strings.NewReader(full + "x"), -1, store.ErrInvalid, "longer than 5 blocks"},
		"an error where it ends":     {io.MultiReader(strings.NewReader(full), iotest.ErrReader(broken)), -1, broken, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			server := azfake.New(nil)
			client, err := server.ContainerClient("bytes", nil)
			require.NoError(t, err)
			s, err := New(client, &Options{BlockSize: minBlockSize, Concurrency: 2})
			require.NoError(t, err)
			u, err := s.newUpload("a", store.CreateParams{Name: "a", IntentID: "i", Key: "k", Body: store.NewBody(c.body, c.declared, "")})
			require.NoError(t, err)
			u.plan.limit = limit
			b, err := u.send(t.Context())
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
				require.ErrorContains(t, err, c.says)
				require.Empty(t, server.Names("bytes"))
				return
			}
			require.NoError(t, err)
			there := server.Inspect("bytes")["a"]
			require.EqualValues(t, len(there.Data), b.Size)
			require.True(t, bytes.HasSuffix([]byte(full), there.Data))
		})
	}
}
