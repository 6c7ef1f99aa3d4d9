package store_test

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// FuzzValidateKey: a key is taken exactly when no database would refuse it, cut
// it or take it for another.
func FuzzValidateKey(f *testing.F) {
	for _, s := range []string{
		"", "a", "invoice/7", " a", "a ", "a\x00b", "a\xff", "Ärger\U0010ffff", "\ufffd", "a\u00a0", "a\t", "%", "'", "\ud7ff",
		strings.Repeat("k", store.MaxKey), strings.Repeat("k", store.MaxKey+1), strings.Repeat("ä", store.MaxKey/2) + "k", strings.Repeat("k", 256),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		plain := string([]rune(key)) == key && // a rune for every byte that is none is another text
			!strings.ContainsRune(key, 0) && strings.TrimRight(key, " ") == key
		for _, c := range []struct {
			err  error
			want bool
		}{
			{store.ValidateKey(key), plain && len(key) >= 1 && len(key) <= 700},
			{store.ValidateIdempotencyKey(key), plain && len(key) <= 255},
		} {
			require.Equal(t, c.want, c.err == nil, "%v", c.err)
			if c.err != nil {
				require.ErrorIs(t, c.err, store.ErrInvalid)
				require.Less(t, len(c.err.Error()), 1000)
				require.True(t, utf8.ValidString(c.err.Error()), "an error can be logged")
			}
		}
		if store.ValidateKey(key) != nil {
			return
		}
		text, err := json.Marshal(store.Intent{Key: key})
		require.NoError(t, err)
		var in store.Intent
		require.NoError(t, json.Unmarshal(text, &in))
		require.Equal(t, key, in.Key, "an intent goes through a queue")
	})
}

// FuzzValidateBlobName: a name that is taken survives a URL, in which a dot
// segment or an empty one would be lost.
func FuzzValidateBlobName(f *testing.F) {
	for _, s := range []string{
		"", "a", "a/b", "a//b", "/a", "a/", "a/./b", "a/../b", "..", "a.", "a./b", ".a", "a b+ü%41", "a\\b", "a\x7f", "_blobtx/x", "_blobtx", "a?b#c", "a\u0081b", "a\u009f", "a\ufffeb", "a\uffff", "a\ufffdb",
		strings.Repeat("日", 533), strings.Repeat("日", 533) + "ab", strings.Repeat("\U00020000", 400), strings.Repeat("\U00020000", 401),
		strings.Repeat("n", store.MaxBlobName), strings.Repeat("ü", store.MaxBlobName+1), strings.Repeat("n/", 253) + "n", strings.Repeat("n/", 254) + "n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := store.ValidateBlobName(name); err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.Equal(t, "/"+name, path.Clean("/"+name))
		require.False(t, strings.HasPrefix(name, store.ReservedPrefix))
		require.LessOrEqual(t, utf8.RuneCountInString(name), 1024)
		require.LessOrEqual(t, len(name), 1600)
		require.False(t, strings.ContainsFunc(name, func(r rune) bool {
			return r < 0x20 || 0x7f <= r && r < 0xa0 || r == 0xfffe || r == 0xffff
		}), "the service refuses these")
		u, err := url.Parse("https://account.example/container/" + url.PathEscape(name))
		require.NoError(t, err)
		require.Equal(t, "/container/"+name, u.Path)
		for s := range strings.SplitSeq(name, "/") {
			require.NotEmpty(t, s)
		}
	})
}

// FuzzValidateMetadata: metadata that is taken is no larger than the limit and
// comes back from JSON as it was.
func FuzzValidateMetadata(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("", "b", "c", "d")
	f.Add("a", "\x00", "c", "\xff")
	f.Add("a", strings.Repeat("v", store.MaxMetadata-2), "b", "")
	f.Add("a", strings.Repeat("v", store.MaxMetadata-1), "b", "")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		m := map[string]string{k1: v1, k2: v2}
		want := true
		size := 0
		for k, v := range m {
			size += len(k) + len(v)
			want = want && k != "" && string([]rune(k+v)) == k+v && !strings.ContainsRune(k+v, 0) && utf8.ValidString(k) && utf8.ValidString(v)
		}
		err := store.ValidateMetadata(m)
		require.Equal(t, want && size <= 16384, err == nil, "%v", err)
		if err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			return
		}
		text, err := json.Marshal(store.Object{Metadata: m})
		require.NoError(t, err)
		var o store.Object
		require.NoError(t, json.Unmarshal(text, &o))
		require.Equal(t, m, o.Metadata)
	})
}
