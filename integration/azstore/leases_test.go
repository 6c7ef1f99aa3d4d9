package azstore

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/internal/azfake"
)

const (
	mine   = "11111111-1111-4111-8111-111111111111"
	theirs = "22222222-2222-4222-8222-222222222222"
	third  = "33333333-3333-4333-8333-333333333333"
)

// leaseStates are the states that need no time to pass, as seen by the holder
// of the id mine.
var leaseStates = map[string]func(ctx context.Context, lc *lease.BlobClient) error{
	"available": func(context.Context, *lease.BlobClient) error { return nil },
	"leased": func(ctx context.Context, lc *lease.BlobClient) error {
		_, err := lc.AcquireLease(ctx, 60, nil)
		return err
	},
	"infinite": func(ctx context.Context, lc *lease.BlobClient) error {
		_, err := lc.AcquireLease(ctx, -1, nil)
		return err
	},
	"breaking": func(ctx context.Context, lc *lease.BlobClient) error { return broken(ctx, lc, 60) },
	"broken":   func(ctx context.Context, lc *lease.BlobClient) error { return broken(ctx, lc, 0) },
	"released": func(ctx context.Context, lc *lease.BlobClient) error {
		_, err := lc.AcquireLease(ctx, 60, nil)
		if err == nil {
			_, err = lc.ReleaseLease(ctx, nil)
		}
		return err
	},
}

func broken(ctx context.Context, lc *lease.BlobClient, period int32) error {
	_, err := lc.AcquireLease(ctx, 60, nil)
	if err == nil {
		_, err = lc.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: &period})
	}
	return err
}

// leaseActions are what the Store does to leases, and what leases do to others.
var leaseActions = map[string]func(ctx context.Context, lc *lease.BlobClient, bc *blob.Client, id string) error{
	"acquire": func(ctx context.Context, lc *lease.BlobClient, _ *blob.Client, _ string) error {
		_, err := lc.AcquireLease(ctx, 15, nil)
		return err
	},
	"renew": func(ctx context.Context, lc *lease.BlobClient, _ *blob.Client, _ string) error {
		_, err := lc.RenewLease(ctx, nil)
		return err
	},
	"release": func(ctx context.Context, lc *lease.BlobClient, _ *blob.Client, _ string) error {
		_, err := lc.ReleaseLease(ctx, nil)
		return err
	},
	"change": func(ctx context.Context, lc *lease.BlobClient, _ *blob.Client, _ string) error {
		_, err := lc.ChangeLease(ctx, third, nil)
		return err
	},
	"break": func(ctx context.Context, lc *lease.BlobClient, _ *blob.Client, _ string) error {
		_, err := lc.BreakLease(ctx, nil)
		return err
	},
	"delete": func(ctx context.Context, _ *lease.BlobClient, bc *blob.Client, id string) error {
		_, err := bc.Delete(ctx, &blob.DeleteOptions{AccessConditions: &blob.AccessConditions{
			LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id},
		}})
		return err
	},
	"delete without": func(ctx context.Context, _ *lease.BlobClient, bc *blob.Client, _ string) error {
		_, err := bc.Delete(ctx, nil)
		return err
	},
}

// answers runs every action in every state, with the right id and another, each
// on a blob of its own.
func answers(t *testing.T, c *container.Client) map[string]string {
	t.Helper()
	out := map[string]string{}
	for state, prepare := range leaseStates {
		for action, do := range leaseActions {
			for who, id := range map[string]string{"mine": mine, "theirs": theirs} {
				name := state + "/" + action + "/" + who
				_, err := c.NewBlockBlobClient(name).UploadBuffer(t.Context(), nil, nil)
				require.NoError(t, err)
				holder, err := lease.NewBlobClient(c.NewBlobClient(name), &lease.BlobClientOptions{LeaseID: ptr(mine)})
				require.NoError(t, err)
				require.NoError(t, prepare(t.Context(), holder), name)
				lc, err := lease.NewBlobClient(c.NewBlobClient(name), &lease.BlobClientOptions{LeaseID: &id})
				require.NoError(t, err)
				out[name] = answer(t, do(t.Context(), lc, c.NewBlobClient(name), id))
			}
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func answer(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "done"
	}
	var re *azcore.ResponseError
	require.True(t, errors.As(err, &re), "%v", err)
	return strconv.Itoa(re.StatusCode) + " " + re.ErrorCode
}

// Differs: of a request that names the id of a broken lease, the tables in "Lease
// Blob" (REST reference) fix the status, 412, and not the code. azfake takes
// LeaseLost, as for a lease that ran out; either is a refusal by identity.
var azuriteDiffers = map[string]string{
	"broken/delete/mine": "412 LeaseNotPresentWithBlobOperation",
}

// The emulator and azfake answer alike; azfake's own tests have the states in
// which time passes.
func TestLeaseAnswers(t *testing.T) {
	fake, err := azfake.New(nil).ContainerClient("bytes", nil)
	require.NoError(t, err)
	want := answers(t, fake)
	for name, differs := range azuriteDiffers {
		require.NotEqual(t, differs, want[name], "%s: no difference any more", name)
		want[name] = differs
	}
	require.Equal(t, want, answers(t, services.AzuriteContainer(t)))
}
