package azstore_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

func TestDeleteTellsEachElementItsOwn(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "pending", nil)
	create(t, s, "sealed", nil)
	require.NoError(t, s.Seal(t.Context(), "sealed", intentID))
	create(t, s, "twice", nil)
	server.ResetCounts()
	errs := s.Delete(t.Context(), []store.DeleteBlob{
		{Name: "pending", IntentID: otherIntent},
		{Name: "sealed", IntentID: intentID, Pending: true},
		{Name: "absent", IntentID: intentID},
		{Name: "", IntentID: intentID},
		{Name: "pending", IntentID: intentID, Pending: true},
		{Name: "sealed", IntentID: intentID},
		{Name: "twice", IntentID: intentID},
		{Name: "twice", IntentID: intentID},
	})
	require.Len(t, errs, 8)
	require.ErrorIs(t, errs[0], store.ErrGuardRefused)
	require.ErrorIs(t, errs[1], store.ErrGuardRefused)
	require.ErrorIs(t, errs[2], store.ErrBlobNotFound)
	require.ErrorIs(t, errs[3], store.ErrInvalid)
	require.NoError(t, errs[4])
	require.NoError(t, errs[5])
	require.NoError(t, errs[6])
	require.ErrorIs(t, errs[7], store.ErrBlobNotFound, "matched by position, not by name")
	require.Equal(t, counts{azfake.OpBatch: 1, azfake.OpBatchDelete: 7}, server.Counts())
	require.Empty(t, server.Names(containerName))
	require.Empty(t, s.Delete(t.Context(), nil))
}

func TestDeleteCosts(t *testing.T) {
	for _, c := range []struct {
		blobs  int
		staged bool
		want   counts
	}{
		{1, false, counts{azfake.OpDeleteBlob: 1}},
		{1, true, counts{azfake.OpPutBlockList: 1, azfake.OpDeleteBlob: 1}},
		{2, false, counts{azfake.OpBatch: 1, azfake.OpBatchDelete: 2}},
		{3, true, counts{azfake.OpPutBlockList: 3, azfake.OpBatch: 1, azfake.OpBatchDelete: 3}},
		{256, false, counts{azfake.OpBatch: 1, azfake.OpBatchDelete: 256}},
		{257, false, counts{azfake.OpBatch: 1, azfake.OpBatchDelete: 256, azfake.OpDeleteBlob: 1}},
		{520, false, counts{azfake.OpBatch: 3, azfake.OpBatchDelete: 520}},
	} {
		s, server := newFake(t, nil, nil)
		all := fill(t, s, c.blobs)
		for i := range all {
			all[i].ClearStaged = c.staged
		}
		server.ResetCounts()
		noGoroutineLeft(t, func() {
			for _, err := range s.Delete(t.Context(), all) {
				require.NoError(t, err)
			}
		})
		require.Equal(t, c.want, server.Counts(), "%d blobs", c.blobs)
		require.Empty(t, server.Names(containerName))
	}
}

// fill creates n blobs and returns how to delete them.
func fill(t *testing.T, s *azstore.Store, n int) []store.DeleteBlob {
	t.Helper()
	all := make([]store.DeleteBlob, n)
	for i := range all {
		all[i] = store.DeleteBlob{Name: fmt.Sprintf("dir/n%d", i), IntentID: intentID}
		create(t, s, all[i].Name, nil)
	}
	return all
}

