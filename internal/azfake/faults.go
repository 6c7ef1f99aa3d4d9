package azfake

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// ErrLost is the transport error of a request or reply that a Hook lost. Over
// a socket the client sees a closed connection in its place.
var ErrLost = errors.New("azfake: connection lost")

// Call is what a Hook knows about a request.
type Call struct {
	Op        Op
	Container string
	Blob      string
	// Seq is the number of this request among those of its Op since the server
	// began or the counters were reset, from 1.
	Seq int
	// Request is the request itself. The Hook must leave its body alone.
	Request *http.Request
}

// Hook decides what happens to a request. It runs in the request's goroutine
// and holds no lock. The parts of a batch are calls of their own (OpBatchDelete,
// OpBatchSetTier); of a part's fault only Refused counts.
type Hook func(Call) Fault

// FaultKind says what becomes of a request.
type FaultKind int

const (
	// NoFault lets the request through.
	NoFault FaultKind = iota
	// LostRequest drops the request: nothing is applied, the caller sees a
	// transport error.
	LostRequest
	// LostReply applies the request and gives the caller a transport error.
	LostReply
	// LateRequest gives the caller a transport error now; the request is
	// applied when the function handed to Fault.Late is called.
	LateRequest
	// Refused answers with Fault.Status and Fault.Code and applies nothing.
	Refused
	// CutReply applies the request; the response body breaks after Fault.Keep
	// bytes.
	CutReply
)

// Fault is a Hook's decision. The zero value lets the request through. The
// delays apply to every kind, and end early when the request's context does.
type Fault struct {
	Kind FaultKind
	// Delay passes before anything else happens.
	Delay time.Duration
	// DelayReply passes after the request was applied, before the answer.
	DelayReply time.Duration
	// Status, Code and RetryAfter describe a Refused request. Status defaults to
	// 503, Code to ServerBusy.
	Status     int
	Code       string
	RetryAfter time.Duration
	// Keep is the number of body bytes that a CutReply lets through.
	Keep int64
	// Late receives the function that applies a LateRequest. It may keep it,
	// and call it at any time, once, never, or twice as a network may do; each
	// call returns the HTTP status that nobody was told.
	Late func(apply func() int)
}

// LoseRequest drops the request.
func LoseRequest() Fault { return Fault{Kind: LostRequest} }

// LoseReply applies the request and drops the answer.
func LoseReply() Fault { return Fault{Kind: LostReply} }

// ApplyLate drops the answer and hands the request to late.
func ApplyLate(late func(apply func() int)) Fault { return Fault{Kind: LateRequest, Late: late} }

// Delay lets the request through after d.
func Delay(d time.Duration) Fault { return Fault{Delay: d} }

// Throttle refuses with status 429 or 503, ServerBusy and a Retry-After
// ("Status and error codes", REST reference). Less than a second travels in
// retry-after-ms, which azcore reads too.
func Throttle(status int, retryAfter time.Duration) Fault {
	return Fault{Kind: Refused, Status: status, Code: "ServerBusy", RetryAfter: retryAfter}
}

// Deny refuses with 403 AuthorizationPermissionMismatch.
func Deny() Fault {
	return Fault{Kind: Refused, Status: http.StatusForbidden, Code: "AuthorizationPermissionMismatch"}
}

// CutBody breaks the response body after keep bytes.
func CutBody(keep int64) Fault { return Fault{Kind: CutReply, Keep: keep} }

func (f Fault) refusal() *reply {
	status, code := f.Status, f.Code
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	if code == "" {
		code = "ServerBusy"
	}
	rep := refuse(status, code, "refused by a hook").reply()
	switch {
	case f.RetryAfter >= time.Second:
		rep.set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	case f.RetryAfter > 0:
		rep.set("retry-after-ms", strconv.Itoa(max(1, int(f.RetryAfter/time.Millisecond))))
	}
	return rep
}

type hookBox struct{ p atomic.Pointer[Hook] }

// SetHook installs a Hook for the requests that follow. Nil removes it.
func (s *Server) SetHook(h Hook) {
	if h == nil {
		s.hooks.p.Store(nil)
		return
	}
	s.hooks.p.Store(&h)
}

// meet counts the call and asks the Hook about it.
func (s *Server) meet(c *call) Fault {
	n := s.count.add(c.op)
	h := s.hooks.p.Load()
	if h == nil {
		return Fault{}
	}
	return (*h)(Call{Op: c.op, Container: c.container, Blob: c.blob, Seq: n, Request: c.http})
}

// wait lets d pass on the time package's clock.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
