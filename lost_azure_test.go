package blobtx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

const azureContainer = "objects"

// azureFaults are what can happen to one HTTP request.
var azureFaults = map[string]func(late func(apply func() int)) azfake.Fault{
	"request lost": func(func(func() int)) azfake.Fault { return azfake.LoseRequest() },
	"reply lost":   func(func(func() int)) azfake.Fault { return azfake.LoseReply() },
	"lands late":   azfake.ApplyLate,
	"throttled":    func(func(func() int)) azfake.Fault { return azfake.Throttle(http.StatusServiceUnavailable, 0) },
	"failed": func(func(func() int)) azfake.Fault {
		return azfake.Fault{Kind: azfake.Refused, Status: http.StatusInternalServerError, Code: "InternalError"}
	},
}

// azureWorld is a world whose container is an azstore over azfake. What happens
// to it is decided per HTTP request, under the SDK.
type azureWorld struct {
	*world
	sealsLater *blobtx.Coordinator // calm too, and owes the seals of what it commits
	server     *azfake.Server

	mu   sync.Mutex
	seen int // requests since the fault was set
	met  azfake.Op
	late []func() int

	landed bool
}

func newAzureWorld(t *testing.T, retries bool) *azureWorld {
	server := azfake.New(nil)
	options := server.ClientOptions()
	if !retries {
		options.Retry = policy.RetryOptions{MaxRetries: -1}
	}
	open := func(o policy.ClientOptions) store.BlobStore {
		c, err := server.ContainerClient(azureContainer, &container.ClientOptions{ClientOptions: o})
		require.NoError(t, err)
		s, err := azstore.New(c, &azstore.Options{BlockSize: 64 << 10, Concurrency: 2})
		require.NoError(t, err)
		return s
	}
	w := &azureWorld{world: &world{t: t, rows: memstore.NewRows(nil), wire: &wire{}}, server: server}
	checkLeaks(t, w.rows)
	var err error
	w.Coordinator, err = blobtx.New(w.rows, open(options), nil)
	require.NoError(t, err)
	calm := open(server.ClientOptions())
	w.calm, err = blobtx.New(w.rows, calm, nil)
	require.NoError(t, err)
	w.sealsLater, err = blobtx.New(w.rows, calm, &blobtx.Options{SealLater: true})
	require.NoError(t, err)
	return w
}

// fail makes the n-th request from now on meet the fault; it counts from 1. The
// parts of a batch are not requests.
func (w *azureWorld) fail(n int, fault azfake.Fault) {
	w.server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpBatchDelete {
			return azfake.Fault{}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.seen++; w.seen != n {
			return azfake.Fault{}
		}
		w.met = c.Op
		return fault
	})
}

func (w *azureWorld) land() {
	for _, apply := range w.late {
		apply()
		w.landed = true
	}
	w.late = nil
}

func (w *azureWorld) intact() {
	w.t.Helper()
	there := w.server.Inspect(azureContainer)
	for _, o := range w.rows.Objects() {
		b, ok := there[o.Blob.Name]
		require.True(w.t, ok, "dangling: object %q names blob %q, which is not there", o.Key, o.Blob.Name)
		sum := sha256.Sum256(b.Data)
		require.Equal(w.t, []string{o.Blob.ETag, o.Blob.SHA256}, []string{b.ETag, hex.EncodeToString(sum[:])})
	}
}

// atRest lets every deadline pass, sweeps, and requires that the container holds
// exactly what the objects name, sealed, and no staged block. A block that landed
// late is the service's to forget, within a week ("Put Block", REST reference).
func (w *azureWorld) atRest() {
	w.t.Helper()
	for range 8 {
		time.Sleep(49 * time.Hour)
		_, err := w.calm.Sweep(w.t.Context(), nil)
		require.NoError(w.t, err)
		w.intact()
	}
	there := w.server.Inspect(azureContainer)
	for _, o := range w.rows.Objects() {
		require.Equal(w.t, "committed", there[o.Blob.Name].Tags["state"])
		delete(there, o.Blob.Name)
	}
	require.Empty(w.t, there, "blobs that no row names")
	if !w.landed {
		require.Empty(w.t, w.server.StagedNames(azureContainer))
	}
	require.Empty(w.t, w.rows.Intents())
	require.Empty(w.t, w.rows.RetiredNames())
}

