package azfake

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// containerState is one container. Everything in it is guarded by Server.mu.
type containerState struct {
	etag         string
	lastModified time.Time
	metadata     map[string]string
	lease        lease
	blobs        map[string]*blobState
	deleted      map[string]*deletedBlob
	names        []string // of blobs and deleted, sorted; nil when stale
}

// blobState is one name: a committed version, or blocks staged for one, or both.
type blobState struct {
	current *version // nil while nothing is committed
	lease   lease
	staged  map[string]block
	order   []string // block ids in the order they were first staged
	touched time.Time
	// ghost is Azurite's record of a blob that has only staged blocks.
	ghost bool
}

// version is a committed state of a blob. It is never changed, only replaced,
// so that a reader may go on with one after the lock is released.
type version struct {
	etag         string
	lastModified time.Time
	created      time.Time
	headers      contentHeaders
	metadata     map[string]string
	tags         map[string]string
	tier         string // empty: inferred
	content      content
	blocks       []namedBlock // empty after Put Blob
	copied       *copyRecord
}

type block struct {
	content content
}

type namedBlock struct {
	id   string
	size int64
}

type deletedBlob struct {
	version *version
	at      time.Time
}

// contentHeaders are the properties that Set Blob Properties replaces as a whole.
type contentHeaders struct {
	contentType, encoding, language, disposition, cacheControl, md5 string
}

func newContainer(etag string, now time.Time, metadata map[string]string) *containerState {
	return &containerState{
		etag: etag, lastModified: now, metadata: metadata,
		blobs: map[string]*blobState{}, deleted: map[string]*deletedBlob{},
	}
}

// container finds the call's container. The lock is held.
func (s *Server) container(c *call) (*containerState, *refusal) {
	k := s.containers[c.container]
	if k == nil {
		return nil, errContainerNotFound()
	}
	return k, nil
}

// committed finds the call's container and blob; a name with nothing but
// staged blocks is no blob. The lock is held.
func (s *Server) committed(c *call) (*containerState, *blobState, *refusal) {
	k, bad := s.container(c)
	if bad != nil {
		return nil, nil, bad
	}
	b := k.blobs[c.blob]
	if b == nil || b.current == nil {
		return k, nil, errBlobNotFound()
	}
	return k, b, nil
}

// entry returns the state of a name, made when it is new.
func (k *containerState) entry(name string) *blobState {
	b := k.blobs[name]
	if b == nil {
		b = &blobState{}
		k.blobs[name] = b
		if k.deleted[name] == nil {
			k.names = nil
		}
	}
	return b
}

// forget removes a name that has neither a version nor staged blocks.
func (k *containerState) forget(name string) {
	if b := k.blobs[name]; b != nil && b.current == nil && len(b.staged) == 0 {
		delete(k.blobs, name)
		k.names = nil
	}
}

// sorted returns all names in listing order. The slice is never changed later.
func (k *containerState) sorted() []string {
	if k.names != nil {
		return k.names
	}
	names := make([]string, 0, len(k.blobs)+len(k.deleted))
	names = slices.AppendSeq(names, maps.Keys(k.blobs))
	for name := range k.deleted {
		if k.blobs[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	k.names = names
	return names
}

// purge drops soft-deleted blobs whose retention is over.
func (s *Server) purge(k *containerState, now time.Time) {
	for name, d := range k.deleted {
		if !now.Before(d.at.Add(s.opts.SoftDelete)) {
			delete(k.deleted, name)
			k.names = nil
		}
	}
}

// commit makes v the blob's committed version with a fresh entity tag. A new
// blob under a soft-deleted name takes the name.
func (s *Server) commit(c *call, k *containerState, v *version) *version {
	b := k.entry(c.blob)
	v.etag, v.lastModified, v.created = s.nextETag(), c.now, c.now
	if b.current != nil {
		v.created = b.current.created
	}
	b.current = v
	b.ghost = false
	b.lease.settle(c.now)
	delete(k.deleted, c.blob)
	return v
}

// revise replaces the blob's version by a changed copy with a fresh entity tag.
func (s *Server) revise(c *call, b *blobState, change func(*version)) *version {
	v := *b.current
	change(&v)
	v.etag, v.lastModified = s.nextETag(), c.now
	b.current = &v
	b.lease.settle(c.now)
	return &v
}

// unstage discards what was staged, as Put Blob, Put Block List and Delete Blob do.
func (b *blobState) unstage() {
	b.staged, b.order = nil, nil
}

func (v *version) written(status int) *reply {
	return answer(status).
		set("ETag", v.etag).
		set("Last-Modified", v.lastModified.Format(http.TimeFormat)).
		set("x-ms-request-server-encrypted", "true")
}
