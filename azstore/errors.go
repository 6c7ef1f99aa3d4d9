package azstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/blobtx/blobtx/store"
)

// operation is one kind of request: how errors name it, and what it takes.
type operation struct {
	name  string
	needs string
}

// Role actions are below Microsoft.Storage/storageAccounts/blobServices/containers.
const (
	needsRead   = "SAS permission r, or the role action blobs/read"
	needsWrite  = "SAS permission w, or the role action blobs/write"
	needsDelete = "SAS permission d, or the role action blobs/delete"
	needsList   = "SAS permission l, or the role action blobs/read"
	needsTags   = "SAS permission t, or the role actions blobs/tags/read and blobs/tags/write (Storage Blob Data Owner has them)"
)

var (
	opPutBlob  = operation{"put blob", needsWrite + "; and for its tags " + needsTags}
	opPutBlock = operation{"put block", needsWrite}
	opPutList  = operation{"put block list", needsWrite + "; and for its tags " + needsTags}
	opSetTags  = operation{"set blob tags", needsTags}
	opGetTags  = operation{"get blob tags", needsTags}
	opDelete   = operation{"delete blob", needsDelete + "; and for its guard " + needsTags}
	opHead     = operation{"get blob properties", needsRead}
	opGet      = operation{"get blob", needsRead}
	opList     = operation{"list blobs", needsList + "; and for the tags " + needsTags}
	opBatch    = operation{"batch delete", needsDelete + "; and for its guards " + needsTags}
)

// failure is an error of the service or of the way there, put into the terms
// of package store once. Kind is what callers act on, cause what happened.
type failure struct {
	op    string
	kind  error // of package store; nil: pass through
	hint  string
	cause error
	text  string // of the cause: one line, without secrets
}

func (e *failure) Error() string {
	parts := []string{e.op}
	if e.kind != nil {
		parts = append(parts, e.kind.Error())
	}
	for _, s := range []string{e.hint, e.text} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func (e *failure) Unwrap() []error {
	var all []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// response returns the service's answer, or nil when there was none.
func response(err error) *azcore.ResponseError {
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		return re
	}
	return nil
}

func hasStatus(err error, status int) bool {
	re := response(err)
	return re != nil && re.StatusCode == status
}

// A reply without an error code is not the service's, which sends one with every
// refusal, to HEAD as the header x-ms-error-code ("Status and error codes", REST
// reference): a proxy or a wrong endpoint has answered, and knows nothing of any
// blob. So the three below, on which rows are dropped and objects held, go by
// codes only.

// isAbsent reports whether the blob is not there; a missing container is
// another matter.
func isAbsent(err error) bool {
	re := response(err)
	if re == nil || re.StatusCode != http.StatusNotFound {
		return false
	}
	switch bloberror.Code(re.ErrorCode) {
	case bloberror.BlobNotFound, bloberror.ResourceNotFound:
		return true
	}
	return false
}

// conditionFailed reports whether a condition of the request did not hold. A
// 412 can also be about a lease, which says nothing about the guard.
func conditionFailed(err error) bool {
	re := response(err)
	return re != nil && re.StatusCode == http.StatusPreconditionFailed && re.ErrorCode == string(bloberror.ConditionNotMet)
}

// occupied reports whether a create-only write was refused because something
// is there. The service sends 409; the reference names 412 for a failed
// If-None-Match; a SAS that may only create gets 403.
func occupied(err error) bool {
	re := response(err)
	if re == nil {
		return false
	}
	switch bloberror.Code(re.ErrorCode) {
	case bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.InvalidBlobType, bloberror.LeaseIDMissing,
		bloberror.BlobImmutableDueToPolicy, bloberror.UnauthorizedBlobOverwrite:
		return true
	}
	return false
}

// throttled reports whether the service asked for fewer requests.
func throttled(err error) bool {
	re := response(err)
	return re != nil && (re.StatusCode == http.StatusTooManyRequests || re.StatusCode == http.StatusServiceUnavailable)
}

// as returns err under an identity of package store.
func (op operation) as(kind error, err error) error {
	f := &failure{op: op.name, kind: kind, cause: err}
	if re := response(err); re != nil {
		f.text = summary(re)
	}
	return f
}

// fail maps every error that has no meaning of its own in the operation. The
// service's answer comes first: it is the truth even if ctx ended meanwhile.
func (op operation) fail(ctx context.Context, err error) error {
	if re := response(err); re != nil {
		return op.refused(re, err)
	}
	if ctx.Err() != nil {
		return op.ended(ctx)
	}
	err = withoutQuery(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// The client's own limit for one try (policy.RetryOptions.TryTimeout).
		// The identity is dropped: it would read as the end of the caller's ctx.
		return &failure{op: op.name, cause: tryTimeout{}, text: "no answer in the time that the client's retry options allow: " + err.Error()}
	}
	return &failure{op: op.name, cause: err, text: err.Error()}
}

// ended is the error of a request that was not sent, or not waited for, because
// ctx is done.
func (op operation) ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return &failure{op: op.name, cause: cause, text: cause.Error()}
}

