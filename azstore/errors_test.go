package azstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// everything calls each method and returns its errors by name.
func everything(ctx context.Context, s *azstore.Store) map[string]error {
	errs := map[string]error{}
	_, errs["create"] = s.Create(ctx, params("a", noise(10)))
	_, errs["create from blocks"] = s.Create(ctx, params("b", noise(300*kib)))
	errs["seal"] = s.Seal(ctx, "a", intentID)
	_, errs["stat"] = s.Stat(ctx, store.StatParams{Name: "a", Seal: true})
	_, errs["open"] = s.Open(ctx, store.OpenParams{Name: "a", ETag: `"0x1"`, Count: -1})
	for _, err := range s.List(ctx, store.ListBlobsParams{}) {
		errs["list"] = err
	}
	errs["delete"] = deleteOne(ctx, s, store.DeleteBlob{Name: "a", IntentID: intentID})
	errs["clear"] = deleteOne(ctx, s, store.DeleteBlob{Name: "a", IntentID: intentID, ClearStaged: true})
	errs["batch"] = s.Delete(ctx, []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID}})[1]
	errs["probe"] = s.Probe(ctx)
	return errs
}

func TestErrorsByIdentity(t *testing.T) {
	refused := func(status int, code string) azfake.Fault {
		return azfake.Fault{Kind: azfake.Refused, Status: status, Code: code}
	}
	for name, c := range map[string]struct {
		fault azfake.Fault
		is    error
		text  string
	}{
		"no such container":    {refused(404, "ContainerNotFound"), store.ErrSetup, "create it"},
		"container on its way": {refused(409, "ContainerBeingDeleted"), store.ErrSetup, "create it"},
		"no permission":        {refused(403, "AuthorizationPermissionMismatch"), store.ErrSetup, "SAS permission"},
		"no role":              {refused(403, "AuthorizationFailure"), store.ErrSetup, "role action"},
		"expired":              {refused(403, "AuthenticationFailed"), store.ErrSetup, "expired"},
		"no credential":        {refused(401, "NoAuthenticationInformation"), store.ErrSetup, "missing"},
		"throttled":            {azfake.Throttle(503, 0), nil, "503 ServerBusy"},
		"throttled, too many":  {azfake.Throttle(429, 0), nil, "429 ServerBusy"},
		"failed":               {refused(500, "InternalError"), nil, "500 InternalError"},
		"not understood":       {refused(400, "InvalidInput"), nil, "400 InvalidInput"},
	} {
		s, server := newFake(t, nil, small)
		server.SetHook(func(azfake.Call) azfake.Fault { return c.fault })
		for op, err := range everything(t.Context(), s) {
			require.Error(t, err, "%s: %s", name, op)
			require.ErrorContains(t, err, c.text, "%s: %s", name, op)
			require.NotContains(t, err.Error(), "\n", "one line")
			var response *azcore.ResponseError
			require.ErrorAs(t, err, &response, "%s: %s: the SDK's error stays within reach", name, op)
			require.Equal(t, c.fault.Status, response.StatusCode)
			for _, kind := range []error{
				store.ErrSetup, store.ErrExists, store.ErrBlobNotFound, store.ErrGuardRefused, store.ErrConflict, store.ErrInvalid,
			} {
				if op == "probe" && c.is == nil {
					continue // a refusal of everything reads as lacks
				}
				require.Equal(t, kind == c.is, errors.Is(err, kind), "%s: %s: %v", name, op, err)
			}
		}
	}
}

// bare answers as a proxy or a wrong endpoint does: with a status and a page.
type bare int

