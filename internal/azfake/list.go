package azfake

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPage is the page size of "List Blobs", REST reference.
const maxPage = 5000

// listing is a List Blobs request.
type listing struct {
	prefix, delimiter, from string
	max                     int
	include                 map[string]bool
}

// item is one line of a page: a blob, a soft-deleted blob, or a common prefix.
type item struct {
	name      string
	isPrefix  bool
	version   *version // nil for an uncommitted blob
	lease     lease
	touched   time.Time
	deletedAt time.Time
	remaining int
}

func includes(q url.Values) map[string]bool {
	m := map[string]bool{}
	for _, list := range q["include"] {
		for what := range strings.SplitSeq(list, ",") {
			m[what] = true
		}
	}
	return m
}

func parseListing(q url.Values) (listing, *refusal) {
	l := listing{
		prefix: q.Get("prefix"), delimiter: q.Get("delimiter"), from: q.Get("startFrom"),
		max: maxPage, include: includes(q),
	}
	for what := range l.include {
		switch what {
		case "metadata", "tags", "uncommittedblobs", "deleted", "copy", "snapshots", "versions",
			"deletedwithversions", "immutabilitypolicy", "legalhold", "permissions":
		default:
			return l, errQuery("include", what)
		}
	}
	if v := q.Get("maxresults"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return l, refuse(http.StatusBadRequest, "OutOfRangeQueryParameterValue", "maxresults is at least 1")
		}
		l.max = min(n, maxPage)
	}
	if m := q.Get("marker"); m != "" {
		name, err := base64.RawURLEncoding.DecodeString(m)
		if err != nil {
			return l, errQuery("marker", "not one that this server gave")
		}
		l.from = max(l.from, string(name))
	}
	return l, nil
}

// list follows "List Blobs", REST reference: names in byte order, pages by a
// marker that stays good while blobs come and go. The page is picked under the
// lock and written after it.
func (s *Server) list(c *call) *reply {
	l, bad := parseListing(c.query)
	if bad != nil {
		return bad.reply()
	}
	s.mu.Lock()
	k, bad := s.container(c)
	if bad != nil {
		s.mu.Unlock()
		return bad.reply()
	}
	s.purge(k, c.now)
	items, next := s.page(k, l, c.now)
	s.mu.Unlock()
	return answer(http.StatusOK).xml(l.render(s.opts.Account, c.container, items, next, c.now))
}

// page returns the items of one page and the name that the next begins with.
func (s *Server) page(k *containerState, l listing, now time.Time) (items []item, next string) {
	names := k.sorted()
	at, _ := slices.BinarySearch(names, max(l.prefix, l.from))
	for at < len(names) && strings.HasPrefix(names[at], l.prefix) {
		name := names[at]
		it, ok := s.item(k, name, l, now)
		if !ok {
			at++
			continue
		}
		if len(items) == l.max {
			return items, name
		}
		group, grouped := l.group(name)
		if !grouped {
			items = append(items, it)
			at++
			continue
		}
		items = append(items, item{name: group, isPrefix: true})
		rest, _ := slices.BinarySearchFunc(names[at:], group, func(n, g string) int {
			if strings.HasPrefix(n, g) {
				return -1
			}
			return strings.Compare(n, g)
		})
		at += rest
	}
	return items, ""
}

// group returns the common prefix that stands for name in a hierarchy.
func (l listing) group(name string) (string, bool) {
	if l.delimiter == "" {
		return "", false
	}
	head, _, ok := strings.Cut(name[len(l.prefix):], l.delimiter)
	return l.prefix + head + l.delimiter, ok
}

func (s *Server) item(k *containerState, name string, l listing, now time.Time) (item, bool) {
	if b := k.blobs[name]; b != nil {
		shown := b.current != nil || l.include["uncommittedblobs"]
		if shown {
			return item{name: name, version: b.current, lease: b.lease, touched: b.touched}, true
		}
	}
	if d := k.deleted[name]; d != nil && l.include["deleted"] {
		left := d.at.Add(s.opts.SoftDelete).Sub(now)
		days := int((left + 24*time.Hour - 1) / (24 * time.Hour))
		return item{name: name, version: d.version, deletedAt: d.at, remaining: days}, true
	}
	return item{}, false
}

