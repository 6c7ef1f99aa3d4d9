package azstore

import (
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/blobtx/blobtx/store"
)

// What becomes of a lock, and what a lease refuses: one identity for each answer
// of the service ("Lease Blob", "Lease Container" and "Blob service error codes",
// REST reference). Any operation of a Store can return a refusal: someone else
// may lease its blobs.
var (
	// ErrLockLost: the lock is no longer, or not surely, held. What else the error is says why: ErrLeaseBroken,
	// ErrLeaseIDMismatch (it ran out and another has it), store.ErrBlobNotFound; the last failure when no renewal was
	// confirmed in time.
	ErrLockLost = errors.New("lock lost")

	// ErrLeaseHeld: another holds the lease (LeaseAlreadyPresent).
	ErrLeaseHeld = errors.New("leased by another")
	// ErrLeaseBreaking: the lease was broken and its break period is not over (LeaseIsBreakingAndCannotBeAcquired).
	ErrLeaseBreaking = errors.New("the lease is breaking")
	// ErrLeaseBroken: the lease was broken, and cannot be renewed (LeaseIsBrokenAndCannotBeRenewed).
	ErrLeaseBroken = errors.New("the lease was broken")
	// ErrLeaseIDMismatch: the lease is not the caller's: another holds it, or it was released (LeaseIdMismatchWith...).
	ErrLeaseIDMismatch = errors.New("the lease has another id")
	// ErrLeaseIDMissing: it is leased, and cannot be written or deleted by others (LeaseIdMissing).
	ErrLeaseIDMissing = errors.New("protected by a lease")
	// ErrLeaseNotPresent: there is no lease (LeaseNotPresentWith...).
	ErrLeaseNotPresent = errors.New("not leased")
	// ErrLeaseLost: the lease has run out (LeaseLost).
	ErrLeaseLost = errors.New("the lease has run out")

	// ErrContainerBeingDeleted: the container was deleted, and its name is not free yet. It is also store.ErrSetup.
	ErrContainerBeingDeleted = fmt.Errorf("the container is being deleted: %w", store.ErrSetup)
)

var leaseRefusals = map[bloberror.Code]error{
	bloberror.LeaseAlreadyPresent:                   ErrLeaseHeld,
	bloberror.LeaseIsBreakingAndCannotBeAcquired:    ErrLeaseBreaking,
	bloberror.LeaseIsBreakingAndCannotBeChanged:     ErrLeaseBreaking,
	bloberror.LeaseIsBrokenAndCannotBeRenewed:       ErrLeaseBroken,
	bloberror.LeaseAlreadyBroken:                    ErrLeaseBroken,
	bloberror.LeaseIDMismatchWithBlobOperation:      ErrLeaseIDMismatch,
	bloberror.LeaseIDMismatchWithContainerOperation: ErrLeaseIDMismatch,
	bloberror.LeaseIDMismatchWithLeaseOperation:     ErrLeaseIDMismatch,
	bloberror.LeaseIDMissing:                        ErrLeaseIDMissing,
	bloberror.LeaseNotPresentWithBlobOperation:      ErrLeaseNotPresent,
	bloberror.LeaseNotPresentWithContainerOperation: ErrLeaseNotPresent,
	bloberror.LeaseNotPresentWithLeaseOperation:     ErrLeaseNotPresent,
	bloberror.LeaseLost:                             ErrLeaseLost,
}

// leaseRefusal returns what a lease refused, or nil if that is not what err is
// about.
func leaseRefusal(err error) error {
	if re := response(err); re != nil {
		return leaseRefusals[bloberror.Code(re.ErrorCode)]
	}
	return nil
}

// taken reports whether somebody has the lease now, so that waiting helps.
func taken(err error) bool {
	refusal := leaseRefusal(err)
	return refusal == ErrLeaseHeld || refusal == ErrLeaseBreaking
}

// gone returns why a renewal that failed with err will never succeed, or nil if
// it may when it is tried again.
func gone(err error) error {
	refusal := leaseRefusal(err)
	switch {
	case refusal != nil:
		return fmt.Errorf("%w: %w", ErrLockLost, refusal)
	case isAbsent(err):
		return fmt.Errorf("%w: %w", ErrLockLost, store.ErrBlobNotFound)
	case isContainerGone(err):
		return fmt.Errorf("%w: %w", ErrLockLost, store.ErrSetup)
	}
	return nil
}