// After it no block list of an earlier attempt can make anything readable, and
// what it reports is about readable blobs alone.
func TestClearStaged(t *testing.T) {
	for _, fake := range servers {
		for _, pending := range []bool{false, true} {
			s, server := newFake(t, &fake, small)
			stageAndFail(t, s, "staged")
			require.NotZero(t, server.Staged(containerName, "staged"))
			create(t, s, "blob", nil)
			errs := s.Delete(t.Context(), []store.DeleteBlob{
				{Name: "staged", IntentID: intentID, Pending: pending, ClearStaged: true},
				{Name: "nothing", IntentID: intentID, Pending: pending, ClearStaged: true},
				{Name: "blob", IntentID: intentID, Pending: pending, ClearStaged: true},
				{Name: "blob2", IntentID: intentID, Pending: pending},
			})
			require.ErrorIs(t, errs[0], store.ErrBlobNotFound)
			require.ErrorIs(t, errs[1], store.ErrBlobNotFound)
			require.NoError(t, errs[2])
			require.ErrorIs(t, errs[3], store.ErrBlobNotFound)
			require.Empty(t, server.Names(containerName))
			require.Empty(t, server.StagedNames(containerName))
		}
	}
}

func TestClearStagedLeavesASealedBlobAlone(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "a", []byte("x"))
	require.NoError(t, s.Seal(t.Context(), "a", intentID))
	before := server.Inspect(containerName)
	err := deleteOne(t.Context(), s, store.DeleteBlob{Name: "a", IntentID: intentID, Pending: true, ClearStaged: true})
	require.ErrorIs(t, err, store.ErrGuardRefused)
	require.Equal(t, before, server.Inspect(containerName))
}

// A crash between the empty block list and the delete leaves a blob that the
// next delete finds under its guard.
func TestClearStagedSurvivesACrashInBetween(t *testing.T) {
	s, server := newFake(t, nil, small)
	stageAndFail(t, s, "a")
	ctx, crash := context.WithCancel(t.Context())
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpDeleteBlob {
			crash()
			return azfake.LoseRequest()
		}
		return azfake.Fault{}
	})
	d := store.DeleteBlob{Name: "a", IntentID: intentID, Pending: true, ClearStaged: true}
	require.ErrorIs(t, deleteOne(ctx, s, d), context.Canceled)
	left := server.Inspect(containerName)["a"]
	require.Zero(t, left.Size)
	require.Equal(t, map[string]string{"state": "pending", "intent": intentID}, left.Tags)
	info, err := s.Stat(t.Context(), store.StatParams{Name: "a", Seal: true})
	require.NoError(t, err)
	require.Equal(t, intentID, info.IntentID)
	server.SetHook(nil)
	require.NoError(t, deleteOne(t.Context(), s, d))
	require.Empty(t, server.Names(containerName))
}

// A foreign lease is no answer of the guard.
func TestLeaseIsNotTheGuard(t *testing.T) {
	s, server := newFake(t, nil, nil)
	create(t, s, "a", nil)
	create(t, s, "b", nil)
	c, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	l, err := lease.NewBlobClient(c.NewBlobClient("a"), nil)
	require.NoError(t, err)
	_, err = l.AcquireLease(t.Context(), -1, nil)
	require.NoError(t, err)
	for _, errs := range [][]error{
		s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}}),
		s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID}}),
		{s.Seal(t.Context(), "a", intentID)},
	} {
		require.ErrorContains(t, errs[0], "LeaseIdMissing")
		require.NotErrorIs(t, errs[0], store.ErrGuardRefused)
	}
}

// An account SAS makes Azurite answer 500 to a batch; other servers know none.
func TestRefusedBatchFallsBackToSingleDeletes(t *testing.T) {
	for _, status := range []int{400, 403, 404, 405, 500, 501} {
		s, server := newFake(t, nil, nil)
		server.SetHook(func(c azfake.Call) azfake.Fault {
			if c.Op == azfake.OpBatch {
				return azfake.Fault{Kind: azfake.Refused, Status: status, Code: "Whatever"}
			}
			return azfake.Fault{}
		})
		for round := range 2 {
			all := append(fill(t, s, 20), store.DeleteBlob{Name: "absent", IntentID: intentID})
			server.ResetCounts()
			var errs []error
			noGoroutineLeft(t, func() { errs = s.Delete(t.Context(), all) })
			for _, err := range errs[:20] {
				require.NoError(t, err)
			}
			require.ErrorIs(t, errs[20], store.ErrBlobNotFound)
			require.Empty(t, server.Names(containerName))
			require.Equal(t, 21, server.Count(azfake.OpDeleteBlob))
			if round == 1 {
				require.Zero(t, server.Count(azfake.OpBatch), "a refused batch is not tried again at once")
			}
		}
	}
}

