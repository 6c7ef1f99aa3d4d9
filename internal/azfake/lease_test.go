package azfake_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

const (
	mine   = "11111111-1111-4111-8111-111111111111"
	theirs = "22222222-2222-4222-8222-222222222222"
)

func leaseOf(t testing.TB, cc *container.Client, name, id string) *lease.BlobClient {
	t.Helper()
	lc, err := lease.NewBlobClient(cc.NewBlobClient(name), &lease.BlobClientOptions{LeaseID: &id})
	require.NoError(t, err)
	return lc
}

func TestALeasedBlobIsWrittenWithItsIDOnly(t *testing.T) {
	for op, write := range writes {
		t.Run(op, func(t *testing.T) {
			srv, cc := start(t, nil)
			put(t, cc, "source", "s", nil)
			put(t, cc, "a", "x", nil)
			requireCode(t, write(cc, withLease(mine)), 412, bloberror.LeaseNotPresentWithBlobOperation)
			was := srv.Inspect("box")["a"]
			_, err := leaseOf(t, cc, "a", mine).AcquireLease(ctx, -1, nil)
			require.NoError(t, err)
			require.Equal(t, was.ETag, srv.Inspect("box")["a"].ETag, "a lease changes nothing else")
			requireCode(t, write(cc, nil), 412, bloberror.LeaseIDMissing)
			requireCode(t, write(cc, withLease(theirs)), 412, bloberror.LeaseIDMismatchWithBlobOperation)
			require.Equal(t, was.Data, srv.Inspect("box")["a"].Data)
			require.Equal(t, "x", get(t, cc, "a"), "reads are free")
			_, err = cc.NewBlobClient("a").GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: withLease(theirs)})
			requireCode(t, err, 412, bloberror.LeaseIDMismatchWithBlobOperation)
			require.NoError(t, write(cc, withLease(mine)))
			require.Equal(t, op != "Delete Blob", srv.Inspect("box")["a"].Leased, "a write keeps the lease, a delete ends it")
		})
	}
}

func TestStagingOnALeasedBlobNeedsTheID(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "x", nil)
	_, err := leaseOf(t, cc, "a", mine).AcquireLease(ctx, 60, nil)
	require.NoError(t, err)
	_, err = cc.NewBlockBlobClient("a").StageBlock(ctx, blockID(0), body("x"), nil)
	requireCode(t, err, 412, bloberror.LeaseIDMissing)
}

func TestAcquire(t *testing.T) {
	clk := newClock()
	srv, cc := start(t, &azfake.Options{Now: clk.now})
	put(t, cc, "a", "x", nil)
	for _, seconds := range []int32{0, 14, 61, -2} {
		_, err := leaseOf(t, cc, "a", mine).AcquireLease(ctx, seconds, nil)
		requireCode(t, err, 400, bloberror.InvalidHeaderValue)
	}
	_, err := leaseOf(t, cc, "a", "not-a-uuid").AcquireLease(ctx, 15, nil)
	requireCode(t, err, 400, bloberror.InvalidHeaderValue)
	_, err = leaseOf(t, cc, "no", mine).AcquireLease(ctx, 15, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)

	res, err := leaseOf(t, cc, "a", mine).AcquireLease(ctx, 15, nil)
	require.NoError(t, err)
	require.Equal(t, mine, *res.LeaseID)
	_, err = leaseOf(t, cc, "a", theirs).AcquireLease(ctx, 15, nil)
	requireCode(t, err, 409, bloberror.LeaseAlreadyPresent)
	_, err = leaseOf(t, cc, "a", mine).AcquireLease(ctx, -1, nil)
	require.NoError(t, err, "the same id again")
	clk.pass(24 * time.Hour)
	require.Equal(t, mine, srv.Inspect("box")["a"].LeaseID, "-1 never ends")
	p, err := cc.NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, lease.DurationTypeInfinite, *p.LeaseDuration)
	require.Equal(t, lease.StatusTypeLocked, *p.LeaseStatus)
}

