package azstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// nth makes the n-th request, whatever it is, meet a fault; it counts from 1.
// The parts of a batch are not requests.
type nth struct {
	n     int
	fault azfake.Fault

	mu   sync.Mutex
	seen int
	met  bool
}

func (h *nth) hook(c azfake.Call) azfake.Fault {
	if c.Op == azfake.OpBatchDelete {
		return azfake.Fault{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen++; h.seen != h.n {
		return azfake.Fault{}
	}
	h.met = true
	return h.fault
}

// faults are what can happen to one request.
var faults = map[string]azfake.Fault{
	"request lost": azfake.LoseRequest(),
	"reply lost":   azfake.LoseReply(),
	"throttled":    azfake.Throttle(http.StatusServiceUnavailable, 0),
	"failed":       {Kind: azfake.Refused, Status: http.StatusInternalServerError, Code: "InternalError"},
}

// servers are the answers between which the reference leaves a choice.
var servers = map[string]azfake.Options{
	"409":           {},
	"412":           {CreateConflict412: true},
	"staged blocks": {AzuriteStaged: true},
}

// operations are what a Store does, each on a container with the blobs "there"
// and "sealed" and blocks staged under "staged". Each checks that what it was
// told is the truth. Final says whether it was told anything definite.
var operations = map[string]func(t *testing.T, s *azstore.Store, server *azfake.Server) (final bool){
	"create":       func(t *testing.T, s *azstore.Store, server *azfake.Server) bool { return createTruth(t, s, server, 10) },
	"create empty": func(t *testing.T, s *azstore.Store, server *azfake.Server) bool { return createTruth(t, s, server, 0) },
	"create from blocks": func(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
		return createTruth(t, s, server, 300*kib)
	},
	"create over staged":  createOverStaged,
	"create where one is": createOverBlob,
	"seal":                sealTruth,
	"seal refused":        sealRefused,
	"delete": func(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
		return deleteTruth(t, s, server, "there")
	},
	"delete in a batch": func(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
		return deleteTruth(t, s, server, "there", "staged", "absent")
	},
	"delete refused":   deleteRefused,
	"stat, open, list": readTruth,
	"probe":            func(t *testing.T, s *azstore.Store, _ *azfake.Server) bool { return s.Probe(t.Context()) == nil },
}

func createTruth(t *testing.T, s *azstore.Store, server *azfake.Server, size int) bool {
	data := noise(size)
	return createdTruth(t, s, server, "new", data)
}

func createOverStaged(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	return createdTruth(t, s, server, "staged", noise(10))
}

func createdTruth(t *testing.T, s *azstore.Store, server *azfake.Server, name string, data []byte) bool {
	b, err := s.Create(t.Context(), params(name, data))
	there, ok := server.Inspect(containerName)[name]
	switch {
	case err == nil:
		require.True(t, ok)
		require.Equal(t, there.ETag, b.ETag)
	case errors.Is(err, store.ErrExists):
		// The SDK met its own first try. The metadata says whose it is.
		require.True(t, ok)
		require.Equal(t, intentID, there.Metadata["blobtx_intent"])
		require.Equal(t, sum(data), there.Metadata["blobtx_sha256"])
	}
	if ok {
		require.True(t, bytes.Equal(data, there.Data), "whole, or not at all")
		require.Equal(t, "pending", there.Tags["state"])
	}
	return err == nil || errors.Is(err, store.ErrExists)
}

func createOverBlob(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	before := server.Inspect(containerName)["there"]
	for _, size := range []int{10, 300 * kib} {
		_, err := s.Create(t.Context(), params("there", noise(size)))
		require.Error(t, err)
		require.Equal(t, before, server.Inspect(containerName)["there"])
		if !errors.Is(err, store.ErrExists) {
			return false
		}
	}
	return true
}

func sealTruth(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	err := s.Seal(t.Context(), "there", intentID)
	require.NotErrorIs(t, err, store.ErrGuardRefused)
	require.NotErrorIs(t, err, store.ErrBlobNotFound)
	if err == nil {
		require.Equal(t, "committed", server.Inspect(containerName)["there"].Tags["state"])
	}
	return err == nil
}

func sealRefused(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	before := server.Inspect(containerName)["there"]
	err := s.Seal(t.Context(), "there", otherIntent)
	require.Error(t, err)
	require.Equal(t, before, server.Inspect(containerName)["there"])
	return errors.Is(err, store.ErrGuardRefused)
}

func deleteTruth(t *testing.T, s *azstore.Store, server *azfake.Server, names ...string) bool {
	var all []store.DeleteBlob
	for _, name := range names {
		all = append(all, store.DeleteBlob{Name: name, IntentID: intentID, Pending: true, ClearStaged: true})
	}
	final := true
	for i, err := range s.Delete(t.Context(), all) {
		require.NotErrorIs(t, err, store.ErrGuardRefused)
		switch {
		case err == nil, errors.Is(err, store.ErrBlobNotFound):
			require.NotContains(t, server.Names(containerName), names[i])
			require.Zero(t, server.Staged(containerName, names[i]))
		default:
			final = false
		}
	}
	return final
}

func deleteRefused(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	before := server.Inspect(containerName)
	final := true
	for _, err := range s.Delete(t.Context(), []store.DeleteBlob{
		{Name: "sealed", IntentID: intentID, Pending: true}, {Name: "there", IntentID: otherIntent, ClearStaged: true},
	}) {
		require.Error(t, err)
		final = final && errors.Is(err, store.ErrGuardRefused)
	}
	require.Equal(t, before, server.Inspect(containerName))
	return final
}

func readTruth(t *testing.T, s *azstore.Store, server *azfake.Server) bool {
	info, err := s.Stat(t.Context(), store.StatParams{Name: "sealed", Seal: true})
	require.NotErrorIs(t, err, store.ErrBlobNotFound)
	if err != nil {
		return false
	}
	require.True(t, info.Sealed)
	r, err := s.Open(t.Context(), store.OpenParams{Name: "sealed", ETag: info.ETag, Count: -1})
	require.NotErrorIs(t, err, store.ErrConflict)
	if err != nil {
		return false
	}
	require.NoError(t, r.Close())
	_, err = s.Open(t.Context(), store.OpenParams{Name: "absent", ETag: info.ETag, Count: -1})
	require.Error(t, err)
	if !errors.Is(err, store.ErrBlobNotFound) && !errors.Is(err, store.ErrConflict) {
		return false
	}
	n := 0
	for _, err := range s.List(t.Context(), store.ListBlobsParams{}) {
		if err != nil {
			return false
		}
		n++
	}
	require.Equal(t, 2, n)
	return true
}

// Whatever happens to whichever request: with the SDK's retries every operation
// ends with the truth; without them, with the truth or with an error that
// claims nothing.
func TestEveryRequestMeetsEveryFault(t *testing.T) {
	for name, operation := range operations {
		for faultName, fault := range faults {
			for server, fake := range servers {
				if name == "probe" && server != "409" {
					continue // thirty requests, each of them met once: it has its own tests
				}
				for _, retries := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/%s/retries %v", name, faultName, server, retries), func(t *testing.T) {
						for n := 1; ; n++ {
							server := azfake.New(&fake)
							s := storeOver(t, server, nil, small)
							create(t, s, "there", noise(5))
							create(t, s, "sealed", noise(6))
							require.NoError(t, s.Seal(t.Context(), "sealed", intentID))
							stageAndFail(t, s, "staged")
							if !retries {
								s = storeOver(t, server, withoutRetries(server), small)
							}
							h := &nth{n: n, fault: fault}
							server.SetHook(h.hook)
							final := operation(t, s, server)
							if retries {
								require.True(t, final, "request %d", n)
							}
							if !h.met {
								require.True(t, final)
								return
							}
						}
					})
				}
			}
		}
	}
}
