package azstore

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/store"
)

var once = &azstore.LockOptions{Duration: 15 * time.Second, Wait: -1}

func lock(t *testing.T, s *azstore.Store, name string) *azstore.Lock {
	t.Helper()
	l, err := s.Lock(t.Context(), name, once)
	require.NoError(t, err)
	return l
}

func requireTaken(t *testing.T, s *azstore.Store, name string) {
	t.Helper()
	_, err := s.Lock(t.Context(), name, once)
	require.ErrorIs(t, err, store.ErrBusy)
	require.ErrorIs(t, err, azstore.ErrLeaseHeld)
}

func TestLockHandsOver(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), &azstore.Options{Prefix: "tenant-7/"})
	l := lock(t, s, "leader")
	requireTaken(t, s, "leader")
	require.NoError(t, lock(t, s, "another").Release())

	next := make(chan *azstore.Lock, 1)
	go func() {
		defer close(next)
		if l, err := s.Lock(t.Context(), "leader", &azstore.LockOptions{Poll: 10 * time.Millisecond}); err == nil {
			next <- l
		}
	}()
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	require.NoError(t, l.Release())
	require.ErrorIs(t, l.Context().Err(), context.Canceled)
	l = <-next
	require.NotNil(t, l)
	requireTaken(t, s, "leader")
	require.NoError(t, l.Release())
	require.NoError(t, lock(t, s, "leader").Release())
}

func TestBreakLock(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), nil)
	_, err := s.BreakLock(t.Context(), "leader", 0)
	require.ErrorIs(t, err, azstore.ErrLeaseNotPresent, "there is not even a blob")
	l := lock(t, s, "leader")
	left, err := s.BreakLock(t.Context(), "leader", 60*time.Second)
	require.NoError(t, err)
	require.Greater(t, left, time.Duration(0))
	require.LessOrEqual(t, left, 15*time.Second, "no longer than what is left")
	requireTaken(t, s, "leader")
	left, err = s.BreakLock(t.Context(), "leader", 0)
	require.NoError(t, err)
	require.Zero(t, left)
	next := lock(t, s, "leader")
	require.NoError(t, l.Release(), "it is not ours any more, which is as good")
	requireTaken(t, s, "leader")
	require.NoError(t, next.Release())
	_, err = s.BreakLock(t.Context(), "leader", 0)
	require.ErrorIs(t, err, azstore.ErrLeaseNotPresent)
}

func TestOneOfManyMakesTheBlobAndGetsTheLock(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), nil)
	locks, errs := make([]*azstore.Lock, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range locks {
		wg.Go(func() { locks[i], errs[i] = s.Lock(t.Context(), "leader", once) })
	}
	wg.Wait()
	won := 0
	for i, l := range locks {
		if errs[i] != nil {
			require.ErrorIs(t, errs[i], store.ErrBusy)
			continue
		}
		won++
		require.NoError(t, l.Release())
	}
	require.Equal(t, 1, won)
	require.Equal(t, []string{store.ReservedPrefix + "lock/leader"}, names(t, s))
}

// renewals reports the end of every renewal.
type renewals struct{ got chan int } // statuses

func (r *renewals) Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	for name, values := range req.Header {
		if err == nil && strings.EqualFold(name, "x-ms-lease-action") && values[0] == "renew" {
			r.got <- resp.StatusCode
		}
	}
	return resp, err
}

// The one test that lets time pass: five seconds, until the renewals are due.
func TestRenewal(t *testing.T) {
	r := &renewals{got: make(chan int, 10)}
	s := over(t, services.AzuriteContainerWith(t, &container.ClientOptions{ClientOptions: policy.ClientOptions{Transport: r}}), nil)
	kept, broken := lock(t, s, "kept"), lock(t, s, "broken")
	_, err := s.BreakLock(t.Context(), "broken", 0)
	require.NoError(t, err)
	require.NoError(t, broken.Err(), "nobody has told it")
	require.ElementsMatch(t, []int{http.StatusOK, http.StatusConflict}, []int{<-r.got, <-r.got})
	<-broken.Context().Done()
	require.ErrorIs(t, context.Cause(broken.Context()), azstore.ErrLockLost)
	require.ErrorContains(t, context.Cause(broken.Context()), "renew lease: lock lost: ", "told by the service, not by the clock")
	require.ErrorIs(t, broken.Release(), azstore.ErrLeaseBroken)
	require.NoError(t, kept.Err())
	requireTaken(t, s, "kept")
	require.NoError(t, kept.Release())
}