// A batch refused because the service is busy, or single deletes that fare no
// better, must not become hundreds of requests.
func TestRefusedBatchDoesNotMakeThingsWorse(t *testing.T) {
	for name, c := range map[string]struct {
		fault   azfake.Fault
		always  bool
		singles int
		is      error
	}{
		"throttled 503":        {azfake.Throttle(http.StatusServiceUnavailable, 0), false, 0, nil},
		"throttled 429":        {azfake.Throttle(http.StatusTooManyRequests, 0), false, 0, nil},
		"container gone":       {azfake.Fault{Kind: azfake.Refused, Status: 404, Code: "ContainerNotFound"}, false, 0, store.ErrSetup},
		"lost":                 {azfake.LoseRequest(), false, 0, nil},
		"no delete permission": {azfake.Deny(), true, 1, store.ErrSetup},
	} {
		s, server := newFake(t, nil, nil)
		all := fill(t, s, 20)
		server.ResetCounts()
		server.SetHook(func(call azfake.Call) azfake.Fault {
			if c.always || call.Op == azfake.OpBatch {
				return c.fault
			}
			return azfake.Fault{}
		})
		for _, err := range s.Delete(t.Context(), all) {
			require.Error(t, err, name)
			require.NotErrorIs(t, err, store.ErrBlobNotFound, name)
			require.NotErrorIs(t, err, store.ErrGuardRefused, name)
			if c.is != nil {
				require.ErrorIs(t, err, c.is, name)
			}
		}
		require.Equal(t, c.singles, server.Count(azfake.OpDeleteBlob), name)
		require.Len(t, server.Names(containerName), 20, name)
	}
}

// The parts of a batch carry the SAS in their URLs.
func TestBatchUnderASAS(t *testing.T) {
	server := azfake.New(&azfake.Options{Key: accountKey})
	c, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	link, err := c.GetSASURL(sas.ContainerPermissions{Read: true, Write: true, Delete: true, List: true, Tag: true}, time.Now().Add(hour), nil)
	require.NoError(t, err)
	limited, err := container.NewClientWithNoCredential(link, &container.ClientOptions{ClientOptions: server.ClientOptions()})
	require.NoError(t, err)
	s, err := azstore.New(limited, nil)
	require.NoError(t, err)
	all := fill(t, s, 3)
	server.ResetCounts()
	for _, err := range s.Delete(t.Context(), all) {
		require.NoError(t, err)
	}
	require.Equal(t, counts{azfake.OpBatch: 1, azfake.OpBatchDelete: 3}, server.Counts())
}

// Snapshots that others took must not keep a blob alive. The fake has none, so
// this looks at the request.
func TestDeleteIncludesSnapshots(t *testing.T) {
	s, server := newFake(t, nil, nil)
	all := fill(t, s, 3)
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpDeleteBlob || c.Op == azfake.OpBatchDelete {
			require.Equal(t, string(blob.DeleteSnapshotsOptionTypeInclude), c.Request.Header.Get("x-ms-delete-snapshots"))
			require.Equal(t, `"intent" = '`+intentID+`'`, c.Request.Header.Get("x-ms-if-tags"))
			require.Empty(t, c.Request.Header.Get("If-Match"), "the tag guard travels alone")
		}
		return azfake.Fault{}
	})
	require.NoError(t, deleteOne(t.Context(), s, all[0]))
	for _, err := range s.Delete(t.Context(), all[1:]) {
		require.NoError(t, err)
	}
}

func TestDeleteAfterTheContextEnded(t *testing.T) {
	s, server := newFake(t, nil, nil)
	all := fill(t, s, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range all {
		for _, err := range s.Delete(ctx, all[:i+1]) {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Len(t, server.Names(containerName), 3)
}
