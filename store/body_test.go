package store_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// reads is a reader of one result after the other, the last for ever.
type reads []func(p []byte) (int, error)

func (r *reads) Read(p []byte) (int, error) {
	f := (*r)[0]
	if len(*r) > 1 {
		*r = (*r)[1:]
	}
	return f(p)
}

func gives(s string, err error) func(p []byte) (int, error) {
	return func(p []byte) (int, error) { return copy(p, s), err }
}

// A server that hangs up makes net/http return an error in which io.EOF is
// wrapped: what came until then is not the body.
func TestOnlyABareEOFEndsABody(t *testing.T) {
	wrapped := fmt.Errorf("Get: %w", io.EOF)
	for name, src := range map[string]reads{
		"at once":             {gives("", wrapped)},
		"half-way":            {gives("half", nil), gives("", wrapped)},
		"with the last bytes": {gives("half", wrapped)},
		"joined":              {gives("half", errors.Join(io.EOF))},
	} {
		t.Run(name, func(t *testing.T) {
			b := store.NewBody(&src, -1, "")
			content, err := io.ReadAll(b)
			var failed *store.BodyError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, io.EOF)
			require.Contains(t, []string{"", "half"}, string(content))
			_, _, complete := b.Sum()
			require.False(t, complete)
			require.ErrorAs(t, b.Drain(t.Context()), &failed)
		})
	}
	src := reads{gives("all", io.EOF)}
	b := store.NewBody(&src, -1, "")
	content, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "all", string(content))
}

// seeker says that a Seek went well and does what it likes.
type seeker struct {
	io.Reader
	at   int64
	back func() io.Reader // nil: it stays where it is
}

func (s *seeker) Seek(_ int64, whence int) (int64, error) {
	if whence == io.SeekStart && s.back != nil {
		s.Reader = s.back()
	}
	return s.at, nil
}

func TestARewindThatDidNotHappenIsFoundOut(t *testing.T) {
	again := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	for name, c := range map[string]struct {
		first int // bytes read before the rewind; 9: up to the end
		back  func() io.Reader
	}{
		"it stays where it is":          {9, nil},
		"it stays in the middle":        {4, nil},
		"other bytes":                   {9, again("body TWO")},
		"fewer bytes":                   {9, again("body")},
		"fewer than were read before":   {4, again("bod")},
		"more bytes than the whole had": {9, again("body one and more")},
	} {
		t.Run(name, func(t *testing.T) {
			b := store.NewBody(&seeker{Reader: strings.NewReader("body one"), back: c.back}, -1, "")
			for range c.first {
				_, _ = b.Read(make([]byte, 1))
			}
			require.NoError(t, b.Rewind())
			_, err := io.ReadAll(b)
			var failed *store.BodyError
			require.ErrorAs(t, err, &failed)
			require.ErrorContains(t, err, "it gave before")
		})
	}
	t.Run("it says that it went elsewhere", func(t *testing.T) {
		s := &seeker{Reader: strings.NewReader("body one")}
		b := store.NewBody(s, -1, "")
		_, _ = b.Read(make([]byte, 4))
		s.at = 4
		var failed *store.BodyError
		require.ErrorAs(t, b.Rewind(), &failed)
		require.ErrorContains(t, failed, "went to 4, not to 0")
	})
	t.Run("an honest one", func(t *testing.T) {
		r := strings.NewReader("head and body one")
		_, err := r.Seek(9, io.SeekStart)
		require.NoError(t, err)
		b := store.NewBody(r, 8, "")
		for range 3 {
			content, err := io.ReadAll(b)
			require.NoError(t, err)
			require.Equal(t, "body one", string(content))
			require.NoError(t, b.Rewind())
		}
	})
}

func TestABodyWithoutAReaderIsRefused(t *testing.T) {
	for name, b := range map[string]*store.Body{"zero": {}, "of nil": store.NewBody(nil, -1, "")} {
		t.Run(name, func(t *testing.T) {
			n, err := b.Read(make([]byte, 1))
			require.Zero(t, n)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorIs(t, b.Drain(t.Context()), store.ErrInvalid)
		})
	}
}
