package azfake

import (
	"net/http"
	"slices"
)

// setMetadata follows "Set Blob Metadata", REST reference: what the request
// does not name is gone, and the entity tag changes.
func (s *Server) setMetadata(c *call) *reply {
	metadata, bad := metadataOf(c.header)
	if bad != nil {
		return bad.reply()
	}
	return s.revising(c, func(v *version) { v.metadata = metadata })
}

// setHTTPHeaders follows "Set Blob Properties", REST reference: what the
// request does not name is gone, and the entity tag changes.
func (s *Server) setHTTPHeaders(c *call) *reply {
	headers := contentHeadersOf(c.header)
	return s.revising(c, func(v *version) { v.headers = headers })
}

func (s *Server) revising(c *call, change func(*version)) *reply {
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	_, b, bad := s.writable(c, cond)
	if bad != nil {
		return bad.reply()
	}
	return s.revise(c, b, change).written(http.StatusOK)
}

var tiers = []string{"Hot", "Cool", "Cold"}

func isTier(tier string) bool { return slices.Contains(tiers, tier) }

// setTier follows "Set Blob Tier", REST reference: the entity tag stays. Of
// the tiers this server knows those that can be read at once. The only
// condition that the operation takes is the one on tags.
func (s *Server) setTier(c *call) *reply {
	tier := c.header.Get("x-ms-access-tier")
	if !isTier(tier) {
		return errHeader("x-ms-access-tier", tier).reply()
	}
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	_, b, bad := s.committed(c)
	if bad != nil {
		return bad.reply()
	}
	if bad := cond.forWrite(b.current); bad != nil {
		return bad.reply()
	}
	if bad := b.lease.allowsRead(c, "Blob"); bad != nil {
		return bad.reply()
	}
	v := *b.current
	v.tier = tier
	b.current = &v
	return answer(http.StatusOK)
}
