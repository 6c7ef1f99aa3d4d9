package azfake

import (
	"encoding/base64"
	"net/http"
)

// creating prepares a write that makes a blob or replaces it: it checks the
// conditions and the lease against what is there. The lock is held.
func (s *Server) creating(c *call, cond conditions) (*containerState, *refusal) {
	k, bad := s.container(c)
	if bad != nil {
		return nil, bad
	}
	s.purge(k, c.now)
	var current *version
	b := k.blobs[c.blob]
	if b != nil {
		current = b.current
	}
	if current != nil && !c.grant.may("w") {
		return nil, refuse(http.StatusForbidden, "UnauthorizedBlobOverwrite", "This request is not authorized to perform blob overwrites.")
	}
	azuriteGhost := b != nil && b.ghost && c.op == OpPutBlob && s.opts.AzuriteStaged
	if cond.createOnly() && (current != nil || azuriteGhost) {
		return nil, s.errExists()
	}
	if bad := cond.forWrite(current); bad != nil {
		return nil, bad
	}
	if current == nil {
		if c.header.Get("x-ms-lease-id") != "" {
			return nil, errNoLease("Blob")
		}
		return k, nil
	}
	return k, b.lease.allowsWrite(c, "Blob")
}

// writable prepares a write that needs the blob to be there. If-Match on an
// absent blob is a condition that is not met. The lock is held.
func (s *Server) writable(c *call, cond conditions) (*containerState, *blobState, *refusal) {
	k, b, bad := s.committed(c)
	if bad != nil {
		if k != nil && len(cond.match) > 0 {
			return nil, nil, errConditionNotMet()
		}
		return k, nil, bad
	}
	if bad := cond.forWrite(b.current); bad != nil {
		return nil, nil, bad
	}
	return k, b, b.lease.allowsWrite(c, "Blob")
}

// readable prepares a read. The lock is held.
func (s *Server) readable(c *call, cond conditions) (*blobState, *refusal) {
	k, b, bad := s.committed(c)
	if bad != nil {
		if k != nil && !cond.hold(nil) {
			return nil, errConditionNotMet()
		}
		return nil, bad
	}
	if bad := cond.forRead(b.current); bad != nil {
		return nil, bad
	}
	return b, b.lease.allowsRead(c, "Blob")
}

// draft reads what a write says about the new version, and its conditions.
func draft(c *call) (*version, conditions, *refusal) {
	metadata, bad := metadataOf(c.header)
	if bad != nil {
		return nil, conditions{}, bad
	}
	tags, bad := tagsHeader(c.header)
	if bad != nil {
		return nil, conditions{}, bad
	}
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return nil, conditions{}, bad
	}
	tier := c.header.Get("x-ms-access-tier")
	if tier != "" && !isTier(tier) {
		return nil, conditions{}, errHeader("x-ms-access-tier", tier)
	}
	v := &version{metadata: metadata, tags: tags, tier: tier, headers: contentHeadersOf(c.header)}
	return v, cond, nil
}

func contentHeadersOf(h http.Header) contentHeaders {
	return contentHeaders{
		contentType:  h.Get("x-ms-blob-content-type"),
		encoding:     h.Get("x-ms-blob-content-encoding"),
		language:     h.Get("x-ms-blob-content-language"),
		disposition:  h.Get("x-ms-blob-content-disposition"),
		cacheControl: h.Get("x-ms-blob-cache-control"),
		md5:          h.Get("x-ms-blob-content-md5"),
	}
}

// putBlob follows "Put Blob", REST reference. What was staged under the name
// is discarded.
func (s *Server) putBlob(c *call) *reply {
	switch c.header.Get("x-ms-blob-type") {
	case "BlockBlob":
	case "":
		return refuse(http.StatusBadRequest, "MissingRequiredHeader", "x-ms-blob-type is required").reply()
	case "AppendBlob", "PageBlob":
		return s.unsupported(c)
	default:
		return errHeader("x-ms-blob-type", c.header.Get("x-ms-blob-type")).reply()
	}
	v, cond, bad := draft(c)
	if bad != nil {
		return bad.reply()
	}
	k, bad := s.creating(c, cond)
	if bad != nil {
		return bad.reply()
	}
	sum := base64.StdEncoding.EncodeToString(c.md5)
	if v.headers.md5 == "" {
		v.headers.md5 = sum
	} else if sum != "" && v.headers.md5 != sum {
		return refuse(http.StatusBadRequest, "Md5Mismatch", "x-ms-blob-content-md5 is not the MD5 of the body").reply()
	}
	if v.headers.contentType == "" {
		v.headers.contentType = c.header.Get("Content-Type")
	}
	v.content = c.body
	s.commit(c, k, v)
	if !s.opts.AzuriteStaged {
		k.blobs[c.blob].unstage()
	}
	r := v.written(http.StatusCreated)
	if sum != "" {
		r.set("Content-MD5", sum)
	}
	return r
}

// deleteBlob follows "Delete Blob", REST reference. Without snapshots,
// x-ms-delete-snapshots: include changes nothing and only deletes nothing.
func (s *Server) deleteBlob(c *call) *reply {
	if c.query.Get("deletetype") != "" {
		return s.unsupported(c)
	}
	only := false
	switch v := c.header.Get("x-ms-delete-snapshots"); v {
	case "", "include":
	case "only":
		only = true
	default:
		return errHeader("x-ms-delete-snapshots", v).reply()
	}
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	k, b, bad := s.writable(c, cond)
	if bad != nil {
		if s.opts.AzuriteStaged && k != nil && s.dropGhost(k, c.blob) {
			return answer(http.StatusAccepted)
		}
		return bad.reply()
	}
	if !only {
		s.remove(c, k, b)
	}
	return answer(http.StatusAccepted).set("x-ms-delete-type-permanent", permanent(s.opts.SoftDelete <= 0))
}

func permanent(yes bool) string {
	if yes {
		return "true"
	}
	return "false"
}

func (s *Server) remove(c *call, k *containerState, b *blobState) {
	if s.opts.SoftDelete > 0 {
		k.deleted[c.blob] = &deletedBlob{version: b.current, at: c.now}
	}
	b.current, b.lease = nil, lease{}
	if !s.opts.AzuriteStaged {
		b.unstage()
	}
	k.forget(c.blob)
}

// dropGhost plays Azurite's delete of a blob that has only staged blocks.
func (s *Server) dropGhost(k *containerState, name string) bool {
	b := k.blobs[name]
	if b == nil || b.current != nil || !b.ghost {
		return false
	}
	b.ghost = false
	return true
}

// undelete follows "Undelete Blob", REST reference. A blob that is there is
// left as it is.
func (s *Server) undelete(c *call) *reply {
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	s.purge(k, c.now)
	if b := k.blobs[c.blob]; b != nil && b.current != nil {
		return answer(http.StatusOK)
	}
	d := k.deleted[c.blob]
	if d == nil {
		return errBlobNotFound().reply()
	}
	k.entry(c.blob).current = d.version
	delete(k.deleted, c.blob)
	return answer(http.StatusOK)
}