func (status bare) Do(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(int(status))
	if req.Method != http.MethodHead {
		_, _ = io.WriteString(w, "<html>no</html>")
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// Rows are dropped because a blob is gone and objects held because a guard
// refused: only the service can say so, and it gives a code.
func TestAnAnswerWithoutACodeSaysNothingOfABlob(t *testing.T) {
	for _, status := range []int{404, 409, 412, 418} {
		c, err := container.NewClientWithNoCredential("https://azfake.blob.core.windows.net/"+containerName, &container.ClientOptions{
			ClientOptions: policy.ClientOptions{Transport: bare(status)},
		})
		require.NoError(t, err)
		s, err := azstore.New(c, small)
		require.NoError(t, err)
		for op, err := range everything(t.Context(), s) {
			require.ErrorContains(t, err, fmt.Sprintf("%d %s", status, http.StatusText(status)), op)
			for _, kind := range []error{store.ErrExists, store.ErrBlobNotFound, store.ErrGuardRefused, store.ErrConflict} {
				require.NotErrorIs(t, err, kind, "%d: %s", status, op)
			}
			require.Equal(t, op == "probe", errors.Is(err, store.ErrSetup), "%d: %s", status, op)
		}
	}
}

func TestEndOfTheContextStaysMatchable(t *testing.T) {
	cause := errors.New("request gone")
	s, _ := newFake(t, nil, small)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for op, err := range everything(ctx, s) {
		require.ErrorIs(t, err, context.Canceled, op)
		require.ErrorIs(t, err, cause, op)
	}
	ctx, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	for op, err := range everything(ctx, s) {
		require.ErrorIs(t, err, context.DeadlineExceeded, op)
	}
}

// The client's limit for one try is not the caller's deadline.
func TestTryTimeoutIsNotTheCallersDeadline(t *testing.T) {
	server := azfake.New(nil)
	o := server.ClientOptions()
	o.Retry = policy.RetryOptions{MaxRetries: -1, TryTimeout: time.Millisecond}
	s := storeOver(t, server, &container.ClientOptions{ClientOptions: o}, small)
	server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Delay(hour) })
	for op, err := range everything(t.Context(), s) {
		require.Error(t, err, op)
		require.NotErrorIs(t, err, context.DeadlineExceeded, op)
		require.NotErrorIs(t, err, context.Canceled, op)
		require.ErrorContains(t, err, "retry options", op)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout, op)
		require.True(t, timeout.Timeout(), op)
	}
}

// A SAS is a secret, and it is part of the URL that transports put into errors.
func TestErrorsHoldNoSecret(t *testing.T) {
	const secret = "c2VjcmV0"
	query := "?sv=2022-11-02&sr=c&sp=racwdlt&se=2099-01-01T00%3A00%3A00Z&sig=" + secret
	silent := azfake.New(nil) // every request is lost, through net/http's own client
	silent.SetHook(func(azfake.Call) azfake.Fault { return azfake.LoseRequest() })
	denying := azfake.New(nil)
	denying.SetHook(func(azfake.Call) azfake.Fault { return azfake.Deny() })
	for name, transport := range map[string]policy.Transporter{
		"lost in net/http": silent.HTTPClient(),
		"denied":           denying.HTTPClient(),
		"refused to dial":  &http.Client{Transport: &http.Transport{}},
	} {
		url := "https://azfake.blob.core.windows.net/" + containerName + query
		if name == "refused to dial" {
			url = "http://127.0.0.1:1/account/" + containerName + query
		}
		c, err := container.NewClientWithNoCredential(url, &container.ClientOptions{ClientOptions: policy.ClientOptions{
			Transport: transport, Retry: policy.RetryOptions{MaxRetries: -1},
		}})
		require.NoError(t, err)
		s, err := azstore.New(c, small)
		require.NoError(t, err)
		for op, err := range everything(t.Context(), s) {
			require.Error(t, err, "%s: %s", name, op)
			for e := range chain(err) {
				require.NotContains(t, e.Error(), secret, "%s: %s", name, op)
				require.NotContains(t, e.Error(), "sig=", "%s: %s", name, op)
			}
		}
	}
}

// chain yields err and all that it wraps.
func chain(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		var walk func(error) bool
		walk = func(err error) bool {
			if err == nil {
				return true
			}
			if !yield(err) {
				return false
			}
			switch e := err.(type) {
			case interface{ Unwrap() error }:
				return walk(e.Unwrap())
			case interface{ Unwrap() []error }:
				for _, inner := range e.Unwrap() {
					if !walk(inner) {
						return false
					}
				}
			}
			return true
		}
		walk(err)
	}
}
