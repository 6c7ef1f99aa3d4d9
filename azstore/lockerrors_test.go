package azstore_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// leasing calls each method that leases and returns its errors by name.
func leasing(ctx context.Context, s *azstore.Store) map[string]error {
	errs := map[string]error{}
	_, errs["lock"] = s.Lock(ctx, "leader", once)
	_, errs["break"] = s.BreakLock(ctx, "leader", 0)
	errs["protect"] = s.ProtectContainer(ctx)
	errs["unprotect"] = s.UnprotectContainer(ctx)
	return errs
}

// refusals are the service's answers about leases: "Blob service error codes",
// REST reference.
var refusals = map[bloberror.Code]struct {
	status int
	is     error
}{
	bloberror.LeaseAlreadyPresent:                   {409, azstore.ErrLeaseHeld},
	bloberror.LeaseIsBreakingAndCannotBeAcquired:    {409, azstore.ErrLeaseBreaking},
	bloberror.LeaseIsBreakingAndCannotBeChanged:     {409, azstore.ErrLeaseBreaking},
	bloberror.LeaseIsBrokenAndCannotBeRenewed:       {409, azstore.ErrLeaseBroken},
	bloberror.LeaseAlreadyBroken:                    {409, azstore.ErrLeaseBroken},
	bloberror.LeaseIDMismatchWithBlobOperation:      {412, azstore.ErrLeaseIDMismatch},
	bloberror.LeaseIDMismatchWithContainerOperation: {412, azstore.ErrLeaseIDMismatch},
	bloberror.LeaseIDMismatchWithLeaseOperation:     {409, azstore.ErrLeaseIDMismatch},
	bloberror.LeaseIDMissing:                        {412, azstore.ErrLeaseIDMissing},
	bloberror.LeaseNotPresentWithBlobOperation:      {412, azstore.ErrLeaseNotPresent},
	bloberror.LeaseNotPresentWithContainerOperation: {412, azstore.ErrLeaseNotPresent},
	bloberror.LeaseNotPresentWithLeaseOperation:     {409, azstore.ErrLeaseNotPresent},
	bloberror.LeaseLost:                             {412, azstore.ErrLeaseLost},
	bloberror.ContainerBeingDeleted:                 {409, azstore.ErrContainerBeingDeleted},
}

func TestEachRefusalOfALeaseHasAnIdentity(t *testing.T) {
	identities := map[error]bool{}
	for _, r := range refusals {
		identities[r.is] = true
	}
	for code, r := range refusals {
		s, server := newFake(t, nil, nil)
		server.SetHook(func(azfake.Call) azfake.Fault {
			return azfake.Fault{Kind: azfake.Refused, Status: r.status, Code: string(code)}
		})
		errs := leasing(t.Context(), s)
		errs["seal"] = s.Seal(t.Context(), "a", intentID)
		errs["delete"] = deleteOne(t.Context(), s, store.DeleteBlob{Name: "a", IntentID: intentID})
		errs["delete two"] = s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID}})[1]
		for op, err := range errs {
			require.Error(t, err, "%s: %s", code, op)
			require.NotContains(t, err.Error(), "\n")
			var response *azcore.ResponseError
			require.ErrorAs(t, err, &response, "%s: %s", code, op)
			for identity := range identities {
				require.Equal(t, identity == r.is, errors.Is(err, identity), "%s: %s: %v", code, op, err)
			}
			require.Equal(t, r.is == azstore.ErrContainerBeingDeleted, errors.Is(err, store.ErrSetup), "%s: %s: %v", code, op, err)
			busy := op == "lock" && (r.is == azstore.ErrLeaseHeld || r.is == azstore.ErrLeaseBreaking)
			require.Equal(t, busy, errors.Is(err, store.ErrBusy), "%s: %s: %v", code, op, err)
			require.NotErrorIs(t, err, store.ErrGuardRefused, "%s: %s", code, op)
		}
	}
}

func TestErrorsOfLeasesByIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		fault azfake.Fault
		is    error
		text  string
	}{
		"no such container": {azfake.Fault{Kind: azfake.Refused, Status: 404, Code: "ContainerNotFound"}, store.ErrSetup, "create it"},
		"no permission":     {azfake.Deny(), store.ErrSetup, "SAS"},
		"throttled":         {azfake.Throttle(503, 0), nil, "503 ServerBusy"},
		"lost":              {azfake.LoseRequest(), azfake.ErrLost, "connection lost"},
	} {
		s, server := newFake(t, nil, nil)
		server.SetHook(func(azfake.Call) azfake.Fault { return c.fault })
		for op, err := range leasing(t.Context(), s) {
			require.ErrorContains(t, err, c.text, "%s: %s", name, op)
			if c.is != nil {
				require.ErrorIs(t, err, c.is, "%s: %s", name, op)
			}
			for _, other := range []error{store.ErrBusy, azstore.ErrLeaseHeld, azstore.ErrLeaseNotPresent, azstore.ErrLockLost} {
				require.NotErrorIs(t, err, other, "%s: %s", name, op)
			}
		}
	}
	cause := errors.New("request gone")
	s, _ := newFake(t, nil, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for op, err := range leasing(ctx, s) {
		require.ErrorIs(t, err, context.Canceled, op)
		require.ErrorIs(t, err, cause, op)
	}
}

// A proxy's page is no word about a lease.
func TestAnAnswerWithoutACodeSaysNothingOfALease(t *testing.T) {
	for _, status := range []int{404, 409, 412} {
		c, err := container.NewClientWithNoCredential("https://azfake.blob.core.windows.net/"+containerName, &container.ClientOptions{
			ClientOptions: policy.ClientOptions{Transport: bare(status)},
		})
		require.NoError(t, err)
		s, err := azstore.New(c, nil)
		require.NoError(t, err)
		for op, err := range leasing(t.Context(), s) {
			require.ErrorContains(t, err, http.StatusText(status), op)
			for _, kind := range []error{store.ErrBusy, azstore.ErrLeaseHeld, azstore.ErrLeaseNotPresent, azstore.ErrLockLost, store.ErrSetup} {
				require.NotErrorIs(t, err, kind, "%d: %s", status, op)
			}
		}
	}
}

// Whoever has the id of a lock's lease can release it, and a SAS is a secret.
func TestErrorsOfLeasesHoldNoSecret(t *testing.T) {
	const secret = "c2VjcmV0"
	server := azfake.New(nil)
	u := server.URL() + containerName + "?sv=2022-11-02&sr=c&sp=racwdlt&se=2099-01-01T00%3A00%3A00Z&sig=" + secret
	server.MakeContainer(containerName)
	var id string // of the lease, as it was sent
	spy := &line{next: server.HTTPClient()}
	spy.disturb(func(req *http.Request) error {
		for name, values := range req.Header { // the SDK's names are not canonical
			if strings.HasSuffix(strings.ToLower(name), "lease-id") && values[0] != azstore.ContainerLeaseID {
				id = values[0]
			}
		}
		return nil
	})
	c, err := container.NewClientWithNoCredential(u, &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: spy, Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	require.NoError(t, err)
	s, err := azstore.New(c, nil)
	require.NoError(t, err)
	for name, fault := range map[string]azfake.Fault{
		"lost": azfake.LoseRequest(), "denied": azfake.Deny(),
		"refused": {Kind: azfake.Refused, Status: 409, Code: string(bloberror.LeaseIDMismatchWithLeaseOperation)},
		"held":    {Kind: azfake.Refused, Status: 409, Code: string(bloberror.LeaseAlreadyPresent)},
	} {
		server.SetHook(nil)
		l := lock(t, s, once)
		server.SetHook(func(azfake.Call) azfake.Fault { return fault })
		errs := map[string]error{"release": l.Release()}
		require.NotEmpty(t, id)
		maps.Copy(errs, leasing(t.Context(), s))
		for op, err := range errs {
			for e := range chain(err) {
				require.NotContains(t, e.Error(), id, "%s: %s", name, op)
				require.NotContains(t, e.Error(), secret, "%s: %s", name, op)
				require.NotContains(t, e.Error(), "sig=", "%s: %s", name, op)
			}
		}
		server.SetHook(nil)
		if _, err := s.BreakLock(t.Context(), "leader", 0); err != nil {
			require.ErrorIs(t, err, azstore.ErrLeaseNotPresent)
		}
	}
}