func (op operation) refused(re *azcore.ResponseError, err error) error {
	f := &failure{op: op.name, cause: err, text: summary(re)}
	code := bloberror.Code(re.ErrorCode)
	switch {
	case isContainerGone(err):
		f.kind = store.ErrSetup
		f.hint = "the container does not exist; create it, or correct its name in the client's URL"
		if code == bloberror.ContainerBeingDeleted {
			f.kind = ErrContainerBeingDeleted
		}
	case leaseRefusals[code] != nil:
		f.kind = leaseRefusals[code]
	case code == bloberror.AuthenticationFailed || code == bloberror.InvalidAuthenticationInfo ||
		code == bloberror.NoAuthenticationInformation || re.StatusCode == http.StatusUnauthorized:
		f.kind = store.ErrSetup
		f.hint = "the credential was not accepted: it is missing, wrong, expired, or not valid yet"
	case re.StatusCode == http.StatusForbidden:
		f.kind = store.ErrSetup
		f.hint = "the credential may not do this; it takes " + op.needs
		if code == bloberror.AuthorizationFailure {
			f.hint += "; or the account's network rules keep this client out"
		}
	case strings.Contains(re.ErrorCode, "HierarchicalNamespace"):
		f.kind = store.ErrSetup
		f.hint = "the account has a hierarchical namespace, where index tags are not available"
	}
	return f
}

// summary is one line about an answer. The SDK's own text has many lines.
func summary(re *azcore.ResponseError) string {
	text := fmt.Sprintf("%d %s", re.StatusCode, re.ErrorCode)
	if re.ErrorCode == "" {
		text = fmt.Sprintf("%d %s", re.StatusCode, http.StatusText(re.StatusCode))
	}
	if re.RawResponse != nil {
		if id := re.RawResponse.Header.Get("x-ms-request-id"); id != "" {
			text += " (request " + id + ")"
		}
	}
	return text
}

// withoutQuery removes the query from the URL in an error of the transport: a
// SAS is part of it.
func withoutQuery(err error) error {
	var u *url.Error
	if !errors.As(err, &u) {
		return err
	}
	clean := *u
	if i := strings.IndexAny(clean.URL, "?#"); i >= 0 {
		clean.URL = clean.URL[:i]
	}
	clean.Err = withoutQuery(u.Err)
	return &clean
}

// tryTimeout stands for a deadline that was not the caller's.
type tryTimeout struct{}

func (tryTimeout) Error() string { return "try timed out" }

// Timeout marks it as a timeout, as net.Error does.
func (tryTimeout) Timeout() bool { return true }

func isContainerGone(err error) bool {
	re := response(err)
	if re == nil {
		return false
	}
	switch bloberror.Code(re.ErrorCode) {
	case bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted, bloberror.ContainerDisabled:
		return true
	}
	return false
}
