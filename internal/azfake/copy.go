package azfake

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxCopyFromURL is the limit of "Copy Blob From URL", REST reference.
const maxCopyFromURL = 256 << 20

// copyRecord is what a blob remembers of the copy that made it.
type copyRecord struct {
	id, source string
	size       int64
	done       time.Time
}

func (r *copyRecord) describe(to *reply) {
	if r == nil {
		return
	}
	size := strconv.FormatInt(r.size, 10)
	to.set("x-ms-copy-id", r.id).
		set("x-ms-copy-source", r.source).
		set("x-ms-copy-status", "success").
		set("x-ms-copy-progress", size+"/"+size).
		set("x-ms-copy-completion-time", r.done.Format(http.TimeFormat))
}

// source finds the blob that x-ms-copy-source names, which must live in this
// account, and checks that the request may read it. The lock is held.
func (s *Server) source(c *call) (*version, *refusal) {
	u, err := url.Parse(c.header.Get("x-ms-copy-source"))
	if err != nil {
		return nil, errHeader("x-ms-copy-source", err.Error())
	}
	at, bad := s.locate(u.Host, u.Path)
	if bad != nil {
		return nil, refuse(http.StatusNotFound, "CannotVerifyCopySource", "azfake copies within its own account only")
	}
	if bad := s.maySource(c, u.Query(), at); bad != nil {
		return nil, bad
	}
	cond, bad := sourceConditions(c.header)
	if bad != nil {
		return nil, bad
	}
	k := s.containers[at.container]
	if k == nil || k.blobs[at.blob] == nil || k.blobs[at.blob].current == nil {
		if c.op == OpCopyBlob {
			return nil, errBlobNotFound()
		}
		return nil, refuse(http.StatusNotFound, "CannotVerifyCopySource", "The specified blob does not exist.")
	}
	v := k.blobs[at.blob].current
	if cond.forWrite(v) != nil {
		return nil, refuse(http.StatusPreconditionFailed, "SourceConditionNotMet", "The source condition specified using HTTP conditional header(s) is not met.")
	}
	return v, nil
}

// maySource decides whether the source may be read: by its own SAS, by an
// authorization of its own, or, for Copy Blob alone, by the account key that
// signed the request.
func (s *Server) maySource(c *call, q url.Values, at address) *refusal {
	if q.Get("sig") != "" {
		g, bad := s.checkSAS(q, at, c.now)
		if bad == nil && !g.may("r") {
			bad = errPermission()
		}
		if bad != nil {
			return refuse(http.StatusForbidden, "CannotVerifyCopySource", bad.message)
		}
		return nil
	}
	own := strings.HasPrefix(c.header.Get("x-ms-copy-source-authorization"), "Bearer ")
	if len(s.key) == 0 || own || c.op == OpCopyBlob && c.grant.signed {
		return nil
	}
	return refuse(http.StatusForbidden, "CannotVerifyCopySource", "The source is private and its URL carries no SAS.")
}

// copyInto makes the destination from the source. Metadata are inherited
// unless the request names some; tags are not, unless it asks for them.
func (s *Server) copyInto(c *call, change func(v, src *version) *refusal) (*version, *refusal) {
	src, bad := s.source(c)
	if bad != nil {
		return nil, bad
	}
	v, cond, bad := draft(c)
	if bad != nil {
		return nil, bad
	}
	k, bad := s.creating(c, cond)
	if bad != nil {
		return nil, bad
	}
	v.content, v.blocks = src.content, src.blocks
	if v.metadata == nil {
		v.metadata = maps.Clone(src.metadata)
	}
	if strings.EqualFold(c.header.Get("x-ms-copy-source-tag-option"), "COPY") {
		if v.tags != nil {
			return nil, errHeader("x-ms-copy-source-tag-option", "COPY excludes x-ms-tags")
		}
		v.tags = maps.Clone(src.tags)
	}
	if bad := change(v, src); bad != nil {
		return nil, bad
	}
	s.commit(c, k, v)
	if !s.opts.AzuriteStaged {
		k.blobs[c.blob].unstage()
	}
	return v, nil
}

