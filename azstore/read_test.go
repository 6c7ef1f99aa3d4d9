package azstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

func TestOpenReadsRanges(t *testing.T) {
	s, server := newFake(t, nil, small)
	data := noise(200 * kib)
	b := create(t, s, "a", data)
	empty := create(t, s, "empty", nil)
	n := int64(len(data))
	for _, c := range []struct {
		name          string
		offset, count int64
		want          []byte
		requests      int
	}{
		{"a", 0, -1, data, 1},
		{"a", 0, n, data, 1},
		{"a", 0, 10, data[:10], 1},
		{"a", 100, 10, data[100:110], 1},
		{"a", 100, -1, data[100:], 1},
		{"a", n - 1, -1, data[n-1:], 1},
		{"a", n - 1, 100, data[n-1:], 1},
		{"a", n, -1, nil, 1},
		{"a", n, 10, nil, 1},
		{"a", n + 100, -1, nil, 1},
		{"a", 10, 0, nil, 0},
		{"empty", 0, -1, nil, 1},
		{"empty", 0, 10, nil, 1},
		{"empty", 5, -1, nil, 1},
	} {
		etag := b.ETag
		if c.name == "empty" {
			etag = empty.ETag
		}
		server.ResetCounts()
		got := read(t, s, store.OpenParams{Name: c.name, ETag: etag, Offset: c.offset, Count: c.count})
		require.True(t, slices.Equal(c.want, got), "%+v", c)
		require.Equal(t, c.requests, server.Requests(), "%+v", c)
	}
}

func TestOpenIsPinned(t *testing.T) {
	s, server := newFake(t, nil, nil)
	b := create(t, s, "a", []byte("x"))
	server.ResetCounts()
	_, err := s.Open(t.Context(), store.OpenParams{Name: "a", ETag: `"0x1"`, Count: -1})
	require.ErrorIs(t, err, store.ErrConflict)
	require.Equal(t, counts{azfake.OpGetBlob: 1, azfake.OpHeadBlob: 1}, server.Counts())
	_, err = s.Open(t.Context(), store.OpenParams{Name: "b", ETag: b.ETag, Count: -1})
	require.ErrorIs(t, err, store.ErrBlobNotFound)
	require.NoError(t, s.Seal(t.Context(), "a", intentID))
	require.Equal(t, "x", string(read(t, s, store.OpenParams{Name: "a", ETag: b.ETag, Count: -1})), "sealing leaves the ETag")
}

// The reader does not resume by itself: whoever reads knows what it has.
func TestOpenReaderReportsABrokenConnection(t *testing.T) {
	s, server := newFake(t, nil, nil)
	b := create(t, s, "a", noise(100))
	server.SetHook(func(azfake.Call) azfake.Fault { return azfake.CutBody(40) })
	r, err := s.Open(t.Context(), store.OpenParams{Name: "a", ETag: b.ETag, Count: -1})
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, noise(100)[:40], got)
	require.NoError(t, r.Close())

	server.SetHook(nil)
	cause := errors.New("reader left")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err = s.Open(ctx, store.OpenParams{Name: "a", ETag: b.ETag, Count: -1})
	require.NoError(t, err)
	cancel(cause)
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
	require.NoError(t, r.Close())
}

func TestStatCosts(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "a", []byte("x"))
	require.NoError(t, s.Seal(t.Context(), "a", intentID))
	for ask, want := range map[bool]counts{
		false: {azfake.OpHeadBlob: 1},
		true:  {azfake.OpHeadBlob: 1, azfake.OpGetTags: 1},
	} {
		server.ResetCounts()
		info, err := s.Stat(t.Context(), store.StatParams{Name: "a", Seal: ask})
		require.NoError(t, err)
		require.Equal(t, ask, info.Sealed)
		require.Equal(t, want, server.Counts())
	}
	_, err := s.Stat(t.Context(), store.StatParams{Name: "b", Seal: true})
	require.ErrorIs(t, err, store.ErrBlobNotFound)
}

// The blob can go between the two requests of a Stat.
func TestStatOfABlobThatGoes(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "a", nil)
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpGetTags {
			require.NoError(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: "a", IntentID: intentID}))
		}
		return azfake.Fault{}
	})
	_, err := s.Stat(t.Context(), store.StatParams{Name: "a", Seal: true})
	require.ErrorIs(t, err, store.ErrBlobNotFound)
}

