package storetest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// lookalikes are keys that some collation, padding rule or encoding takes for
// one another, changes or cuts.
var lookalikes = []string{
	"key", "KEY", "Key", "key.", "key..", "key/", "key//", "key\t", "key\n", " key", "key\u00a0", "key\u200b",
	"k\u00e9y", "ke\u0301y", "strasse", "stra\u00dfe", "\u0130", "i", "\u0131", "ﬁ", "fi",
	"😀", "😁", "\ufffd", "\U0010ffff", "中文", "مفتاح", "\u202eyek", "ключ",
	"a%b", "a_b", `a\b`, "a'b", `a"b`, "a;--b", "$1", "?", ":a", "0", "00", "0x", "1e3", "null", "NULL",
	strings.Repeat("k", 700), strings.Repeat("k", 699) + "K", strings.Repeat("k", 699), strings.Repeat("é", 350),
}

var keyCases = []rowCase{
	{"Keys/are compared byte for byte", func(t *rowTest) {
		made := make(map[string]store.Object)
		for _, key := range lookalikes {
			require.NoError(t, store.ValidateKey(key))
			o := t.commit(t.insert(key, expecting(store.IfAbsent())))
			require.Equal(t, key, o.Key)
			made[key] = normalObject(o)
		}
		for key, o := range made {
			require.Equal(t, o, t.object(key))
		}
		for _, key := range lookalikes {
			_, err := t.deleting(key)(store.IfVersion(made[key].Version))
			require.NoError(t, err)
		}
	}},
	{"Keys/are looked up byte for byte", func(t *rowTest) {
		t.put("key")
		for _, key := range lookalikes {
			if key != "key" {
				t.noObject(key)
			}
		}
	}},
}

// list returns all keys in pages of the size.
func (t *rowTest) list(p store.ListParams) []string {
	t.Helper()
	keys := []string{}
	for {
		page, err := t.rows.ListObjects(t.ctx, p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), p.Limit)
		for _, o := range page {
			keys = append(keys, o.Key)
			p.After = o.Key
		}
		if len(page) < p.Limit {
			return keys
		}
	}
}

var listCases = []rowCase{
	{"List/is in the byte order of the keys", func(t *rowTest) {
		for _, key := range lookalikes {
			t.put(key)
		}
		// UTF-16 would put 😀 before \ufffd.
		require.Equal(t, slices.Sorted(slices.Values(lookalikes)), t.list(store.ListParams{Limit: 7}))
		require.Equal(t, slices.Sorted(slices.Values(lookalikes)), t.list(store.ListParams{Limit: 1000}))
	}},
	{"List/gives whole objects", func(t *rowTest) {
		a := t.commit(t.insert("a", func(p *store.InsertParams) { p.Metadata = map[string]string{"m": "1"} }))
		b := t.put("b")
		page, err := t.rows.ListObjects(t.ctx, store.ListParams{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page, 2)
		require.Equal(t, a, page[0])
		require.Equal(t, normalObject(b), normalObject(page[1]))
	}},
	{"List/of an empty store is empty", func(t *rowTest) {
		t.insert("k") // a promise is no object
		require.Empty(t, t.list(store.ListParams{Limit: 10}))
	}},
	{"List/begins after a key, and fewer than the limit are the last", func(t *rowTest) {
		for _, key := range []string{"a", "b", "c", "d"} {
			t.put(key)
		}
		for after, want := range map[string]int{"": 3, "a": 3, "aa": 3, "b": 2, "c": 1, "d": 0, "e": 0} {
			page, err := t.rows.ListObjects(t.ctx, store.ListParams{After: after, Limit: 3})
			require.NoError(t, err)
			require.Len(t, page, want, "after %q", after)
			if want > 0 {
				require.Greater(t, page[0].Key, after)
			}
		}
	}},
	{"List/takes a prefix byte for byte", func(t *rowTest) {
		keys := []string{
			"a", "a%", "a%b", "axb", "a_", "a_b", `a\`, `a\b`, "a[b", "A", "Ab", "á", "a\u0301",
			"p\U0010ffff", "p\U0010ffffx", "p\U0010fffe", "q", "\U0010ffff", "\U0010ffff\U0010ffff", "\x7f", "\x7fx", "\u0080",
		}
		for _, key := range keys {
			t.put(key)
		}
		slices.Sort(keys)
		for _, prefix := range append([]string{"", "zz", "a%b%", strings.Repeat("a", 700)}, keys...) {
			want := []string{}
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) {
					want = append(want, key)
				}
			}
			require.Equal(t, want, t.list(store.ListParams{Prefix: prefix, Limit: 3}), "prefix %q", prefix)
		}
	}},
	{"List/takes a prefix and a key to begin after together", func(t *rowTest) {
		for _, key := range []string{"a/1", "b/1", "b/2", "b/3", "c/1"} {
			t.put(key)
		}
		for after, want := range map[string][]string{
			"a/1": {"b/1", "b/2", "b/3"}, "b": {"b/1", "b/2", "b/3"}, "b/": {"b/1", "b/2", "b/3"},
			"b/1": {"b/2", "b/3"}, "b/3": {}, "c": {},
		} {
			require.Equal(t, want, t.list(store.ListParams{Prefix: "b/", After: after, Limit: 2}), "after %q", after)
		}
	}},
}
