package azstore

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
)

// ContainerLeaseID is the id of the lease that ProtectContainer takes. It is
// the same everywhere and no secret: the lease is against accidents. Who means
// to delete a protected container can name it, or call UnprotectContainer.
const ContainerLeaseID = "b10b7c00-1ea5-4e1d-8000-0123456789ab"

const needsContainer = "the account key, an account SAS with w on containers, or the role action containers/write " +
	"(Storage Blob Data Contributor has it); a service SAS cannot lease a container"

var (
	opProtect       = operation{"lease container", needsContainer}
	opUnprotect     = operation{"release container lease", needsContainer}
	opHeadContainer = operation{"get container properties", "an account SAS with r on containers, or the role action containers/read"}
)

// ProtectContainer takes an infinite lease on the container with the id
// ContainerLeaseID. From then on the service refuses to delete the container
// (412 LeaseIdMissing), whoever asks, unless the id is part of the request; all
// other operations go on as before. It does not keep the storage account from
// being deleted: a resource lock does. Protecting twice is the same as once, and
// one protection is for all Stores over the container. See "Lease Container",
// REST reference.
//
// Errors: ErrLeaseHeld when someone else leases the container, which protects
// it as well; ErrLeaseBreaking; store.ErrSetup, which is ErrContainerBeingDeleted
// where that is so.
func (s *Store) ProtectContainer(ctx context.Context) error {
	lc, err := s.containerLease()
	if err != nil {
		return err
	}
	if _, err := lc.AcquireLease(ctx, -1, nil); err != nil { // with the same id again: granted
		return opProtect.fail(ctx, err)
	}
	return nil
}

// UnprotectContainer gives up the lease of ProtectContainer, for all Stores over
// the container. A container without a lease is no error. See "Lease Container",
// REST reference.
//
// Errors: ErrLeaseIDMismatch when someone else leases the container: that lease
// stays, and is theirs to release; store.ErrSetup.
func (s *Store) UnprotectContainer(ctx context.Context) error {
	lc, err := s.containerLease()
	if err != nil {
		return err
	}
	_, err = lc.ReleaseLease(ctx, nil)
	if err == nil {
		return nil
	}
	refused := opUnprotect.fail(ctx, err)
	if !errors.Is(refused, ErrLeaseIDMismatch) && !errors.Is(refused, ErrLeaseNotPresent) {
		return refused
	}
	// The same answer when there is no lease and when there is another's.
	p, err := s.c.GetProperties(ctx, nil)
	switch {
	case err != nil:
		return opHeadContainer.fail(ctx, err)
	case p.LeaseStatus == nil || *p.LeaseStatus != lease.StatusTypeUnlocked:
		return refused
	}
	return nil
}

func (s *Store) containerLease() (*lease.ContainerClient, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	id := ContainerLeaseID
	return lease.NewContainerClient(s.c, &lease.ContainerClientOptions{LeaseID: &id})
}
