package azfake

import (
	"net/http"
	"strconv"
	"time"
)

// createContainer follows "Create Container", REST reference.
func (s *Server) createContainer(c *call) *reply {
	metadata, bad := metadataOf(c.header)
	if bad != nil {
		return bad.reply()
	}
	if s.containers[c.container] != nil {
		return refuse(http.StatusConflict, "ContainerAlreadyExists", "The specified container already exists.").reply()
	}
	k := newContainer(s.nextETag(), c.now, metadata)
	s.containers[c.container] = k
	return k.written(http.StatusCreated)
}

func (k *containerState) written(status int) *reply {
	return answer(status).set("ETag", k.etag).set("Last-Modified", k.lastModified.Format(http.TimeFormat))
}

// containerProperties follows "Get Container Properties", REST reference.
func (s *Server) containerProperties(c *call) *reply {
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	if bad := k.lease.allowsRead(c, "Container"); bad != nil {
		return bad.reply()
	}
	r := k.written(http.StatusOK)
	setMetadataHeaders(r, k.metadata)
	k.lease.describe(r, c.now)
	r.set("x-ms-has-immutability-policy", "false").set("x-ms-has-legal-hold", "false")
	return r
}

// setContainerMetadata follows "Set Container Metadata", REST reference.
func (s *Server) setContainerMetadata(c *call) *reply {
	metadata, bad := metadataOf(c.header)
	if bad != nil {
		return bad.reply()
	}
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	if bad := k.meets(c); bad != nil {
		return bad.reply()
	}
	if bad := k.lease.allowsRead(c, "Container"); bad != nil {
		return bad.reply()
	}
	k.metadata, k.etag, k.lastModified = metadata, s.nextETag(), c.now
	return k.written(http.StatusOK)
}

// deleteContainer follows "Delete Container", REST reference. It is the one
// container operation that a lease blocks.
func (s *Server) deleteContainer(c *call) *reply {
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	if bad := k.meets(c); bad != nil {
		return bad.reply()
	}
	if bad := k.lease.allowsWrite(c, "Container"); bad != nil {
		return bad.reply()
	}
	delete(s.containers, c.container)
	return answer(http.StatusAccepted)
}

// meets checks the date conditions, the only ones a container honours besides
// the lease.
func (k *containerState) meets(c *call) *refusal {
	cond, bad := readConditions(c.header, "", "")
	if bad != nil {
		return bad
	}
	return cond.forWrite(&version{etag: k.etag, lastModified: k.lastModified})
}

// accountInfo follows "Get Account Information", REST reference.
func (s *Server) accountInfo(*call) *reply {
	return answer(http.StatusOK).
		set("x-ms-sku-name", "Standard_LRS").
		set("x-ms-account-kind", "StorageV2").
		set("x-ms-is-hns-enabled", strconv.FormatBool(s.opts.Hierarchical))
}

// serviceProperties follows "Get Blob Service Properties", REST reference, for
// the one property that this server has.
func (s *Server) serviceProperties(*call) *reply {
	policy := "<Enabled>false</Enabled>"
	if s.opts.SoftDelete > 0 {
		days := max(1, int(s.opts.SoftDelete/(24*time.Hour)))
		policy = "<Enabled>true</Enabled><Days>" + strconv.Itoa(days) + "</Days>"
	}
	return answer(http.StatusOK).xml("<StorageServiceProperties><DeleteRetentionPolicy>" +
		policy + "</DeleteRetentionPolicy></StorageServiceProperties>")
}
