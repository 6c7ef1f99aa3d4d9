package azstore

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// FuzzEscape: any text comes back from a header as it was.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "invoice/7", " a ", "Ärger", "100%", "%41", "a%", "\x00\x7f\xff\r\n\t", "+", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		require.Equal(t, s, unescape(e))
		for i := range len(e) {
			require.True(t, 0x20 < e[i] && e[i] < 0x7f, "%q", e)
		}
		if unescape(s) != s {
			require.Contains(t, s, "%", "text without a percent sign is not changed")
		}
	})
}

// FuzzMarks: what a blob says of itself in tags and metadata is what was said,
// through the SDK's encoding, HTTP's changes to headers and the service's
// parsing; and the guard of an id that is taken means that id only.
func FuzzMarks(f *testing.F) {
	f.Add("0190c0de-0000-4000-8000-000000000001", "invoice/7", "absent")
	f.Add("a", " Ärger/7 ", "7,8")
	f.Add("a' AND \"state\" = 'pending", "k", "")
	f.Add("a+b c:d=e_f/g.h", "%41\x00\xff", "\r\n")
	f.Add("", "k", "b")
	f.Add(" ", "k", "b")
	f.Add("a ", "k", "b")
	f.Add(strings.Repeat("i", 257), "k", "b")
	f.Fuzz(func(t *testing.T, id, key, base string) {
		const name = "blob"
		if len(key)+len(base) > 2000 {
			return // escaped, three bytes for one: the service takes 8 KiB of metadata
		}
		server := azfake.New(nil)
		c, err := server.ContainerClient("marks", nil)
		require.NoError(t, err)
		s, err := New(c, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), store.CreateParams{Name: name, IntentID: id, Key: key, Base: base, Body: store.NewBody(strings.NewReader("x"), 1, "")})
		if checkIntent(id) != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Empty(t, server.Names("marks"))
			return
		}
		require.NoError(t, err)
		stored := server.Inspect("marks")[name]
		require.Equal(t, map[string]string{tagState: statePending, tagIntent: id}, stored.Tags)
		info, err := s.Stat(t.Context(), store.StatParams{Name: name, Seal: true})
		require.NoError(t, err)
		require.Equal(t, []any{id, key, base, false}, []any{info.IntentID, info.Key, info.Base, info.Sealed})
		other := store.DeleteBlob{Name: name, IntentID: id + "x", Pending: true}
		if checkIntent(other.IntentID) == nil {
			require.ErrorIs(t, s.Delete(t.Context(), []store.DeleteBlob{other})[0], store.ErrGuardRefused)
		}
		require.NoError(t, s.Delete(t.Context(), []store.DeleteBlob{{Name: name, IntentID: id, Pending: true}})[0])
		require.Empty(t, server.Names("marks"))
	})
}

// FuzzDescribe: metadata that others wrote never breaks a listing, whatever the
// case of its names.
func FuzzDescribe(f *testing.F) {
	f.Add("blobtx_intent", "i", "Blobtx_Key", "%zz")
	f.Add("BLOBTX_SHA256", "", "blobtx_base", "\xff")
	f.Add("", "", "x", "y")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		m := map[string]*string{n1: &v1, "nil": nil}
		if !strings.EqualFold(n1, n2) && n2 != "nil" {
			m[n2] = &v2
		}
		var plain, changed store.BlobInfo
		describe(&plain, m)
		h := make(map[string]*string, len(m))
		for name, v := range m {
			h[http.CanonicalHeaderKey(name)] = v
		}
		if len(h) != len(m) {
			return
		}
		describe(&changed, h)
		require.Equal(t, plain, changed)
		want := ""
		for name, v := range m {
			if v != nil && bytes.EqualFold([]byte(name), []byte(metaIntent)) {
				want = *v
			}
		}
		require.Equal(t, want, plain.IntentID)
	})
}
