package azfake

import (
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Transport returns a transporter for azcore's ClientOptions that answers in
// the caller's goroutine, without a socket. Headers go through the changes
// that HTTP makes to them: names in canonical case, values trimmed, control
// characters refused.
func (s *Server) Transport() policy.Transporter { return transporter{s} }

// HTTPClient returns an http.Client over the same transport, for code that
// wants to send requests without the SDK.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: transporter{s}} }

type transporter struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transporter) RoundTrip(req *http.Request) (*http.Response, error) { return t.Do(req) }

// Do implements policy.Transporter.
func (t transporter) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in, err := wireRequest(req)
	if err != nil {
		return nil, err
	}
	rep, err := t.server.serve(in)
	if err == nil {
		err = ctx.Err() // the caller has left: the answer finds nobody
	}
	if err != nil {
		return nil, err
	}
	return rep.response(req), nil
}

// wireRequest is the request as the other end of a connection would see it.
func wireRequest(req *http.Request) (*http.Request, error) {
	in := *req
	in.Header = make(http.Header, len(req.Header))
	for name, values := range req.Header {
		for _, v := range values {
			if strings.IndexFunc(name+v, isControl) >= 0 {
				return nil, fmt.Errorf("azfake: invalid header field value for %q", name)
			}
			in.Header.Add(name, textproto.TrimString(v))
		}
	}
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	in.RequestURI = req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return &in, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (r *reply) response(req *http.Request) *http.Response {
	body := r.body
	if req.Method == http.MethodHead || r.status == http.StatusNotModified {
		body = nil
	}
	size := body.len()
	if h := r.header.Get("Content-Length"); h != "" {
		size, _ = strconv.ParseInt(h, 10, 64) // our own header, of a HEAD
	} else if r.status != http.StatusNotModified {
		r.header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	reader := &replyBody{ctx: req.Context()}
	if r.cut >= 0 && r.cut < size {
		body, reader.broken = body.slice(0, r.cut), true
	}
	reader.content = contentReader{content: body}
	return &http.Response{
		Status:        strconv.Itoa(r.status) + " " + http.StatusText(r.status),
		StatusCode:    r.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        r.header,
		Body:          reader,
		ContentLength: size,
		Request:       req,
	}
}

// replyBody is a response body that ends when the caller's context does, as
// net/http's do.
type replyBody struct {
	ctx     interface{ Err() error }
	content contentReader
	broken  bool
	closed  bool
}

func (b *replyBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.content.Read(p)
	if err == io.EOF && b.broken {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *replyBody) Close() error {
	b.closed = true
	return nil
}

// Describe returns what a Hook would be told of a request, without its number.
// The request is not sent.
func (s *Server) Describe(req *http.Request) Call {
	in := *req
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	c, _ := s.parse(&in)
	return Call{Op: c.op, Container: c.container, Blob: c.blob, Request: req}
}
