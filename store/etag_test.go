package store_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func TestAnETagIsAStrongEntityTag(t *testing.T) {
	require.Equal(t, `"3759471820145229861"`, store.Version(3759471820145229861).ETag())
	for _, v := range []store.Version{1, 42, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		got, err := store.ParseETag(v.ETag())
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
}

func TestParseETagTakesStrongTagsOfVersionsOnly(t *testing.T) {
	for name, s := range map[string]string{
		"empty":                `""`,
		"nothing":              ``,
		"no quotes":            `7`,
		"one quote":            `"7`,
		"only the other quote": `7"`,
		"weak":                 `W/"7"`,
		"weak, lower case":     `w/"7"`,
		"of another server":    `"0x8DC0FFEE"`,
		"zero":                 `"0"`,
		"negative":             `"-7"`,
		"a sign":               `"+7"`,
		"a leading zero":       `"07"`,
		"65 bits":              `"9223372036854775808"`,
		"a space inside":       `"7 "`,
		"a space before":       ` "7"`,
		"a space after":        `"7" `,
		"a list":               `"7","8"`,
		"any":                  `*`,
		"a line break":         "\"7\n\"",
	} {
		t.Run(name, func(t *testing.T) {
			v, err := store.ParseETag(s)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Zero(t, v)
		})
	}
}

// seventeen is one version more than a condition takes.
func seventeen() (versions []store.Version, header string) {
	var tags []string
	for v := store.Version(1); v <= 17; v++ {
		versions = append(versions, v)
		tags = append(tags, v.ETag())
	}
	return versions, strings.Join(tags, ", ")
}

func TestParseIfMatch(t *testing.T) {
	versions, seventeenTags := seventeen()
	sixteenTags := strings.TrimSuffix(seventeenTags, `, "17"`)
	for header, want := range map[string]store.Condition{
		`*`:                                 store.IfExists(),
		" \t* ":                             store.IfExists(),
		`"7"`:                               store.IfVersion(7),
		" \"7\"\t":                          store.IfVersion(7),
		`"7", "8"`:                          store.IfVersion(7, 8),
		`"8","7"`:                           store.IfVersion(8, 7),
		"\"7\"\t ,\t \"8\"":                 store.IfVersion(7, 8),
		`,, "7" , ,"8",`:                    store.IfVersion(7, 8), // empty members
		`"7", "7", "7"`:                     store.IfVersion(7),
		`W/"7", "8"`:                        store.IfVersion(8), // weak never matches
		`"a,b", "7"`:                        store.IfVersion(7), // commas are part of a tag
		`"7,8", "9"`:                        store.IfVersion(9),
		`",", "7", ","`:                     store.IfVersion(7),
		`"\", "7"`:                          store.IfVersion(7), // a backslash escapes nothing
		`"*", "7"`:                          store.IfVersion(7),
		`"W/", "7"`:                         store.IfVersion(7),
		`"", "7"`:                           store.IfVersion(7),
		"\"\xfc\", \"7\"":                   store.IfVersion(7), // obs-text
		`"0", "-1", "07", "1e3", "7"`:       store.IfVersion(7),
		`"9223372036854775808", "7"`:        store.IfVersion(7),
		sixteenTags:                         store.IfVersion(versions[:16]...),
		sixteenTags + ", " + sixteenTags:    store.IfVersion(versions[:16]...),
		sixteenTags + `, W/"17", "foreign"`: store.IfVersion(versions[:16]...),
	} {
		t.Run(header, func(t *testing.T) {
			got, err := store.ParseIfMatch(header)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// A list in which nothing can match is a condition, not an error: the change
// ends in the conflict that the client must be told.
func TestAnIfMatchInWhichNothingCanMatchNeverHolds(t *testing.T) {
	newest := store.NextVersion(0, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), 1<<21-1)
	for _, header := range []string{`W/"7"`, `"0x8DC0FFEE"`, `""`, `"0"`, `W/"7", "foreign", "7,8"`, `"*"`} {
		t.Run(header, func(t *testing.T) {
			c, err := store.ParseIfMatch(header)
			require.NoError(t, err)
			require.NoError(t, c.Validate(), "stores must take it")
			text, err := c.MarshalText()
			require.NoError(t, err)
			require.NoError(t, new(store.Condition).UnmarshalText(text))
			require.False(t, c.Holds(nil))
			for _, v := range []store.Version{0, 1, 7, newest} {
				require.False(t, c.Holds(&store.Object{Version: v}))
			}
		})
	}
}

func TestParseIfMatchRefusesWhatIsNotInTheGrammar(t *testing.T) {
	_, seventeenTags := seventeen()
	for name, header := range map[string]string{
		"empty":                         ``,
		"blank":                         " \t ",
		"only commas":                   ` , ,`,
		"no quotes":                     `7`,
		"an open quote":                 `"7`,
		"an open quote after a tag":     `"7", "8`,
		"no comma":                      `"7" "8"`,
		"no comma, no space":            `"7""8"`,
		"a semicolon":                   `"7"; "8"`,
		"any beside a tag":              `*, "7"`,
		"a tag beside any":              `"7", *`,
		"any twice":                     `*, *`,
		"weak in lower case":            `w/"7"`,
		"weak without a tag":            `W/`,
		"weak any":                      `W/*`,
		"a space in weak":               `W/ "7"`,
		"a space in a tag":              `"7 8"`,
		"a tab in a tag":                "\"7\t\"",
		"a control character in a tag":  "\"7\x00\"",
		"delete in a tag":               "\"7\x7f\"",
		"single quotes":                 `'7'`,
		"a space that is none":          "\u00a0\"7\"",
		"a line break":                  "\"7\",\r\n\"8\"",
		"more versions than are taken":  seventeenTags,
		"more, beside what never holds": `W/"1", ` + seventeenTags,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := store.ParseIfMatch(header)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.NoError(t, c.Validate())
			for _, o := range []*store.Object{nil, {Version: 1}, {Version: 7}} {
				require.False(t, c.Holds(o), "whoever ignores the error changes nothing")
			}
			require.Less(t, len(err.Error()), 400, "an error does not repeat a header of any length")
		})
	}
}

func TestNoneMatchComparesWeakly(t *testing.T) {
	_, seventeenTags := seventeen()
	for _, c := range []struct {
		header string
		at     store.Version
		want   bool
	}{
		{`*`, 0, true},
		{` * `, 7, false},
		{`"7"`, 7, false},
		{`W/"7"`, 7, false},
		{`"8"`, 7, true},
		{`W/"8"`, 7, true},
		{`"7"`, 0, true},
		{`"0"`, 0, true},
		{`"foreign"`, 0, true},
		{`"foreign", W/"7"`, 7, false},
		{`"7,8"`, 7, true},
		{`"07"`, 7, true},
		{seventeenTags, 17, false},
		{seventeenTags, 18, true},
	} {
		t.Run(fmt.Sprintf("%s at %d", c.header, c.at), func(t *testing.T) {
			got, err := c.at.NoneMatch(c.header)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for _, header := range []string{``, `,`, `7`, `"7" "8"`, `*, "7"`} {
		t.Run("malformed "+header, func(t *testing.T) {
			got, err := store.Version(7).NoneMatch(header)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.True(t, got, "whoever ignores the error sends the whole")
		})
	}
}

// serveContent is what net/http makes of a conditional GET.
func serveContent(v store.Version, name, value string) int {
	w := httptest.NewRecorder()
	w.Header().Set("ETag", v.ETag())
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(name, value)
	http.ServeContent(w, r, "x", time.Time{}, strings.NewReader("body"))
	return w.Code
}

// A handler may leave reads to http.ServeContent and decide changes itself: the
// two must not disagree.
func TestNetHTTPAgrees(t *testing.T) {
	const at = store.Version(7)
	for _, header := range []string{`*`, `"7"`, `W/"7"`, `"8"`, `"8", "7"`, `"a,b","7"`, `"7,8"`, `W/"8", W/"7"`, ` , "7"`, `"x" ,	"7"`} {
		c, err := store.ParseIfMatch(header)
		require.NoError(t, err)
		require.Equal(t, c.Holds(&store.Object{Version: at}), serveContent(at, "If-Match", header) == http.StatusOK, "If-Match: %s", header)
		none, err := at.NoneMatch(header)
		require.NoError(t, err)
		require.Equal(t, none, serveContent(at, "If-None-Match", header) == http.StatusOK, "If-None-Match: %s", header)
	}
}
