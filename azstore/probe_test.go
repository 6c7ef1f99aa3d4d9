package azstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

func TestProbePassesAndLeavesNothing(t *testing.T) {
	for name, fake := range servers {
		for _, prefix := range []string{"", "tenant-7/"} {
			s, server := newFake(t, &fake, &azstore.Options{Prefix: prefix})
			written := map[string]bool{}
			server.SetHook(func(c azfake.Call) azfake.Fault {
				if c.Blob != "" {
					written[c.Blob] = true
				}
				return azfake.Fault{}
			})
			noGoroutineLeft(t, func() { require.NoError(t, s.Probe(t.Context()), name) })
			require.Empty(t, server.Names(containerName))
			require.Empty(t, server.StagedNames(containerName))
			for blob := range written {
				require.True(t, strings.HasPrefix(blob, prefix+"_blobtx/probe/"), blob)
			}
			require.LessOrEqual(t, server.Requests(), 32)
		}
	}
}

// Under a credential without one permission Probe names it, and what gives it.
func TestProbeNamesEachMissingPermission(t *testing.T) {
	all := []string{"r", "w", "d", "l", "t"}
	for missing := range 1 << len(all) {
		if missing == 0 {
			continue
		}
		var have string
		lack := map[string]bool{}
		for i, letter := range all {
			if missing&(1<<i) != 0 {
				lack[letter] = true
			} else {
				have += letter
			}
		}
		if have == "" {
			have = "c" // a SAS grants something; c alone is not enough
		}
		s, server := limited(t, have)
		err := s.Probe(t.Context())
		require.ErrorIs(t, err, store.ErrSetup)
		for _, letter := range all {
			require.Equal(t, lack[letter], strings.Contains(err.Error(), "SAS permission "+letter), "%q granted: %v", have, err)
		}
		require.Contains(t, err.Error(), "role action")
		require.NotContains(t, err.Error(), "sig=")
		require.Empty(t, server.Names(containerName), "a probe that may not delete must not write")
		require.Empty(t, server.StagedNames(containerName))
	}
	s, _ := limited(t, strings.Join(all, ""))
	require.NoError(t, s.Probe(t.Context()))
}

// limited is a Store whose credential is a SAS with these permissions.
func limited(t *testing.T, permissions string) (*azstore.Store, *azfake.Server) {
	t.Helper()
	server := azfake.New(&azfake.Options{Key: accountKey})
	full, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	has := func(letter string) bool { return strings.Contains(permissions, letter) }
	link, err := full.GetSASURL(sas.ContainerPermissions{
		Read: has("r"), Create: has("c"), Write: has("w"), Delete: has("d"), List: has("l"), Tag: has("t"),
	}, time.Now().Add(hour), nil)
	require.NoError(t, err)
	c, err := container.NewClientWithNoCredential(link, &container.ClientOptions{ClientOptions: server.ClientOptions()})
	require.NoError(t, err)
	s, err := azstore.New(c, nil)
	require.NoError(t, err)
	return s, server
}

func TestProbeOnAHierarchicalNamespace(t *testing.T) {
	s, server := newFake(t, &azfake.Options{Hierarchical: true}, nil)
	err := s.Probe(t.Context())
	require.ErrorIs(t, err, store.ErrSetup)
	require.ErrorContains(t, err, "hierarchical namespace")
	require.Empty(t, server.Names(containerName))
	// Without a probe the first upload says the same.
	_, err = s.Create(t.Context(), params("a", nil))
	require.ErrorIs(t, err, store.ErrSetup)
	require.ErrorContains(t, err, "hierarchical namespace")
}

func TestProbeWithoutAContainer(t *testing.T) {
	s, server := newFake(t, nil, nil)
	c, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	_, err = c.Delete(t.Context(), nil)
	require.NoError(t, err)
	err = s.Probe(t.Context())
	require.ErrorIs(t, err, store.ErrSetup)
	require.ErrorContains(t, err, "create it")
	_, err = s.Create(t.Context(), params("a", nil))
	require.ErrorIs(t, err, store.ErrSetup)
	require.ErrorIs(t, s.Seal(t.Context(), "a", intentID), store.ErrSetup)
	_, err = s.Stat(t.Context(), store.StatParams{Name: "a"})
	require.ErrorIs(t, err, store.ErrSetup)
	for _, err := range s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID, ClearStaged: true}}) {
		require.ErrorIs(t, err, store.ErrSetup)
	}
}

