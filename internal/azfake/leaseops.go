package azfake

import (
	"net/http"
	"strconv"
	"time"
)

// leaseBlob follows "Lease Blob", REST reference. No lease operation changes
// the entity tag or the time of the last change.
func (s *Server) leaseBlob(c *call) *reply {
	_, b, bad := s.committed(c)
	if bad != nil {
		return bad.reply()
	}
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	if bad := cond.forWrite(b.current); bad != nil {
		return bad.reply()
	}
	return s.leaseAction(c, &b.lease, b.current.etag, b.current.lastModified)
}

// leaseContainer follows "Lease Container", REST reference.
func (s *Server) leaseContainer(c *call) *reply {
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	if bad := k.meets(c); bad != nil {
		return bad.reply()
	}
	return s.leaseAction(c, &k.lease, k.etag, k.lastModified)
}

// leaseAction does what x-ms-lease-action says.
func (s *Server) leaseAction(c *call, l *lease, etag string, modified time.Time) *reply {
	id := c.header.Get("x-ms-lease-id")
	status := http.StatusOK
	left := time.Duration(-1)
	var bad *refusal
	switch action := c.header.Get("x-ms-lease-action"); action {
	case "acquire":
		status, bad = http.StatusCreated, s.acquire(c, l)
	case "renew":
		bad = l.renew(c.now, id)
	case "change":
		proposed := c.header.Get("x-ms-proposed-lease-id")
		if !isUUID(proposed) {
			return errHeader("x-ms-proposed-lease-id", "not a UUID").reply()
		}
		bad = l.change(c.now, id, proposed)
	case "release":
		bad = l.release(id)
	case "break":
		status = http.StatusAccepted
		left, bad = breakLease(c, l)
	default:
		bad = errHeader("x-ms-lease-action", action)
	}
	if bad != nil {
		return bad.reply()
	}
	r := answer(status).set("ETag", etag).set("Last-Modified", modified.Format(http.TimeFormat))
	if left >= 0 {
		return r.set("x-ms-lease-time", strconv.Itoa(int((left+time.Second-1)/time.Second)))
	}
	if l.id != "" {
		r.set("x-ms-lease-id", l.id)
	}
	return r
}

func (s *Server) acquire(c *call, l *lease) *refusal {
	seconds, err := strconv.Atoi(c.header.Get("x-ms-lease-duration"))
	if err != nil || seconds != -1 && (seconds < 15 || seconds > 60) {
		return errHeader("x-ms-lease-duration", "a lease lasts 15 to 60 seconds, or -1 for ever")
	}
	id := c.header.Get("x-ms-proposed-lease-id")
	if id == "" {
		s.seq++
		id = fakeUUID(s.seq)
	}
	if !isUUID(id) {
		return errHeader("x-ms-proposed-lease-id", "not a UUID")
	}
	return l.acquire(c.now, id, time.Duration(seconds)*time.Second)
}

func breakLease(c *call, l *lease) (time.Duration, *refusal) {
	period := -1
	if v := c.header.Get("x-ms-lease-break-period"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 60 {
			return 0, errHeader("x-ms-lease-break-period", "0 to 60 seconds")
		}
		period = n
	}
	return l.breakAfter(c.now, time.Duration(period)*time.Second)
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		hex := s[i] >= '0' && s[i] <= '9' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'f'
		if dash != (s[i] == '-') || !dash && !hex {
			return false
		}
	}
	return true
}
