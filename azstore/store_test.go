package azstore_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	c, err := azfake.New(nil).ContainerClient(containerName, nil)
	require.NoError(t, err)
	_, err = azstore.New(nil, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	for name, o := range map[string]azstore.Options{
		"block size below 64 KiB":       {BlockSize: 64*kib - 1},
		"block size above 4000 MiB":     {BlockSize: 4000*mib + 1},
		"negative block size":           {BlockSize: -1},
		"negative concurrency":          {Concurrency: -1},
		"concurrency beyond reason":     {Concurrency: 257},
		"prefix with a leading slash":   {Prefix: "/a/"},
		"prefix with an empty segment":  {Prefix: "a//"},
		"prefix with a control":         {Prefix: "a\n/"},
		"prefix that is reserved":       {Prefix: "_blobtx/a/"},
		"prefix longer than any name":   {Prefix: strings.Repeat("a", 1024)},
		"prefix that is not valid UTF8": {Prefix: "\xff/"},
	} {
		_, err := azstore.New(c, &o)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	for _, o := range []azstore.Options{
		{}, {BlockSize: 64 * kib}, {BlockSize: 4000 * mib}, {Concurrency: 256}, {Prefix: "a/b/"}, {Prefix: "a-"}, {Guard: azstore.TagGuard},
	} {
		_, err := azstore.New(c, &o)
		require.NoError(t, err)
	}
}

func TestCapsArePromises(t *testing.T) {
	s, _ := newFake(t, nil, nil)
	require.Equal(t, store.Caps{Guard: true, ClearStaged: true}, s.Caps())
}

// An empty name would address the container, and a relative one another blob.
func TestBadNamesAndIdsNeverReachTheService(t *testing.T) {
	s, server := newFake(t, nil, &azstore.Options{Prefix: "tenant/"})
	unreadable := []string{"", "../a", "a/./b", "..", "a\x00", "\xff", strings.Repeat("n", 1018)}
	for _, name := range append([]string{"/", "a/", "/a", "a//b", "a\\b", "a.", "_blobtx/x"}, unreadable...) {
		p := params(name, []byte("x"))
		_, err := s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrInvalid, "create %q", name)
		size, _, _ := p.Body.Sum()
		require.Zero(t, size, "nothing was read")
		require.ErrorIs(t, s.Seal(t.Context(), name, intentID), store.ErrInvalid, "seal %q", name)
		require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: name, IntentID: intentID}), store.ErrInvalid, "delete %q", name)
	}
	for _, name := range unreadable { // the others could be what somebody else put there
		_, err := s.Stat(t.Context(), store.StatParams{Name: name})
		require.ErrorIs(t, err, store.ErrInvalid, "stat %q", name)
		_, err = s.Open(t.Context(), store.OpenParams{Name: name, ETag: `"0x1"`, Count: -1})
		require.ErrorIs(t, err, store.ErrInvalid, "open %q", name)
	}
	for _, id := range []string{"", "a' OR 'b' = 'b", `a"`, "ä", "a\n", strings.Repeat("i", 257)} {
		p := params("a", nil)
		p.IntentID = id
		_, err := s.Create(t.Context(), p)
		require.ErrorIs(t, err, store.ErrInvalid, "create %q", id)
		require.ErrorIs(t, s.Seal(t.Context(), "a", id), store.ErrInvalid, "seal %q", id)
		require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: "a", IntentID: id}), store.ErrInvalid, "delete %q", id)
	}
	_, err := s.Open(t.Context(), store.OpenParams{Name: "a", Count: -1})
	require.ErrorIs(t, err, store.ErrInvalid, "without an ETag other bytes could come back")
	_, err = s.Open(t.Context(), store.OpenParams{Name: "a", ETag: `"0x1"`, Offset: -1, Count: -1})
	require.ErrorIs(t, err, store.ErrInvalid)
	p := params("a", nil)
	p.Body = nil
	_, err = s.Create(t.Context(), p)
	require.ErrorIs(t, err, store.ErrInvalid)
	p = params("a", nil)
	p.ContentType = "text/plain\r\nx-ms-tags: state=committed"
	_, err = s.Create(t.Context(), p)
	require.ErrorIs(t, err, store.ErrInvalid)
	p.ContentType, p.Body = "", store.NewBody(strings.NewReader(""), 50_000*4000*mib+1, "")
	_, err = s.Create(t.Context(), p)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.Zero(t, server.Requests())
}

func TestLifecyclePolicyLeavesTimeForUploadsAndSweepers(t *testing.T) {
	got, err := azstore.LifecyclePolicy(&azstore.LifecycleOptions{Container: "documents", Prefix: "tenant-7/"})
	require.NoError(t, err)
	require.JSONEq(t, `{"rules": [{
		"enabled": true,
		"name": "blobtx-pending",
		"type": "Lifecycle",
		"definition": {
			"actions": {"baseBlob": {"delete": {"daysAfterCreationGreaterThan": 7}}},
			"filters": {
				"blobTypes": ["blockBlob"],
				"prefixMatch": ["documents/tenant-7/"],
				"blobIndexMatch": [{"name": "state", "op": "==", "value": "pending"}]
			}
		}
	}]}`, string(got))

	got, err = azstore.LifecyclePolicy(nil)
	require.NoError(t, err)
	require.NotContains(t, string(got), "prefixMatch")

	for _, o := range []azstore.LifecycleOptions{{Days: 4}, {MaxPending: 1, Days: 3}, {MaxPending: 49 * hour, Days: 5}, {MaxPending: 30 * 24 * hour}} {
		got, err := azstore.LifecyclePolicy(&o)
		require.NoError(t, err, "%+v", o)
		if o.Days == 0 {
			require.Contains(t, string(got), `"daysAfterCreationGreaterThan": 32`)
		}
	}
	got, err = azstore.LifecyclePolicy(&azstore.LifecycleOptions{MaxPending: math.MaxInt64})
	require.NoError(t, err)
	require.Contains(t, string(got), `"daysAfterCreationGreaterThan": 106754`)
	for _, o := range []azstore.LifecycleOptions{{Days: 3}, {Days: -1}, {MaxPending: 1, Days: 2}, {MaxPending: 49 * hour, Days: 4}, {MaxPending: math.MaxInt64, Days: 106_753}, {MaxPending: -1}, {Prefix: "a/"}} {
		_, err := azstore.LifecyclePolicy(&o)
		require.ErrorIs(t, err, store.ErrInvalid, "%+v", o)
	}
}
