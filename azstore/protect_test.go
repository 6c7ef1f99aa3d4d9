package azstore_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// foreign is someone else's lease on the container.
func foreign(t testing.TB, server *azfake.Server) (*container.Client, *lease.ContainerClient) {
	t.Helper()
	c, err := server.ContainerClient(containerName, nil)
	require.NoError(t, err)
	lc, err := lease.NewContainerClient(c, nil)
	require.NoError(t, err)
	return c, lc
}

func TestAProtectedContainerIsNotDeleted(t *testing.T) {
	s, server := newFake(t, nil, nil)
	another := storeOver(t, server, nil, &azstore.Options{Prefix: "tenant-7/"})
	c, _ := foreign(t, server)
	require.NoError(t, s.ProtectContainer(t.Context()))
	require.NoError(t, another.ProtectContainer(t.Context()), "twice is once")
	_, err := c.Delete(t.Context(), nil)
	require.True(t, bloberror.HasCode(err, bloberror.LeaseIDMissing), "%v", err)

	require.NoError(t, s.Probe(t.Context()), "everything else goes on")
	require.NoError(t, lock(t, s, once).Release())

	require.NoError(t, another.UnprotectContainer(t.Context()))
	require.NoError(t, s.UnprotectContainer(t.Context()), "twice is once")
	require.NoError(t, s.ProtectContainer(t.Context()))
	require.NoError(t, s.UnprotectContainer(t.Context()))
	_, err = c.Delete(t.Context(), nil)
	require.NoError(t, err)
	require.ErrorIs(t, s.ProtectContainer(t.Context()), store.ErrSetup)
	require.ErrorIs(t, s.UnprotectContainer(t.Context()), store.ErrSetup)
}

func TestTheContainerLeaseIDDeletesAProtectedContainer(t *testing.T) {
	s, server := newFake(t, nil, nil)
	require.NoError(t, s.ProtectContainer(t.Context()))
	c, _ := foreign(t, server)
	id := azstore.ContainerLeaseID
	_, err := c.Delete(t.Context(), &container.DeleteOptions{AccessConditions: &container.AccessConditions{
		LeaseAccessConditions: &container.LeaseAccessConditions{LeaseID: &id},
	}})
	require.NoError(t, err)
}

func TestSomeoneElsesContainerLeaseStays(t *testing.T) {
	for name, seconds := range map[string]int32{"infinite": -1, "for a minute": 60} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s, server := newFake(t, &azfake.Options{Now: func() time.Time { return now }}, nil)
			c, theirs := foreign(t, server)
			_, err := theirs.AcquireLease(t.Context(), seconds, nil)
			require.NoError(t, err)
			require.ErrorIs(t, s.ProtectContainer(t.Context()), azstore.ErrLeaseHeld)
			require.ErrorIs(t, s.UnprotectContainer(t.Context()), azstore.ErrLeaseIDMismatch)
			_, err = c.Delete(t.Context(), nil)
			require.True(t, bloberror.HasCode(err, bloberror.LeaseIDMissing), "%v", err)

			period := int32(30)
			_, err = theirs.BreakLease(t.Context(), &lease.ContainerBreakOptions{BreakPeriod: &period})
			require.NoError(t, err)
			require.ErrorIs(t, s.ProtectContainer(t.Context()), azstore.ErrLeaseHeld)
			require.ErrorIs(t, s.UnprotectContainer(t.Context()), azstore.ErrLeaseIDMismatch)
			now = now.Add(30 * time.Second)
			require.NoError(t, s.UnprotectContainer(t.Context()), "a broken lease protects nothing")
			require.NoError(t, s.ProtectContainer(t.Context()))
		})
	}
}

// Somebody breaks our protection, which takes no id, and takes their time.
func TestABrokenProtectionIsTakenAgain(t *testing.T) {
	now := time.Now()
	s, server := newFake(t, &azfake.Options{Now: func() time.Time { return now }}, nil)
	c, theirs := foreign(t, server)
	require.NoError(t, s.ProtectContainer(t.Context()))
	period := int32(30)
	_, err := theirs.BreakLease(t.Context(), &lease.ContainerBreakOptions{BreakPeriod: &period})
	require.NoError(t, err)
	require.ErrorIs(t, s.ProtectContainer(t.Context()), azstore.ErrLeaseBreaking)
	now = now.Add(30 * time.Second)
	require.NoError(t, s.ProtectContainer(t.Context()))
	now = now.Add(hour)
	_, err = c.Delete(t.Context(), nil)
	require.True(t, bloberror.HasCode(err, bloberror.LeaseIDMissing), "%v", err)

	_, err = theirs.BreakLease(t.Context(), &lease.ContainerBreakOptions{BreakPeriod: &period})
	require.NoError(t, err)
	require.NoError(t, s.UnprotectContainer(t.Context()), "a breaking lease is released at once")
	_, err = c.Delete(t.Context(), nil)
	require.NoError(t, err)
}

func TestProtectionUnderFaults(t *testing.T) {
	for name, fault := range faults {
		for n := 1; ; n++ {
			s, server := newFake(t, nil, nil)
			h := &nth{n: n, fault: fault}
			server.SetHook(h.hook)
			require.NoError(t, s.ProtectContainer(t.Context()), "%s, request %d", name, n)
			require.NoError(t, s.UnprotectContainer(t.Context()), "%s, request %d", name, n)
			server.SetHook(nil)
			c, _ := foreign(t, server)
			_, err := c.Delete(t.Context(), nil)
			require.NoError(t, err, "%s, request %d", name, n)
			if !h.met {
				require.Greater(t, n, 2)
				break
			}
		}
	}
}