func TestAFixedLeaseEndsByItself(t *testing.T) {
	clk := newClock()
	_, cc := start(t, &azfake.Options{Now: clk.now})
	put(t, cc, "a", "x", nil)
	lc := leaseOf(t, cc, "a", mine)
	_, err := lc.AcquireLease(ctx, 15, nil)
	require.NoError(t, err)
	clk.pass(14 * time.Second)
	_, err = lc.RenewLease(ctx, nil)
	require.NoError(t, err)
	clk.pass(14 * time.Second)
	requireCode(t, setTags(cc, nil), 412, bloberror.LeaseIDMissing)
	clk.pass(time.Second)
	requireCode(t, setTags(cc, withLease(mine)), 412, bloberror.LeaseLost)
	_, err = lc.RenewLease(ctx, nil)
	require.NoError(t, err, "an expired lease can be renewed while nobody wrote")
	clk.pass(time.Minute)
	put(t, cc, "a", "y", nil)
	_, err = lc.RenewLease(ctx, nil)
	requireCode(t, err, 409, bloberror.LeaseIDMismatchWithLeaseOperation)
	_, err = leaseOf(t, cc, "a", theirs).AcquireLease(ctx, 15, nil)
	require.NoError(t, err)
}

func TestChangeReleaseBreak(t *testing.T) {
	clk := newClock()
	srv, cc := start(t, &azfake.Options{Now: clk.now})
	put(t, cc, "a", "x", nil)
	lc := leaseOf(t, cc, "a", mine)
	_, err := lc.BreakLease(ctx, nil)
	requireCode(t, err, 409, bloberror.LeaseNotPresentWithLeaseOperation)
	_, err = lc.AcquireLease(ctx, 60, nil)
	require.NoError(t, err)
	_, err = leaseOf(t, cc, "a", theirs).ReleaseLease(ctx, nil)
	requireCode(t, err, 409, bloberror.LeaseIDMismatchWithLeaseOperation)
	_, err = lc.ChangeLease(ctx, theirs, nil)
	require.NoError(t, err)
	require.Equal(t, theirs, srv.Inspect("box")["a"].LeaseID)

	res, err := lc.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: ptr(int32(20))})
	require.NoError(t, err)
	require.Equal(t, int32(20), *res.LeaseTime)
	requireCode(t, setTags(cc, nil), 412, bloberror.LeaseIDMissing)
	_, err = leaseOf(t, cc, "a", mine).AcquireLease(ctx, 15, nil)
	requireCode(t, err, 409, bloberror.LeaseAlreadyPresent)
	_, err = leaseOf(t, cc, "a", theirs).AcquireLease(ctx, 15, nil)
	requireCode(t, err, 409, bloberror.LeaseIsBreakingAndCannotBeAcquired)
	_, err = leaseOf(t, cc, "a", theirs).ChangeLease(ctx, mine, nil)
	requireCode(t, err, 409, bloberror.LeaseIsBreakingAndCannotBeChanged)
	_, err = leaseOf(t, cc, "a", mine).ChangeLease(ctx, theirs, nil)
	requireCode(t, err, 409, bloberror.LeaseIDMismatchWithLeaseOperation)
	clk.pass(20 * time.Second)
	_, err = leaseOf(t, cc, "a", theirs).RenewLease(ctx, nil)
	requireCode(t, err, 409, bloberror.LeaseIsBrokenAndCannotBeRenewed)
	require.NoError(t, setTags(cc, nil))

	_, err = leaseOf(t, cc, "a", mine).AcquireLease(ctx, -1, nil)
	require.NoError(t, err)
	_, err = leaseOf(t, cc, "a", mine).ReleaseLease(ctx, nil)
	require.NoError(t, err)
	_, err = leaseOf(t, cc, "a", theirs).AcquireLease(ctx, -1, nil)
	require.NoError(t, err)
	res, err = lc.BreakLease(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, *res.LeaseTime, "an infinite lease breaks at once")
	require.False(t, srv.Inspect("box")["a"].Leased)
}

func TestAContainerLeaseBlocksItsDeletionOnly(t *testing.T) {
	_, cc := start(t, nil)
	id := mine
	lc, err := lease.NewContainerClient(cc, &lease.ContainerClientOptions{LeaseID: &id})
	require.NoError(t, err)
	_, err = lc.AcquireLease(ctx, -1, nil)
	require.NoError(t, err)
	put(t, cc, "a", "x", nil)
	_, err = cc.Delete(ctx, nil)
	requireCode(t, err, 412, bloberror.LeaseIDMissing)
	_, err = cc.Delete(ctx, &container.DeleteOptions{AccessConditions: &container.AccessConditions{LeaseAccessConditions: &container.LeaseAccessConditions{LeaseID: ptr(theirs)}}})
	requireCode(t, err, 412, bloberror.LeaseIDMismatchWithContainerOperation)
	_, err = lc.ReleaseLease(ctx, nil)
	require.NoError(t, err)
	_, err = cc.Delete(ctx, nil)
	require.NoError(t, err)
}