// azureOperations are operations, and what only shows on a real wire: bodies in
// blocks, deletes in batches.
func azureOperations() []operation {
	big := string(bytes.Repeat([]byte("new blocks "), 20_000))
	return append(operations(),
		operation{"put in blocks", func(*world) {}, func(ctx context.Context, w *world) error {
			_, err := w.Put(ctx, "k", bytes.NewReader([]byte(big)), nil)
			return err
		}, func(w *world) bool {
			_, err := w.calm.Get(w.t.Context(), "k")
			return err == nil && w.read("k") == big
		}},
		operation{"sweep", func(*world) {}, func(ctx context.Context, w *world) error {
			_, err := w.Sweep(ctx, nil)
			return err
		}, func(w *world) bool { return w.read("k") == "new" }},
	)
}

// backlog leaves three blobs of each kind that a sweep deletes, one that it
// seals, and blocks that it clears.
func (w *azureWorld) backlog() {
	ctx := w.t.Context()
	for i := range 3 {
		w.put(fmt.Sprintf("gone %d", i), "old", nil)
		require.NoError(w.t, w.Delete(ctx, fmt.Sprintf("gone %d", i), nil))
		up, err := w.Stage(ctx, fmt.Sprintf("never %d", i), text("x"), nil)
		require.NoError(w.t, err)
		up.Release()
	}
	_, err := w.sealsLater.Put(ctx, "k", text("new"), nil)
	require.NoError(w.t, err)
	half := io.MultiReader(bytes.NewReader(make([]byte, 400<<10)), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err = w.Stage(ctx, "half", half, nil)
	require.ErrorIs(w.t, err, io.ErrUnexpectedEOF)
	require.NotEmpty(w.t, w.server.StagedNames(azureContainer))
	time.Sleep(time.Hour)
}

// Every HTTP request of every operation of a Coordinator meets every fault, with
// the SDK's retries and without: what the client is told is true and stays so.
func TestEveryHTTPRequestMeetsEveryFault(t *testing.T) {
	for _, op := range azureOperations() {
		for name := range azureFaults {
			for _, retries := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/retries %v", op.name, name, retries), func(t *testing.T) {
					met := 0
					for n := 1; ; n++ {
						hit := false
						synctest.Test(t, func(t *testing.T) { hit = loseHTTP(t, op, n, name, retries) })
						if !hit {
							break
						}
						met++
					}
					if !slices.Contains([]string{"delete", "delete a version", "set metadata"}, op.name) { // rows alone
						require.Positive(t, met, "no fault was injected")
					}
				})
			}
		}
	}
}

func loseHTTP(t *testing.T, op operation, n int, name string, retries bool) (hit bool) {
	w := newAzureWorld(t, retries)
	op.prepare(w.world)
	if op.name == "sweep" {
		w.backlog()
	}
	w.fail(n, azureFaults[name](func(apply func() int) { w.late = append(w.late, apply) }))
	told := op.run(t.Context(), w.world)
	w.server.SetHook(nil)
	visible := op.visible(w.world)
	switch {
	case told == nil, op.name == "sweep": // what was committed stays
		require.True(t, visible, "told yes after %s, but it is not there", w.met)
	case !errors.Is(told, blobtx.ErrOutcomeUnknown):
		require.False(t, visible, "told %v after %s, but it is there", told, w.met)
	}
	if retries && name != "lands late" {
		require.NoError(t, told, "one fault, at %s, is survived", w.met)
	}
	w.intact()
	w.land()
	w.intact()
	require.Equal(t, visible, op.visible(w.world), "what was told became untrue when the late %s landed", w.met)
	w.atRest()
	require.Equal(t, visible, op.visible(w.world))
	return w.met != ""
}
