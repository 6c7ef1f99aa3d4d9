package wire

import (
	"slices"
	"sync"
)

// Fault is what becomes of one request. In every case its connection is cut.
type Fault int

// The faults.
const (
	// RequestLost: the server never sees it.
	RequestLost Fault = iota
	// ReplyLost: the server has carried it out and answered; nothing of the
	// answer arrives.
	ReplyLost
	// RequestLate: it reaches the server when Land is called, long after the
	// client was told of the cut; until then what its connection has locked
	// stays locked. A Transport cannot do that.
	RequestLate
	// Unreachable is RequestLost, and from then on there is no way to the server
	// until Heal.
	Unreachable
	// ReplyLostUnreachable is ReplyLost, and so on.
	ReplyLostUnreachable
)

// Faults are all of them.
var Faults = []Fault{RequestLost, ReplyLost, RequestLate, Unreachable, ReplyLostUnreachable}

func (f Fault) String() string {
	return [...]string{"request lost", "reply lost", "request late", "request lost, then out of reach", "reply lost, then out of reach"}[f]
}

func (f Fault) losesReply() bool { return f == ReplyLost || f == ReplyLostUnreachable }

// Fate counts requests and decides which of them meets a fault. The zero value
// lets everything through. It is safe for concurrent use.
type Fate struct {
	mu    sync.Mutex
	sent  []string // what was asked since Fail or Heal
	at    int      // 0: no fault
	fault Fault
	met   bool
	down  bool // there is no way to the server
}

// Fail makes the n-th request from now on, of all connections, meet the fault.
// It counts from 1.
func (x *Fate) Fail(n int, f Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent, x.at, x.fault, x.met, x.down = nil, n, f, false, false
}

// Heal ends the fault. It returns the requests since Fail or the last Heal, in
// order, and whether the fault was met.
func (x *Fate) Heal() (sent []string, met bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	sent, met = x.sent, x.met
	x.sent, x.at, x.met, x.down = nil, 0, false, false
	return slices.Clone(sent), met
}

// begin counts a request and decides its fate.
func (x *Fate) begin(text string) (f Fault, hit bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down {
		return RequestLost, true
	}
	x.sent = append(x.sent, text)
	if len(x.sent) != x.at {
		return 0, false
	}
	x.met = true
	x.down = x.fault >= Unreachable
	return x.fault, true
}

func (x *Fate) unreachable() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.down
}
