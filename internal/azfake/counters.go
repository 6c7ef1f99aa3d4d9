package azfake

import (
	"maps"
	"sync"
)

// counters has a lock of its own: counting must not queue behind operations.
type counters struct {
	mu       sync.Mutex
	byOp     map[Op]int
	requests uint64 // ever, for request ids
}

func (k *counters) add(op Op) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOp == nil {
		k.byOp = map[Op]int{}
	}
	k.byOp[op]++
	return k.byOp[op]
}

func (k *counters) nextRequest() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests++
	return k.requests
}

// Count returns how many requests of one kind arrived since the server began
// or ResetCounts was called, lost and refused ones included.
func (s *Server) Count(op Op) int {
	s.count.mu.Lock()
	defer s.count.mu.Unlock()
	return s.count.byOp[op]
}

// Counts returns all counters that are not zero.
func (s *Server) Counts() map[Op]int {
	s.count.mu.Lock()
	defer s.count.mu.Unlock()
	return maps.Clone(s.count.byOp)
}

// Requests returns how many requests arrived in all. The parts of a batch are
// not requests.
func (s *Server) Requests() int {
	var n int
	for op, k := range s.Counts() {
		if op != OpBatchDelete && op != OpBatchSetTier {
			n += k
		}
	}
	return n
}

// ResetCounts sets all counters to zero.
func (s *Server) ResetCounts() {
	s.count.mu.Lock()
	defer s.count.mu.Unlock()
	clear(s.count.byOp)
}
