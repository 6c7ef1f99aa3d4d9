package azfake

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// headBlob follows "Get Blob Properties", REST reference.
func (s *Server) headBlob(c *call) *reply {
	b, bad := s.reading(c)
	if bad != nil {
		return bad.reply()
	}
	r := answer(http.StatusOK)
	b.describe(r, c)
	v := b.current
	r.set("Content-Length", strconv.FormatInt(v.content.len(), 10))
	if v.headers.md5 != "" {
		r.set("Content-MD5", v.headers.md5)
	}
	tier := v.tier
	if tier == "" {
		tier = "Hot"
		r.set("x-ms-access-tier-inferred", "true")
	}
	return r.set("x-ms-access-tier", tier)
}

// getBlob follows "Get Blob", REST reference.
func (s *Server) getBlob(c *call) *reply {
	b, bad := s.reading(c)
	if bad != nil {
		return bad.reply()
	}
	v := b.current
	size := v.content.len()
	rg, bad := rangeOf(c.header, size)
	if bad != nil {
		r := bad.reply()
		if bad.status == http.StatusRequestedRangeNotSatisfiable {
			r.set("Content-Range", fmt.Sprintf("bytes */%d", size))
		}
		return r
	}
	r := answer(http.StatusOK)
	b.describe(r, c)
	if rg == nil {
		if v.headers.md5 != "" {
			r.set("Content-MD5", v.headers.md5)
		}
		r.body = v.content
		return r
	}
	r.status = http.StatusPartialContent
	r.body = v.content.slice(rg.off, rg.n)
	r.set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", rg.off, rg.off+rg.n-1, size))
	if v.headers.md5 != "" {
		r.set("x-ms-blob-content-md5", v.headers.md5)
	}
	if c.header.Get("x-ms-range-get-content-md5") == "true" {
		if rg.n > 4<<20 {
			return errHeader("x-ms-range-get-content-md5", "the range is larger than 4 MiB").reply()
		}
		r.set("Content-MD5", base64.StdEncoding.EncodeToString(r.body.md5()))
	}
	return r
}

// getMetadata follows "Get Blob Metadata", REST reference.
func (s *Server) getMetadata(c *call) *reply {
	b, bad := s.reading(c)
	if bad != nil {
		return bad.reply()
	}
	r := answer(http.StatusOK).
		set("ETag", b.current.etag).
		set("Last-Modified", b.current.lastModified.Format(http.TimeFormat))
	setMetadataHeaders(r, b.current.metadata)
	return r
}

func (s *Server) reading(c *call) (*blobState, *refusal) {
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return nil, bad
	}
	return s.readable(c, cond)
}

// describe adds the headers that Get Blob and Get Blob Properties share.
func (b *blobState) describe(r *reply, c *call) {
	v := b.current
	r.set("ETag", v.etag).
		set("Last-Modified", v.lastModified.Format(http.TimeFormat)).
		set("x-ms-creation-time", v.created.Format(http.TimeFormat)).
		set("x-ms-blob-type", "BlockBlob").
		set("x-ms-server-encrypted", "true").
		set("Accept-Ranges", "bytes").
		set("Content-Type", v.headers.typeOrDefault())
	for name, value := range map[string]string{
		"Content-Encoding":    v.headers.encoding,
		"Content-Language":    v.headers.language,
		"Content-Disposition": v.headers.disposition,
		"Cache-Control":       v.headers.cacheControl,
	} {
		if value != "" {
			r.set(name, value)
		}
	}
	if len(v.tags) > 0 {
		r.set("x-ms-tag-count", strconv.Itoa(len(v.tags)))
	}
	setMetadataHeaders(r, v.metadata)
	b.lease.describe(r, c.now)
	v.copied.describe(r)
}

func (h contentHeaders) typeOrDefault() string {
	if h.contentType == "" {
		return "application/octet-stream"
	}
	return h.contentType
}

type byteRange struct{ off, n int64 }

// rangeOf follows "Specifying the range header for Blob service operations",
// REST reference: one range with a start, x-ms-range before Range. A range
// that starts behind the last byte, as every range of an empty blob does, is
// 416 InvalidRange.
func rangeOf(h http.Header, size int64) (*byteRange, *refusal) {
	name, v := "x-ms-range", h.Get("x-ms-range")
	if v == "" {
		name, v = "Range", h.Get("Range")
	}
	if v == "" {
		return nil, nil
	}
	first, last, ok := strings.Cut(strings.TrimPrefix(v, "bytes="), "-")
	off, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil || !strings.HasPrefix(v, "bytes=") {
		return nil, errHeader(name, "want bytes=start- or bytes=start-end")
	}
	end := size - 1
	if last != "" {
		if end, err = strconv.ParseInt(last, 10, 64); err != nil || end < off {
			return nil, errHeader(name, "want bytes=start- or bytes=start-end")
		}
		end = min(end, size-1)
	}
	if off >= size {
		return nil, refuse(http.StatusRequestedRangeNotSatisfiable, "InvalidRange",
			"The range specified is invalid for the current size of the resource.")
	}
	return &byteRange{off, end - off + 1}, nil
}
