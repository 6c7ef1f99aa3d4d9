package azfake

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) sign(text string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func sameSignature(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

func (s *Server) sharedKeyValid(c *call, header string) bool {
	want := "SharedKey " + s.opts.Account + ":" + s.sign(s.stringToSign(c))
	return sameSignature(header, want)
}

// stringToSign follows "Authorize with Shared Key", REST reference, for
// version 2015-02-21 and later: an empty body has an empty length.
func (s *Server) stringToSign(c *call) string {
	length := ""
	if c.http.ContentLength > 0 {
		length = strconv.FormatInt(c.http.ContentLength, 10)
	}
	date := c.header.Get("Date")
	if c.header.Get("x-ms-date") != "" {
		date = ""
	}
	lines := []string{c.method, c.header.Get("Content-Encoding"), c.header.Get("Content-Language"), length}
	lines = append(lines, c.header.Get("Content-MD5"), c.header.Get("Content-Type"), date)
	for _, name := range []string{"If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"} {
		lines = append(lines, c.header.Get(name))
	}
	lines = append(lines, canonicalHeaders(c.header), s.canonicalResource(c))
	return strings.Join(lines, "\n")
}

func canonicalHeaders(h http.Header) string {
	var names []string
	values := map[string]string{}
	for name, v := range h {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-ms-") {
			names = append(names, lower)
			values[lower] = strings.Join(v, ",")
		}
	}
	slices.SortFunc(names, compareHeaderNames)
	for i, name := range names {
		names[i] = name + ":" + values[name]
	}
	return strings.Join(names, "\n")
}

// compareHeaderNames is the service's order of header names: hyphens do not
// count, and punctuation comes before digits before letters.
func compareHeaderNames(a, b string) int {
	if order := strings.Compare(headerWeight(a), headerWeight(b)); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func headerWeight(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return -1
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return 1 + r%32 // below every digit
	}, name)
}

func (s *Server) canonicalResource(c *call) string {
	path := c.http.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	return "/" + s.opts.Account + path + canonicalQuery(c.query)
}

func canonicalQuery(q url.Values) string {
	var names []string
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		values := slices.Clone(q[name])
		slices.Sort(values)
		b.WriteString("\n" + strings.ToLower(name) + ":" + strings.Join(values, ","))
	}
	return b.String()
}