// A service that cannot be asked has no lack.
func TestProbeOfASilentServiceIsNoSetupError(t *testing.T) {
	for n := 1; ; n++ {
		server := azfake.New(nil)
		s := storeOver(t, server, withoutRetries(server), nil)
		h := &nth{n: n, fault: azfake.LoseRequest()}
		server.SetHook(h.hook)
		err := s.Probe(t.Context())
		if !h.met {
			require.NoError(t, err)
			require.Greater(t, n, 20)
			break
		}
		require.ErrorIs(t, err, azfake.ErrLost, "request %d", n)
		require.NotErrorIs(t, err, store.ErrSetup, "request %d", n)
		require.Empty(t, server.Names(containerName), "cleaned up after request %d", n)
	}
}

// A caller who leaves finds the scratch blobs removed all the same.
func TestProbeCleansUpAfterACancel(t *testing.T) {
	s, server := newFake(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	server.SetHook(func(c azfake.Call) azfake.Fault {
		if c.Op == azfake.OpSetTags && c.Seq == 3 {
			require.NotEmpty(t, server.Names(containerName))
			cancel()
		}
		return azfake.Fault{}
	})
	require.ErrorIs(t, s.Probe(ctx), context.Canceled)
	require.Empty(t, server.Names(containerName))
}

// without removes a condition on its way, so that the server behind it ignores
// that condition.
type without struct {
	op     azfake.Op
	header string
	server string // what it calls itself
	spoil  bool   // change the bytes on their way back
}

func (w without) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	query := raw.URL.Query()
	op := map[string]azfake.Op{
		"PUT ": azfake.OpPutBlob, "PUT tags": azfake.OpSetTags, "PUT blocklist": azfake.OpPutBlockList,
		"DELETE ": azfake.OpDeleteBlob, "GET ": azfake.OpGetBlob,
	}[raw.Method+" "+query.Get("comp")]
	if op == w.op {
		for name := range raw.Header {
			if strings.EqualFold(name, w.header) {
				delete(raw.Header, name)
			}
		}
	}
	resp, err := req.Next()
	if err == nil && w.server != "" {
		resp.Header.Set("Server", w.server)
	}
	if err == nil && w.spoil && op == w.op {
		resp.Body = io.NopCloser(strings.NewReader("other bytes"))
	}
	return resp, err
}

// A service that ignores a condition would lose data silently; Probe is where
// it shows.
func TestProbeFindsAServiceThatIgnoresConditions(t *testing.T) {
	for _, c := range []struct {
		broken without
		want   string
	}{
		{without{op: azfake.OpPutBlob, header: "If-None-Match"}, "create-only Put Blob"},
		{without{op: azfake.OpPutBlockList, header: "If-None-Match"}, "create-only Put Block List"},
		{without{op: azfake.OpSetTags, header: "x-ms-if-tags"}, "Set Blob Tags ignored"},
		{without{op: azfake.OpSetTags, header: "x-ms-if-tags", server: "Some-Blob/1.0"}, "Set Blob Tags ignored"},
		{without{op: azfake.OpSetTags, header: "x-ms-if-tags", server: "Azurite-Blob/3.37.0"}, ""},
		{without{op: azfake.OpDeleteBlob, header: "x-ms-if-tags"}, "Delete Blob ignored"},
		{without{op: azfake.OpGetBlob, header: "If-Match"}, "If-Match"},
		{without{op: azfake.OpGetBlob, spoil: true}, "other bytes"},
		{without{op: azfake.OpPutBlob, header: "x-ms-meta-blobtx_intent"}, "metadata"},
	} {
		t.Run(fmt.Sprintf("%+v", c.broken), func(t *testing.T) {
			server := azfake.New(nil)
			o := server.ClientOptions()
			o.PerRetryPolicies = []policy.Policy{c.broken}
			s := storeOver(t, server, &container.ClientOptions{ClientOptions: o}, nil)
			err := s.Probe(t.Context())
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, store.ErrSetup)
				require.ErrorContains(t, err, c.want)
			}
			require.Empty(t, server.Names(containerName))
		})
	}
}
