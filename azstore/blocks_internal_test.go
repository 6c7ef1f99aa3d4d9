package azstore

import (
	"bytes"
	"encoding/base64"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func TestBlockIDsMeanTheBytes(t *testing.T) {
	a, b := []byte("one block"), []byte("another block")
	require.Equal(t, blockID(7, a), blockID(7, bytes.Clone(a)), "the same bytes at the same place: the same id")
	require.NotEqual(t, blockID(7, a), blockID(7, b), "other bytes: another id")
	require.NotEqual(t, blockID(7, a), blockID(8, a), "another place: another id")
	for _, i := range []int{0, 9, 10, 9_999, 10_000, maxBlocks - 1} {
		id := blockID(i, a)
		require.Len(t, id, 40, "all ids have one length")
		raw, err := base64.StdEncoding.DecodeString(id)
		require.NoError(t, err)
		require.Len(t, raw, 30, "Put Block takes at most 64 bytes")
	}
}

// total is how many bytes the plan has room for.
func (p blockPlan) total() int64 {
	var sum int64
	for i := 0; p.size(i) > 0; i++ {
		sum += p.size(i)
	}
	return sum
}

func TestBlockListNeverOverflows(t *testing.T) {
	const tib = int64(1) << 40
	for _, size := range []int64{minBlockSize, defaultBlockSize, 100 * mib, maxBlockSize} {
		p, err := planBlocks(size, -1)
		require.NoError(t, err)
		require.Equal(t, size, p.size(0))
		require.Equal(t, size, p.size(growEvery-1))
		require.Equal(t, min(2*size, maxBlockSize), p.size(growEvery))
		require.Equal(t, min(4*size, maxBlockSize), p.size(2*growEvery))
		require.LessOrEqual(t, p.size(maxBlocks-1), maxBlockSize)
		require.Zero(t, p.size(maxBlocks), "there is no such block")
		require.Greater(t, p.total(), 45*tib, "an unknown length has room enough")
	}
	p, err := planBlocks(defaultBlockSize, -1)
	require.NoError(t, err)
	require.Greater(t, p.total(), 100*tib)

	for _, declared := range []int64{0, 1, defaultBlockSize, 200 * 1000 * mib, maxBlocks * defaultBlockSize} {
		p, err := planBlocks(defaultBlockSize, declared)
		require.NoError(t, err)
		require.EqualValues(t, defaultBlockSize, p.size(0), "%d bytes fit into blocks of the usual size", declared)
		require.GreaterOrEqual(t, p.total(), declared)
	}
	for _, declared := range []int64{maxBlocks*defaultBlockSize + 1, 10 * tib, 100 * tib, maxBlocks*maxBlockSize - 1, maxBlocks * maxBlockSize} {
		p, err := planBlocks(defaultBlockSize, declared)
		require.NoError(t, err)
		require.Equal(t, p.size(0), p.size(maxBlocks-1), "a declared size needs no growing")
		require.GreaterOrEqual(t, p.total(), declared)
		require.Less(t, (p.size(0)-minBlockSize)*maxBlocks, declared, "the smallest size that suffices")
		require.LessOrEqual(t, p.size(0), maxBlockSize)
	}
	for _, declared := range []int64{maxBlocks*maxBlockSize + 1, 1 << 62, math.MaxInt64 - 1, math.MaxInt64} {
		_, err = planBlocks(defaultBlockSize, declared)
		require.ErrorIs(t, err, store.ErrInvalid, "%d", declared)
	}
}

// A transport may read a body after its request has failed.
func TestBlockBodyIsSafeAfterItsRequest(t *testing.T) {
	b := &blockBody{data: []byte("abcdef")}
	end, err := b.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, 6, end)
	_, err = b.Seek(2, io.SeekStart)
	require.NoError(t, err)
	at, err := b.Seek(1, io.SeekCurrent)
	require.NoError(t, err)
	require.EqualValues(t, 3, at)
	_, err = b.Seek(-1, io.SeekStart)
	require.Error(t, err)
	require.NoError(t, b.Close())
	rest, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "def", string(rest))
	b.detach()
	_, err = b.Seek(0, io.SeekStart)
	require.NoError(t, err)
	n, err := b.Read(make([]byte, 6))
	require.Zero(t, n)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestEscapeSurvivesAHeader(t *testing.T) {
	for _, s := range []string{"", "invoice/7", "a b", " x ", "Ärger/7", "100%", "%41", "a\x00b\r\n", "\xff\xfe", "日本語", "a+b=c&d;e,f"} {
		e := escape(s)
		require.Equal(t, s, unescape(e))
		for _, c := range []byte(e) {
			require.True(t, 0x20 < c && c < 0x7f, "%q in %q", c, e)
		}
	}
	require.Equal(t, "invoice/7,8", escape("invoice/7,8"), "readable where it can be")
	require.Equal(t, "100%", unescape("100%"), "text that others wrote stays")
}
