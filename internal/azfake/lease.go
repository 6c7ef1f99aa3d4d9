package azfake

import (
	"net/http"
	"strings"
	"time"
)

// lease is the lease of a blob or a container: the state table of "Lease
// Blob", REST reference. The zero value is an available lease.
type lease struct {
	id       string
	duration time.Duration // negative: infinite
	until    time.Time     // end of a fixed lease
	breakAt  time.Time     // set once the lease was broken
}

// The states of a lease, as x-ms-lease-state spells them.
const (
	leaseAvailable = "available"
	leaseHeld      = "leased"
	leaseExpired   = "expired"
	leaseBreaking  = "breaking"
	leaseBroken    = "broken"
)

func (l *lease) state(now time.Time) string {
	switch {
	case l.id == "":
		return leaseAvailable
	case !l.breakAt.IsZero() && now.Before(l.breakAt):
		return leaseBreaking
	case !l.breakAt.IsZero():
		return leaseBroken
	case l.duration < 0 || now.Before(l.until):
		return leaseHeld
	}
	return leaseExpired
}

// active says whether writes need the lease's id.
func (l *lease) active(now time.Time) bool {
	st := l.state(now)
	return st == leaseHeld || st == leaseBreaking
}

// settle makes a lease that ran out available, as a write to the blob does:
// it can no longer be renewed.
func (l *lease) settle(now time.Time) {
	if !l.active(now) {
		*l = lease{}
	}
}

// describe adds the x-ms-lease- headers of Get Blob Properties.
func (l *lease) describe(r *reply, now time.Time) {
	st := l.state(now)
	status := "unlocked"
	if l.active(now) {
		status = "locked"
	}
	r.set("x-ms-lease-state", st).set("x-ms-lease-status", status)
	if st == leaseHeld {
		r.set("x-ms-lease-duration", l.kind())
	}
}

func (l *lease) kind() string {
	if l.duration < 0 {
		return "infinite"
	}
	return "fixed"
}

// allowsWrite checks x-ms-lease-id for a write; on is "Blob" or "Container".
func (l *lease) allowsWrite(c *call, on string) *refusal {
	if l.active(c.now) && c.header.Get("x-ms-lease-id") == "" {
		return refuse(http.StatusPreconditionFailed, "LeaseIdMissing",
			"There is currently a lease on the "+strings.ToLower(on)+" and no lease ID was specified in the request.")
	}
	return l.allowsRead(c, on)
}

// allowsRead checks x-ms-lease-id for an operation that works without it: an
// id that is sent must be the right one.
func (l *lease) allowsRead(c *call, on string) *refusal {
	id := c.header.Get("x-ms-lease-id")
	switch {
	case id == "":
		return nil
	case l.active(c.now):
		if !strings.EqualFold(id, l.id) {
			return refuse(http.StatusPreconditionFailed, "LeaseIdMismatchWith"+on+"Operation",
				"The lease ID specified did not match the lease ID for the "+strings.ToLower(on)+".")
		}
		return nil
	case l.id != "" && strings.EqualFold(id, l.id):
		return refuse(http.StatusPreconditionFailed, "LeaseLost", "A lease ID was specified, but the lease for the resource has expired.")
	}
	return errNoLease(on)
}

func errNoLease(on string) *refusal {
	return refuse(http.StatusPreconditionFailed, "LeaseNotPresentWith"+on+"Operation",
		"There is currently no lease on the "+strings.ToLower(on)+".")
}

func leaseConflict(code, message string) *refusal {
	return refuse(http.StatusConflict, code, message)
}

func errLeaseMismatch() *refusal {
	return leaseConflict("LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match the lease ID.")
}

func errNoLeaseToUse() *refusal {
	return leaseConflict("LeaseNotPresentWithLeaseOperation", "There is currently no lease.")
}

// acquire takes the lease for id. With the id that holds it already, it
// starts anew.
func (l *lease) acquire(now time.Time, id string, d time.Duration) *refusal {
	switch l.state(now) {
	case leaseHeld:
		if !strings.EqualFold(id, l.id) {
			return leaseConflict("LeaseAlreadyPresent", "There is already a lease present.")
		}
	case leaseBreaking:
		if !strings.EqualFold(id, l.id) {
			return leaseConflict("LeaseAlreadyPresent", "There is already a lease present.")
		}
		return leaseConflict("LeaseIsBreakingAndCannotBeAcquired", "The lease is breaking and cannot be acquired until it is broken.")
	}
	*l = lease{id: id, duration: d}
	if d >= 0 {
		l.until = now.Add(d)
	}
	return nil
}

func (l *lease) renew(now time.Time, id string) *refusal {
	if l.id == "" || !strings.EqualFold(id, l.id) {
		return errLeaseMismatch()
	}
	if !l.breakAt.IsZero() {
		return leaseConflict("LeaseIsBrokenAndCannotBeRenewed", "The lease has been broken explicitly and cannot be renewed.")
	}
	if l.duration >= 0 {
		l.until = now.Add(l.duration)
	}
	return nil
}

func (l *lease) change(now time.Time, id, proposed string) *refusal {
	switch l.state(now) {
	case leaseHeld:
	case leaseBreaking:
		if !strings.EqualFold(id, l.id) {
			return errLeaseMismatch()
		}
		return leaseConflict("LeaseIsBreakingAndCannotBeChanged", "The lease is breaking and cannot be changed.")
	default:
		return errNoLeaseToUse()
	}
	// Sent again after a lost reply, the lease already has the proposed id.
	if !strings.EqualFold(id, l.id) && !strings.EqualFold(proposed, l.id) {
		return errLeaseMismatch()
	}
	l.id = proposed
	return nil
}

func (l *lease) release(id string) *refusal {
	if l.id == "" || !strings.EqualFold(id, l.id) {
		return errLeaseMismatch()
	}
	*l = lease{}
	return nil
}

// breakAfter ends the lease after period, or for a negative period after what
// is left of a fixed lease and at once for an infinite one. It returns the
// time until the lease is broken.
func (l *lease) breakAfter(now time.Time, period time.Duration) (time.Duration, *refusal) {
	var left time.Duration
	switch l.state(now) {
	case leaseAvailable:
		return 0, errNoLeaseToUse()
	case leaseHeld:
		if left = l.until.Sub(now); l.duration < 0 {
			left = max(period, 0)
		}
	case leaseBreaking:
		left = l.breakAt.Sub(now)
	}
	if period >= 0 {
		left = min(left, period)
	}
	l.breakAt = now.Add(left)
	return left, nil
}
