package store_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func FuzzParseETag(f *testing.F) {
	for _, s := range []string{`"7"`, `W/"7"`, `"9223372036854775807"`, `"9223372036854775808"`, `"07"`, `"0"`, `""`, `"7`, `7`, `"7" `} {
		f.Add(s, int64(7))
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		v, err := store.ParseETag(s)
		if err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Zero(t, v)
		} else {
			require.Positive(t, v)
			require.Equal(t, s, v.ETag(), "one version, one tag")
		}
		back, err := store.ParseETag(store.Version(n).ETag())
		require.Equal(t, n > 0, err == nil)
		if n > 0 {
			require.Equal(t, store.Version(n), back)
		}
	})
}

// The grammar of RFC 9110, sections 5.6.1.2 and 8.8.3, as patterns.
var (
	anyTag  = regexp.MustCompile(`^[ \t]*\*[ \t]*$`)
	oneTag  = regexp.MustCompile(`(W/)?"([^"\x00-\x20\x7f]*)"`)
	tagList = regexp.MustCompile(`^(?:[ \t]*,)*[ \t]*(?:(?:W/)?"[^"\x00-\x20\x7f]*"[ \t]*(?:$|,[ \t,]*))+$`)
	number  = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)
)

// FuzzIfMatch compares both headers with the grammar and with net/http.
func FuzzIfMatch(f *testing.F) {
	for _, s := range []string{
		`*`, `"7"`, `W/"7"`, `"7", "8"`, `"a,b","7"`, `"7" "8"`, ` ,, "7"`, `*, "7"`, `"\", "7"`, "\"\xfc\xff\"", "\"7\x00\"", ``, `,`, `W/`, `"7", W/"8`,
		`"1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"`,
	} {
		f.Add(s, int64(7))
	}
	f.Fuzz(func(t *testing.T, header string, at int64) {
		header = strings.NewReplacer("\r", "", "\n", "").Replace(header) // ends a header
		v := store.Version(max(at, 1))
		object := &store.Object{Version: v}
		c, err := store.ParseIfMatch(header)
		none, noneErr := v.NoneMatch(header)
		if anyTag.MatchString(header) {
			require.NoError(t, err)
			require.NoError(t, noneErr)
			require.Equal(t, store.IfExists(), c)
			require.False(t, none)
			return
		}
		strong, weak := map[string]bool{}, map[string]bool{}
		for _, m := range oneTag.FindAllStringSubmatch(header, -1) {
			weak[m[2]] = true
			strong[m[2]] = strong[m[2]] || m[1] == ""
		}
		if !tagList.MatchString(header) {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorIs(t, noneErr, store.ErrInvalid)
			return
		}
		require.NoError(t, noneErr)
		require.Equal(t, !weak[v.String()], none)
		require.Equal(t, none, serveContent(v, "If-None-Match", header) == http.StatusOK)
		if possible(strong) > store.MaxVersions {
			require.ErrorIs(t, err, store.ErrInvalid)
			return
		}
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		require.False(t, c.Holds(nil))
		require.Equal(t, strong[v.String()], c.Holds(object))
		require.Equal(t, c.Holds(object), serveContent(v, "If-Match", header) == http.StatusOK)
		for tag := range strong {
			if one, err := store.ParseETag(`"` + tag + `"`); err == nil {
				require.Equal(t, strong[tag], c.Holds(&store.Object{Version: one}), tag)
			}
		}
	})
}

// possible counts the tags that some object could have.
func possible(strong map[string]bool) (n int) {
	const last = "9223372036854775807"
	for tag, is := range strong {
		if is && number.MatchString(tag) && (len(tag) < len(last) || tag <= last) {
			n++
		}
	}
	return n
}
