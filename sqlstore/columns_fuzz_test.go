package sqlstore

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// FuzzMetadata: what goes into a column comes out of it, and is text that every
// database takes.
func FuzzMetadata(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("a", "", "", "d")
	f.Add("a", "\x00", "c", "\xff")
	f.Add("a\"\\", "</script>\u2028\ufffd\U0010ffff", "'", "\t\n\x7f")
	f.Add("k", strings.Repeat("v", store.MaxMetadata), "", "")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		for _, m := range []map[string]string{{k1: v1, k2: v2}, {k1: v1}, {}, nil} {
			given := maps.Clone(m)
			text, err := formatMetadata(m)
			require.Equal(t, given, m)
			require.Equal(t, store.ValidateMetadata(m) == nil, err == nil, "%v", err)
			if err != nil {
				require.ErrorIs(t, err, store.ErrInvalid)
				require.Empty(t, text)
				continue
			}
			require.True(t, json.Valid([]byte(text)))
			require.True(t, utf8.ValidString(text))
			require.NotContains(t, text, "\x00")
			require.NotContains(t, text, `\u0000`, "PostgreSQL's jsonb refuses it")
			got, err := parseMetadata(text)
			require.NoError(t, err)
			if len(m) == 0 {
				require.Nil(t, got)
			} else {
				require.Equal(t, m, got)
			}
		}
	})
}

// FuzzStoredRow: whatever a column holds, reading it gives an error or something
// that can be written again.
func FuzzStoredRow(f *testing.F) {
	f.Add(`{}`, "absent", "uploading", `{"etag":"\"0x1\"","size":7,"sha256":"ab","content_type":"text/plain"}`, int64(1), int64(1<<62))
	f.Add(`{"a":"b"}`, "7,8", "done", ``, int64(0), int64(0))
	f.Add(`null`, "", "", `null`, int64(-1), int64(-1))
	f.Add(`{"a":1}`, "always", "held", `{"size":"7"}`, int64(1), int64(1))
	f.Add(`{"a":"b"`, "exists", "x", `[]`, int64(1), int64(1))
	f.Fuzz(func(t *testing.T, metadata, expect, state, facts string, version, us int64) {
		r := intentRow{metadata: metadata, expect: expect, state: state, facts: facts, objVersion: version, due: us, expires: us, created: us, updated: us}
		in, err := r.intent()
		parsed, bad := parseMetadata(metadata)
		var c store.Condition
		if bad != nil || c.UnmarshalText([]byte(expect)) != nil || facts != "" && json.Unmarshal([]byte(facts), new(blobFacts)) != nil {
			require.Error(t, err)
			require.Equal(t, store.Intent{}, in)
			return
		}
		require.NoError(t, err)
		require.Equal(t, parsed, in.Metadata)
		require.Equal(t, expect, in.Expect.String())
		require.Equal(t, facts != "", in.Result != nil)
		if us != 0 {
			require.Equal(t, us, in.DueAt.UnixMicro())
		} else {
			require.True(t, in.DueAt.IsZero())
		}
		if in.Result != nil {
			require.Equal(t, store.Version(version), in.Result.Version)
			require.Equal(t, in.Metadata, in.Result.Metadata)
			if len(in.Metadata) > 0 {
				in.Result.Metadata["mine"] = "x"
				require.NotContains(t, in.Metadata, "mine", "a map of its own")
			}
		}
	})
}

// FuzzErrorText: any error fits the column, and what fits is not changed.
func FuzzErrorText(f *testing.F) {
	f.Add("plain")
	f.Add("a\x00b\xff")
	f.Add(strings.Repeat("ä", 501))
	f.Add("x" + strings.Repeat("\U0010ffff", 250))
	f.Fuzz(func(t *testing.T, s string) {
		got := errorText(s)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\x00")
		require.LessOrEqual(t, len(got), 1000)
		require.Equal(t, got, errorText(got))
		if utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
			require.True(t, strings.HasPrefix(s, got))
			require.True(t, len(s) <= 1000 && got == s || len(s) > 1000 && len(got) > 1000-utf8.UTFMax)
		}
	})
}