func TestBlobThatIsNotOurs(t *testing.T) {
	s, server := newFake(t, nil, nil)
	c, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	_, err = c.NewBlockBlobClient("theirs").UploadBuffer(t.Context(), []byte("x"), nil)
	require.NoError(t, err)
	info, err := s.Stat(t.Context(), store.StatParams{Name: "theirs", Seal: true})
	require.NoError(t, err)
	require.Empty(t, info.IntentID)
	require.Empty(t, info.SHA256)
	require.False(t, info.Sealed)
	require.ErrorIs(t, s.Seal(t.Context(), "theirs", intentID), store.ErrGuardRefused)
	require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: "theirs", IntentID: intentID}), store.ErrGuardRefused)
	require.Len(t, server.Names(containerName), 1)
}

func TestSealCostsOneRequest(t *testing.T) {
	s, server := newFake(t, nil, nil)
	b := create(t, s, "a", []byte("x"))
	server.ResetCounts()
	require.NoError(t, s.Seal(t.Context(), "a", intentID))
	require.Equal(t, counts{azfake.OpSetTags: 1}, server.Counts())
	after := server.Inspect(containerName)["a"]
	require.Equal(t, b.ETag, after.ETag)
	require.Equal(t, map[string]string{"state": "committed", "intent": intentID}, after.Tags)
	require.NoError(t, s.Seal(t.Context(), "a", intentID), "again is no error")
	require.ErrorIs(t, s.Seal(t.Context(), "a", otherIntent), store.ErrGuardRefused)
	require.ErrorIs(t, s.Seal(t.Context(), "b", intentID), store.ErrBlobNotFound)
	require.Equal(t, after, server.Inspect(containerName)["a"])
}

// tenAPage makes a listing of many names unnecessary.
type tenAPage struct{}

func (tenAPage) Do(req *policy.Request) (*http.Response, error) {
	if q := req.Raw().URL.Query(); q.Get("comp") == "list" {
		q.Set("maxresults", "10")
		req.Raw().URL.RawQuery = q.Encode()
	}
	return req.Next()
}

func TestListPages(t *testing.T) {
	server := azfake.New(nil)
	client := server.ClientOptions()
	client.PerCallPolicies = []policy.Policy{tenAPage{}}
	s := storeOver(t, server, &container.ClientOptions{ClientOptions: client}, &azstore.Options{Prefix: "p/", BlockSize: 64 * kib})
	outside := storeOver(t, server, nil, nil)
	create(t, outside, "o", nil)
	create(t, outside, "q", nil)
	var want []string
	for i := range 23 {
		name := fmt.Sprintf("n%02d", i)
		want = append(want, name)
		create(t, s, name, nil)
	}
	stageAndFail(t, s, "staged")
	require.NoError(t, s.Seal(t.Context(), "n07", intentID))
	server.ResetCounts()
	var got []string
	for info, err := range s.List(t.Context(), store.ListBlobsParams{}) {
		require.NoError(t, err)
		require.Equal(t, intentID, info.IntentID)
		require.Equal(t, info.Name == "n07", info.Sealed)
		got = append(got, info.Name)
	}
	require.Equal(t, want, got, "without what is staged, and without other prefixes")
	require.Equal(t, counts{azfake.OpList: 3}, server.Counts())

	server.ResetCounts()
	for _, err := range s.List(t.Context(), store.ListBlobsParams{}) {
		require.NoError(t, err)
		break
	}
	require.Equal(t, counts{azfake.OpList: 1}, server.Counts(), "stops when the loop does")

	got = nil
	for info, err := range s.List(t.Context(), store.ListBlobsParams{Prefix: "n2"}) {
		require.NoError(t, err)
		got = append(got, info.Name)
	}
	require.Equal(t, []string{"n20", "n21", "n22"}, got)

	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Request.URL.Query().Has("marker") {
			return azfake.LoseRequest()
		}
		return azfake.Fault{}
	})
	seen := 0
	var last error
	for _, err := range s.List(t.Context(), store.ListBlobsParams{}) {
		if last = err; err == nil {
			seen++
		}
	}
	require.ErrorIs(t, last, azfake.ErrLost, "an error ends the listing")
	require.Equal(t, 10, seen)
}
