package wire

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/store"
)

// azurite is a container whose requests go through a transport. The database
// beside it is out of the faults' way.
type azurite struct {
	*database
	client  *container.Client // past the transport
	faulty  *wire.Transport
	retries bool // the SDK's own
	runs    int
}

// world makes a new one under a prefix of its own.
func (a *azurite) world(t testing.TB) *world {
	a.runs++
	prefix := fmt.Sprintf("run-%d/", a.runs)
	retry := policy.RetryOptions{RetryDelay: time.Millisecond}
	if !a.retries {
		retry.MaxRetries = -1
	}
	through, err := container.NewClientFromConnectionString(services.Azurite(t), path.Base(a.client.URL()), &container.ClientOptions{
		ClientOptions: policy.ClientOptions{Transport: a.faulty, Retry: retry},
	})
	require.NoError(t, err)
	var stores [2]*azstore.Store
	for i, c := range []*container.Client{through, a.client} {
		// One block at a time: the requests come in the same order every time.
		stores[i], err = azstore.New(c, &azstore.Options{Prefix: prefix, BlockSize: 64 << 10, Concurrency: 1})
		require.NoError(t, err)
	}
	w := &world{t: t, tx: sqlTransactions(a.direct, a.calm), direct: a.direct, barrier: a.barrier, container: inAzurite{stores[1]}, clock: &a.clock, land: func() {}}
	a.coordinators(t, w, a.calm, stores[0], stores[1])
	return w
}

// inAzurite is a container as it is.
type inAzurite struct{ *azstore.Store }

func (a inAzurite) contents(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	for info, err := range a.List(t.Context(), store.ListBlobsParams{}) {
		require.NoError(t, err)
		r, err := a.Open(t.Context(), store.OpenParams{Name: info.Name, ETag: info.ETag, Count: -1})
		require.NoError(t, err)
		all[info.Name], err = io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
	return all
}

func (a inAzurite) sealed(t testing.TB, name string) bool {
	info, err := a.Stat(t.Context(), store.StatParams{Name: name, Seal: true})
	require.NoError(t, err)
	return info.Sealed
}

// big goes up in blocks.
var big = strings.Repeat("new blocks ", 20_000)

// inBlocks is the operation that only a container sees.
var inBlocks = operation{
	name: "put in blocks", commits: 1, prepare: nothing, visible: holds("k", big),
	run: func(ctx context.Context, w *world) error {
		_, err := w.Put(ctx, "k", body(big), nil)
		return err
	},
}

// TestEveryLostMessageToAzurite: each request of each operation is lost, or its
// reply is, with the SDK's retries and without.
func TestEveryLostMessageToAzurite(t *testing.T) {
	for _, retries := range []bool{true, false} {
		t.Run(fmt.Sprintf("retries %v", retries), func(t *testing.T) {
			t.Parallel()
			a := &azurite{database: newPostgres(t), client: services.AzuriteContainer(t), faulty: &wire.Transport{}, retries: retries}
			for _, op := range append(operations(), inBlocks) {
				if op.rowsOnly {
					continue
				}
				t.Run(op.name, func(t *testing.T) {
					loseEach(t, &a.faulty.Fate, []wire.Fault{wire.RequestLost, wire.ReplyLost, wire.Unreachable, wire.ReplyLostUnreachable}, op, a.world)
				})
			}
		})
	}
}
