package store_test

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// FuzzConditionText: every text is refused or comes back byte for byte, and
// says the same as the condition made of its versions.
func FuzzConditionText(f *testing.F) {
	for _, s := range []string{
		"absent", "exists", "always", "invalid", "", "7", "7,8", "7,7", ",", "7,", "0", "-1", "07", " 7", "7 ,8", "Absent", "9223372036854775807",
		"9223372036854775808", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := store.IfVersion(99)
		c := before
		if err := c.UnmarshalText(text); err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Equal(t, before, c, "a refused text changes nothing")
			return
		}
		require.NoError(t, c.Validate())
		again, err := c.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, again)
		require.Equal(t, string(text), c.String())
		switch c {
		case store.IfAbsent(), store.IfExists(), store.Always():
			require.Empty(t, c.Versions())
		default:
			require.Equal(t, c, store.IfVersion(c.Versions()...))
			requireHolds(t, c, c.Versions())
		}
	})
}

// FuzzIfVersion: any versions, eight bytes each.
func FuzzIfVersion(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0x80, 0, 0, 0, 0, 0, 0, 7})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 7})
	f.Add(make([]byte, 0))
	f.Add(bytesOf(16))
	f.Add(bytesOf(17))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var versions []store.Version
		good := true
		for ; len(raw) >= 8; raw = raw[8:] {
			v := store.Version(binary.BigEndian.Uint64(raw))
			versions = append(versions, v)
			good = good && v > 0
		}
		c := store.IfVersion(versions...)
		good = good && len(versions) > 0 && len(versions) <= store.MaxVersions
		require.Equal(t, good, c.Validate() == nil)
		text, err := json.Marshal(map[string]any{"if": c})
		require.Equal(t, good, err == nil)
		if !good {
			require.False(t, c.Holds(nil))
			for _, v := range versions {
				require.False(t, c.Holds(&store.Object{Version: v}), "what is refused never holds")
			}
			return
		}
		require.Equal(t, versions, c.Versions())
		requireHolds(t, c, versions)
		var back struct{ If store.Condition }
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, c, back.If)
	})
}

func bytesOf(n int) []byte {
	var raw []byte
	for v := range n {
		raw = binary.BigEndian.AppendUint64(raw, uint64(v)+1)
	}
	return raw
}

// requireHolds: for these versions, not for their neighbours, not for absence.
func requireHolds(t *testing.T, c store.Condition, versions []store.Version) {
	t.Helper()
	listed := map[store.Version]bool{}
	for _, v := range versions {
		listed[v] = true
	}
	require.False(t, c.Holds(nil))
	for v := range listed {
		for _, one := range []store.Version{v - 1, v, v + 1} {
			require.Equal(t, listed[one], c.Holds(&store.Object{Version: one}), "version %d", one)
		}
	}
}
