package azfake

import (
	"maps"
	"slices"
	"time"
)

// Blob is what Inspect shows of one committed blob.
type Blob struct {
	// Data are the bytes, in memory of their own. Under Options.Discard they
	// are zeros, if Size is not too large to be worth making: nil above 64 MiB.
	Data        []byte
	Size        int64
	ETag        string // in quotes, as headers carry it
	ContentType string
	Tags        map[string]string
	Metadata    map[string]string // names in lower case
	Leased      bool
	LeaseID     string // empty unless Leased
	Blocks      int    // in the committed block list; 0 after Put Blob
	CreatedAt   time.Time
}

// Inspect returns all committed blobs of a container by name, read in one
// step, and nil when there is no such container. It is not a request: no
// counter moves and no Hook is asked.
func (s *Server) Inspect(container string) map[string]Blob {
	return s.inspect(container, true)
}

// InspectFacts is Inspect without Data, which is nil.
func (s *Server) InspectFacts(container string) map[string]Blob {
	return s.inspect(container, false)
}

func (s *Server) inspect(container string, data bool) map[string]Blob {
	now := s.opts.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.containers[container]
	if k == nil {
		return nil
	}
	out := make(map[string]Blob, len(k.blobs))
	for name, b := range k.blobs {
		if b.current == nil {
			continue
		}
		v := b.current
		shown := Blob{
			Size: v.content.len(), ETag: v.etag, ContentType: v.headers.typeOrDefault(),
			Tags: maps.Clone(v.tags), Metadata: maps.Clone(v.metadata),
			Leased: b.lease.active(now), Blocks: len(v.blocks), CreatedAt: v.created,
		}
		if shown.Leased {
			shown.LeaseID = b.lease.id
		}
		if data && (!s.opts.Discard || shown.Size <= 64<<20) {
			shown.Data = v.content.bytes()
		}
		out[name] = shown
	}
	return out
}

// Names returns the names of all committed blobs of a container, sorted.
func (s *Server) Names(container string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.containers[container]
	if k == nil {
		return nil
	}
	var names []string
	for name, b := range k.blobs {
		if b.current != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Staged returns the number of uncommitted blocks under a name.
func (s *Server) Staged(container, blob string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.containers[container]
	if k == nil || k.blobs[blob] == nil {
		return 0
	}
	return len(k.blobs[blob].staged)
}

// StagedNames returns every name that has uncommitted blocks, with their number.
func (s *Server) StagedNames(container string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	if k := s.containers[container]; k != nil {
		for name, b := range k.blobs {
			if len(b.staged) > 0 {
				out[name] = len(b.staged)
			}
		}
	}
	return out
}

// MakeContainer creates a container without a request. One that exists stays.
func (s *Server) MakeContainer(name string) {
	now := s.opts.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers[name] == nil {
		s.containers[name] = newContainer(s.nextETag(), now, nil)
	}
}

// StagedBlocks returns the ids of the uncommitted blocks of every name that has
// some, sorted.
func (s *Server) StagedBlocks(container string) map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]string{}
	if k := s.containers[container]; k != nil {
		for name, b := range k.blobs {
			if len(b.staged) > 0 {
				out[name] = slices.Sorted(maps.Keys(b.staged))
			}
		}
	}
	return out
}