// The SDK repeats a request whose reply was lost, and meets its own success.
func TestLostRepliesOfALock(t *testing.T) {
	for n := 1; ; n++ {
		lose := &loseReply{n: n}
		s := over(t, services.AzuriteContainerWith(t, &container.ClientOptions{ClientOptions: policy.ClientOptions{
			Transport: lose, Retry: policy.RetryOptions{RetryDelay: time.Millisecond},
		}}), nil)
		l, err := s.Lock(t.Context(), "leader", once)
		require.NoError(t, err, "reply %d", n)
		requireTaken(t, s, "leader")
		require.NoError(t, l.Release(), "reply %d", n)
		_, err = s.BreakLock(t.Context(), "leader", 0)
		require.ErrorIs(t, err, azstore.ErrLeaseNotPresent, "reply %d", n)
		require.NoError(t, s.ProtectContainer(t.Context()), "reply %d", n)
		require.NoError(t, s.UnprotectContainer(t.Context()), "reply %d", n)
		if lose.seen < n {
			break
		}
	}
}

// Someone else leases one of our blobs: every operation that changes it says so.
func TestForeignLeaseOnABlob(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, small)
	for name, size := range map[string]int{"small": 10, "large": 200 * kib} {
		create(t, s, name, noise(size))
		lc, err := lease.NewBlobClient(c.NewBlobClient(name), nil)
		require.NoError(t, err)
		_, err = lc.AcquireLease(t.Context(), -1, nil)
		require.NoError(t, err)
		require.ErrorIs(t, s.Seal(t.Context(), name, intentID), azstore.ErrLeaseIDMissing)
		d := store.DeleteBlob{Name: name, IntentID: intentID}
		require.ErrorIs(t, deleteOne(t.Context(), s, d), azstore.ErrLeaseIDMissing)
		for _, err := range s.Delete(t.Context(), []store.DeleteBlob{d, d}) {
			require.ErrorIs(t, err, azstore.ErrLeaseIDMissing)
			require.NotErrorIs(t, err, store.ErrGuardRefused)
		}
		_, err = s.Create(t.Context(), params(name, noise(size)))
		require.ErrorIs(t, err, store.ErrExists)
		_, err = s.Stat(t.Context(), store.StatParams{Name: name, Seal: true})
		require.NoError(t, err, "reads are free")
		_, err = lc.BreakLease(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, deleteOne(t.Context(), s, d))
	}
}

func TestProtectContainer(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, nil)
	theirs, err := lease.NewContainerClient(c, nil)
	require.NoError(t, err)
	release := func() {
		_, err := theirs.BreakLease(context.Background(), nil)
		require.True(t, err == nil || bloberror.HasCode(err, bloberror.LeaseNotPresentWithLeaseOperation, bloberror.ContainerNotFound), "%v", err)
	}
	t.Cleanup(release) // or the container stays
	refused := func() {
		t.Helper()
		_, err := c.Delete(t.Context(), nil)
		require.True(t, bloberror.HasCode(err, bloberror.LeaseIDMissing), "%v", err)
	}
	require.NoError(t, s.UnprotectContainer(t.Context()), "it is not protected")
	require.NoError(t, s.ProtectContainer(t.Context()))
	require.NoError(t, s.ProtectContainer(t.Context()), "twice is once")
	refused()
	require.NoError(t, s.Probe(t.Context()), "everything else goes on")
	require.NoError(t, s.UnprotectContainer(t.Context()))
	require.NoError(t, s.UnprotectContainer(t.Context()), "twice is once")

	_, err = theirs.AcquireLease(t.Context(), -1, nil)
	require.NoError(t, err)
	require.ErrorIs(t, s.ProtectContainer(t.Context()), azstore.ErrLeaseHeld)
	require.ErrorIs(t, s.UnprotectContainer(t.Context()), azstore.ErrLeaseIDMismatch)
	refused()
	release()
	require.NoError(t, s.UnprotectContainer(t.Context()), "a broken lease protects nothing")

	require.NoError(t, s.ProtectContainer(t.Context()))
	id := azstore.ContainerLeaseID
	_, err = c.Delete(t.Context(), &container.DeleteOptions{AccessConditions: &container.AccessConditions{
		LeaseAccessConditions: &container.LeaseAccessConditions{LeaseID: &id},
	}})
	require.NoError(t, err)
	require.ErrorIs(t, s.ProtectContainer(t.Context()), store.ErrSetup)
	require.ErrorIs(t, s.UnprotectContainer(t.Context()), store.ErrSetup)
}

// A service SAS can lease blobs and no containers: "Create a service SAS".
func TestLocksUnderAContainerSAS(t *testing.T) {
	s := over(t, anonymous(t, writeLink(t, services.AzuriteContainer(t))), nil)
	l := lock(t, s, "leader")
	requireTaken(t, s, "leader")
	require.NoError(t, l.Release())
	err := s.ProtectContainer(t.Context())
	require.ErrorIs(t, err, store.ErrSetup)
	require.NotContains(t, err.Error(), "sig=")
}

// writeLink is a container SAS that may do anything to blobs.
func writeLink(t *testing.T, c *container.Client) string {
	t.Helper()
	link, err := c.GetSASURL(sas.ContainerPermissions{Read: true, Write: true, Delete: true, List: true, Tag: true}, time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	return link
}