func (l listing) render(account, container string, items []item, next string, now time.Time) string {
	var b strings.Builder
	b.WriteString(`<EnumerationResults ServiceEndpoint="https://` + account + `.blob.core.windows.net/" ContainerName="` + escapeXML(container) + `">`)
	element(&b, "Prefix", l.prefix)
	if l.delimiter != "" {
		element(&b, "Delimiter", l.delimiter)
	}
	element(&b, "MaxResults", strconv.Itoa(l.max))
	b.WriteString("<Blobs>")
	for _, it := range items {
		it.render(&b, l, now)
	}
	b.WriteString("</Blobs>")
	if next != "" {
		next = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	element(&b, "NextMarker", next)
	b.WriteString("</EnumerationResults>")
	return b.String()
}

func element(b *strings.Builder, name, value string) {
	b.WriteString("<" + name + ">" + escapeXML(value) + "</" + name + ">")
}

// nameElement percent-encodes a name that XML cannot carry.
func nameElement(b *strings.Builder, name string) {
	if strings.IndexFunc(name, notInXML) < 0 {
		element(b, "Name", name)
		return
	}
	b.WriteString(`<Name Encoded="true">` + url.QueryEscape(name) + `</Name>`)
}

func notInXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffd || r == 0xfffe || r == 0xffff
}

func (it item) render(b *strings.Builder, l listing, now time.Time) {
	if it.isPrefix {
		b.WriteString("<BlobPrefix>")
		nameElement(b, it.name)
		b.WriteString("</BlobPrefix>")
		return
	}
	b.WriteString("<Blob>")
	nameElement(b, it.name)
	if !it.deletedAt.IsZero() {
		element(b, "Deleted", "true")
	}
	it.properties(b, now)
	if it.version != nil {
		if l.include["metadata"] {
			renderMetadata(b, it.version.metadata)
		}
		if l.include["tags"] && len(it.version.tags) > 0 {
			b.WriteString(renderTags(it.version.tags))
		}
	}
	b.WriteString("</Blob>")
}

func renderMetadata(b *strings.Builder, m map[string]string) {
	b.WriteString("<Metadata>")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		element(b, k, m[k])
	}
	b.WriteString("</Metadata>")
}

// properties writes the entity tag without quotes, as the service does in
// listings only.
func (it item) properties(b *strings.Builder, now time.Time) {
	b.WriteString("<Properties>")
	v := it.version
	if v == nil {
		element(b, "Last-Modified", it.touched.Format(http.TimeFormat))
		element(b, "Etag", "")
		element(b, "Content-Length", "0")
		element(b, "BlobType", "BlockBlob")
		b.WriteString("</Properties>")
		return
	}
	element(b, "Creation-Time", v.created.Format(http.TimeFormat))
	element(b, "Last-Modified", v.lastModified.Format(http.TimeFormat))
	element(b, "Etag", strings.Trim(v.etag, `"`))
	element(b, "Content-Length", strconv.FormatInt(v.content.len(), 10))
	element(b, "Content-Type", v.headers.typeOrDefault())
	element(b, "Content-Encoding", v.headers.encoding)
	element(b, "Content-Language", v.headers.language)
	element(b, "Content-MD5", v.headers.md5)
	element(b, "Cache-Control", v.headers.cacheControl)
	element(b, "Content-Disposition", v.headers.disposition)
	element(b, "BlobType", "BlockBlob")
	tier := v.tier
	if tier == "" {
		tier = "Hot"
		element(b, "AccessTierInferred", "true")
	}
	element(b, "AccessTier", tier)
	if !it.deletedAt.IsZero() {
		element(b, "DeletedTime", it.deletedAt.Format(http.TimeFormat))
		element(b, "RemainingRetentionDays", strconv.Itoa(it.remaining))
	} else {
		it.leaseProperties(b, now)
	}
	if n := len(v.tags); n > 0 {
		element(b, "TagCount", strconv.Itoa(n))
	}
	element(b, "ServerEncrypted", "true")
	b.WriteString("</Properties>")
}

func (it item) leaseProperties(b *strings.Builder, now time.Time) {
	status := "unlocked"
	if it.lease.active(now) {
		status = "locked"
	}
	element(b, "LeaseStatus", status)
	element(b, "LeaseState", it.lease.state(now))
	if it.lease.state(now) == leaseHeld {
		element(b, "LeaseDuration", it.lease.kind())
	}
}
