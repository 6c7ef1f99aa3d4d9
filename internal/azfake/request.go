package azfake

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// call is a request taken apart.
type call struct {
	http   *http.Request
	ctx    context.Context
	op     Op
	method string
	header http.Header
	query  url.Values

	container, blob string

	body  content // Put Blob, Put Block
	raw   []byte  // every other body
	md5   []byte  // of body, when it was computed
	grant grant
	now   time.Time
}

// address is where a URL points to inside the account.
type address struct{ container, blob string }

// locate finds the container and blob of a URL in either address style.
func (s *Server) locate(host, path string) (address, *refusal) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	path = strings.TrimPrefix(path, "/")
	if !strings.HasPrefix(host, s.opts.Account+".") {
		first, rest, _ := strings.Cut(path, "/")
		if first != s.opts.Account {
			return address{}, refuse(http.StatusBadRequest, "InvalidUri",
				"neither the host nor the first path segment names the account "+s.opts.Account)
		}
		path = rest
	}
	container, blob, _ := strings.Cut(path, "/")
	return address{container, blob}, nil
}

// parse takes a request apart. Even a refused one is a usable call, so that
// hooks and counters see it.
func (s *Server) parse(r *http.Request) (*call, *refusal) {
	c := &call{http: r, ctx: r.Context(), op: OpUnsupported, method: r.Method, header: r.Header}
	query, err := url.ParseQuery(r.URL.RawQuery)
	c.query = query
	if err != nil {
		return c, refuse(http.StatusBadRequest, "InvalidUri", "the query does not parse: "+err.Error())
	}
	at, bad := s.locate(r.Host, r.URL.Path)
	if bad != nil {
		return c, bad
	}
	c.container, c.blob = at.container, at.blob
	c.op = classify(c.method, c.header, c.query, c.container, c.blob)
	return c, checkNames(c)
}

// checkNames follows "Naming and referencing containers, blobs, and metadata",
// REST reference.
func checkNames(c *call) *refusal {
	if len(c.blob) > 1024 {
		return refuse(http.StatusBadRequest, "InvalidResourceName", "a blob name has at most 1,024 characters")
	}
	if c.container == "" || c.container == "$root" || c.container == "$logs" || c.container == "$web" {
		return nil
	}
	if n := len(c.container); n < 3 || n > 63 {
		return refuse(http.StatusBadRequest, "InvalidResourceName", "a container name has 3 to 63 characters")
	}
	for i, r := range c.container {
		alnum := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		inner := i > 0 && i < len(c.container)-1 && c.container[i-1] != '-'
		if !alnum && (r != '-' || !inner) {
			return refuse(http.StatusBadRequest, "InvalidResourceName",
				"a container name holds lower-case letters, digits and single inner hyphens")
		}
	}
	return nil
}