// record notes the copy on the blob, and inherits the source's properties,
// which a copy cannot set.
func (s *Server) record(c *call, v, src *version) {
	s.seq++
	at, _, _ := strings.Cut(c.header.Get("x-ms-copy-source"), "?")
	v.headers = src.headers
	v.copied = &copyRecord{id: fakeUUID(s.seq), source: at, size: src.content.len(), done: c.now}
}

// copyBlob follows "Copy Blob", REST reference. Within one account the copy is
// done before the answer.
func (s *Server) copyBlob(c *call) *reply {
	v, bad := s.copyInto(c, func(v, src *version) *refusal {
		s.record(c, v, src)
		return nil
	})
	if bad != nil {
		if bad.code == "ConditionNotMet" {
			bad.code = "TargetConditionNotMet"
		}
		return bad.reply()
	}
	return v.written(http.StatusAccepted).set("x-ms-copy-id", v.copied.id).set("x-ms-copy-status", "success")
}

// copyFromURL follows "Copy Blob From URL", REST reference.
func (s *Server) copyFromURL(c *call) *reply {
	v, bad := s.copyInto(c, func(v, src *version) *refusal {
		if src.content.len() > maxCopyFromURL {
			return errTooLarge()
		}
		s.record(c, v, src)
		return checkSourceMD5(c, src.content)
	})
	if bad != nil {
		return bad.reply()
	}
	return v.written(http.StatusAccepted).set("x-ms-copy-id", v.copied.id).set("x-ms-copy-status", "success")
}

// putBlobFromURL follows "Put Blob From URL", REST reference: the content
// becomes a blob without a block list, with the source's properties unless
// the request declines them.
func (s *Server) putBlobFromURL(c *call) *reply {
	if c.header.Get("x-ms-blob-type") != "BlockBlob" {
		return s.unsupported(c)
	}
	v, bad := s.copyInto(c, func(v, src *version) *refusal {
		v.blocks = nil
		if c.header.Get("x-ms-copy-source-blob-properties") != "false" {
			v.headers = v.headers.or(src.headers)
		}
		return checkSourceMD5(c, src.content)
	})
	if bad != nil {
		return bad.reply()
	}
	return v.written(http.StatusCreated)
}

// or fills what h leaves empty from other.
func (h contentHeaders) or(other contentHeaders) contentHeaders {
	for _, f := range []struct{ mine, theirs *string }{
		{&h.contentType, &other.contentType}, {&h.encoding, &other.encoding},
		{&h.language, &other.language}, {&h.disposition, &other.disposition},
		{&h.cacheControl, &other.cacheControl}, {&h.md5, &other.md5},
	} {
		if *f.mine == "" {
			*f.mine = *f.theirs
		}
	}
	return h
}

// putBlockFromURL follows "Put Block From URL", REST reference.
func (s *Server) putBlockFromURL(c *call) *reply {
	src, bad := s.source(c)
	if bad != nil {
		return bad.reply()
	}
	body := src.content
	rg, bad := rangeOf(http.Header{"Range": c.header["X-Ms-Source-Range"]}, body.len())
	if bad != nil {
		return bad.reply()
	}
	if rg != nil {
		body = body.slice(rg.off, rg.n)
	}
	if bad := checkSourceMD5(c, body); bad != nil {
		return bad.reply()
	}
	if bad := s.stage(c, body); bad != nil {
		return bad.reply()
	}
	return answer(http.StatusCreated).set("x-ms-request-server-encrypted", "true")
}

func checkSourceMD5(c *call, body content) *refusal {
	announced := c.header.Get("x-ms-source-content-md5")
	if announced == "" {
		return nil
	}
	return compareSum(announced, body.md5(), "Md5Mismatch")
}
