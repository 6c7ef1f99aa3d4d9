package azfake

import (
	"net/http"
	"strings"
	"time"
)

// conditions are a request's conditional headers, parsed: "Specifying
// conditional headers for Blob service operations", REST reference.
type conditions struct {
	match, noneMatch []string
	modified, unmod  time.Time
	tags             tagQuery
}

// blobConditions reads the conditions on the blob itself. The tag operations
// have headers of their own for the entity tag and the dates.
func blobConditions(h http.Header) (conditions, *refusal) {
	cond, bad := readConditions(h, "", "x-ms-if-tags")
	if bad != nil {
		return conditions{}, bad
	}
	return cond, nil
}

func tagConditions(h http.Header) (conditions, *refusal) {
	cond, bad := blobConditions(h)
	if bad != nil {
		return conditions{}, bad
	}
	own, bad := readConditions(h, "x-ms-blob-", "")
	if bad != nil {
		return conditions{}, bad
	}
	if len(own.match) > 0 {
		cond.match = own.match
	}
	if len(own.noneMatch) > 0 {
		cond.noneMatch = own.noneMatch
	}
	if !own.modified.IsZero() {
		cond.modified = own.modified
	}
	if !own.unmod.IsZero() {
		cond.unmod = own.unmod
	}
	return cond, nil
}

func sourceConditions(h http.Header) (conditions, *refusal) {
	return readConditions(h, "x-ms-source-", "x-ms-source-if-tags")
}

func readConditions(h http.Header, prefix, tags string) (conditions, *refusal) {
	cond := conditions{
		match:     etagList(h.Get(prefix + "If-Match")),
		noneMatch: etagList(h.Get(prefix + "If-None-Match")),
	}
	var bad *refusal
	if cond.modified, bad = dateHeader(h, prefix+"If-Modified-Since"); bad != nil {
		return conditions{}, bad
	}
	if cond.unmod, bad = dateHeader(h, prefix+"If-Unmodified-Since"); bad != nil {
		return conditions{}, bad
	}
	if tags == "" || h.Get(tags) == "" {
		return cond, nil
	}
	query, err := parseTagQuery(h.Get(tags))
	if err != nil {
		return conditions{}, errHeader(tags, err.Error())
	}
	cond.tags = query
	return cond, nil
}

// etagList splits a header at its commas. An entity tag of this server holds none.
func etagList(v string) []string {
	if v == "" {
		return nil
	}
	var list []string
	for part := range strings.SplitSeq(v, ",") {
		list = append(list, strings.Trim(strings.TrimSpace(part), `"`))
	}
	return list
}

func dateHeader(h http.Header, name string) (time.Time, *refusal) {
	v := h.Get(name)
	if v == "" {
		return time.Time{}, nil
	}
	t, err := http.ParseTime(v)
	if err != nil {
		// The SDK writes the zone of the time it was given.
		t, err = time.Parse(time.RFC1123, v)
	}
	if err != nil {
		return time.Time{}, errHeader(name, "not an RFC 1123 date")
	}
	return t, nil
}

func lists(list []string, etag string) bool {
	for _, e := range list {
		if e == "*" || e == strings.Trim(etag, `"`) {
			return true
		}
	}
	return false
}

// hold says whether the conditions other than If-None-Match and
// If-Modified-Since are met by v, which may be nil for an absent blob: then
// only If-Match fails, since nothing can match.
func (c conditions) hold(v *version) bool {
	if v == nil {
		return len(c.match) == 0
	}
	if len(c.match) > 0 && !lists(c.match, v.etag) {
		return false
	}
	if !c.unmod.IsZero() && v.lastModified.Truncate(time.Second).After(c.unmod) {
		return false
	}
	return c.tags.met(v.tags)
}

func (c conditions) other(v *version) bool { return !lists(c.noneMatch, v.etag) }

func (c conditions) newer(v *version) bool {
	return v.lastModified.Truncate(time.Second).After(c.modified)
}

// forWrite checks the conditions of a write; all of them must hold.
func (c conditions) forWrite(v *version) *refusal {
	switch {
	case !c.hold(v),
		v != nil && len(c.noneMatch) > 0 && !c.other(v),
		v != nil && !c.modified.IsZero() && !c.newer(v):
		return errConditionNotMet()
	}
	return nil
}

// forRead checks the conditions of a read. What should have matched answers
// 412; what should have differed answers 304, and of If-None-Match and
// If-Modified-Since one is enough, as the reference spells out for reads.
func (c conditions) forRead(v *version) *refusal {
	if !c.hold(v) {
		return errConditionNotMet()
	}
	if v == nil {
		return nil
	}
	fresh := true
	switch {
	case len(c.noneMatch) > 0 && !c.modified.IsZero():
		fresh = c.other(v) || c.newer(v)
	case len(c.noneMatch) > 0:
		fresh = c.other(v)
	case !c.modified.IsZero():
		fresh = c.newer(v)
	}
	if !fresh {
		return refuse(http.StatusNotModified, "ConditionNotMet", "")
	}
	return nil
}

// createOnly says whether the write asks for an absent blob.
func (c conditions) createOnly() bool {
	for _, e := range c.noneMatch {
		if e == "*" {
			return true
		}
	}
	return false
}

func (s *Server) errExists() *refusal {
	if s.opts.CreateConflict412 {
		return errConditionNotMet()
	}
	return refuse(http.StatusConflict, "BlobAlreadyExists", "The specified blob already exists.")
}
