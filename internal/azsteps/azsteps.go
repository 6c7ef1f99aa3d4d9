// Package azsteps makes every HTTP request to an azfake.Server a step of a
// faultstore.Injector: the SDK above it, its retries and its body handling
// included, meets lost requests, lost replies, late requests, bodies that break
// and the death of its process.
package azsteps

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store/faultstore"
)

// Store is faultstore.Op.Store of every request.
const Store = "azure"

// Reply is what Fault.Told gets: the answer to one request.
type Reply struct {
	Op     azfake.Op
	Blob   string
	Status int
	Header http.Header
	Body   []byte
}

// Client returns a client for a container of s, every request of which is a
// step of in. A nil injector lets all pass. The container must exist. The SDK
// tries a request twice, a tenth of a second apart: its own jitter, which no
// seed reaches, is cut off by the longest delay.
func Client(s *azfake.Server, name string, in faultstore.Injector) (*container.Client, error) {
	o := container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: s.Transport(),
		Retry:     policy.RetryOptions{MaxRetries: 1, RetryDelay: time.Second, MaxRetryDelay: 100 * time.Millisecond},
	}}
	if in != nil {
		s.SetHook(decided)
		o.Transport = &transport{server: s, under: o.Transport, in: in}
	}
	return container.NewClientWithNoCredential(s.URL()+name, &o)
}

type transport struct {
	server *azfake.Server
	under  policy.Transporter
	in     faultstore.Injector
}

// Do implements policy.Transporter.
func (t *transport) Do(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	about := t.server.Describe(req)
	op := step(&about)
	f := t.in.Step(req.Context(), op)
	resp, err := t.send(req, op, &f)
	if err != nil {
		if f.Told != nil {
			f.Told(nil, err)
		}
		return nil, err
	}
	// No two runs have the same number of this request.
	resp.Header.Del("x-ms-request-id")
	body, broken := io.ReadAll(resp.Body)
	resp.Body = &replyBody{Reader: bytes.NewReader(body), ctx: req.Context(), broken: broken}
	resp.Request = req
	if f.Told != nil {
		f.Told(Reply{about.Op, about.Blob, resp.StatusCode, resp.Header.Clone(), body}, nil)
	}
	return resp, nil
}

func (t *transport) send(req *http.Request, op faultstore.Op, f *faultstore.Fault) (*http.Response, error) {
	ctx := f.Context
	switch {
	case f.Kind == faultstore.Die:
		return nil, dead{}
	case ctx == nil && f.Kind == faultstore.Proceed:
		ctx = req.Context()
	case ctx == nil:
		ctx = context.WithoutCancel(req.Context())
	}
	fault := azfake.Fault{Delay: f.Delay}
	switch f.Kind {
	case faultstore.FailBefore:
		fault.Kind = azfake.LostRequest
	case faultstore.LoseReply:
		fault.Kind = azfake.LostReply
	case faultstore.Late:
		fault.Kind = azfake.LateRequest
		fault.Late = func(apply func() int) {
			if f.Late != nil {
				f.Late(faultstore.Message{Op: op, Apply: func() { apply() }, Drop: func() {}})
			}
		}
	case faultstore.Midway:
		if breaksInRequest(req) {
			return nil, t.breakOff(req)
		}
		fault.Kind, fault.Keep = azfake.CutReply, 1
	}
	resp, err := t.under.Do(req.WithContext(context.WithValue(ctx, faultKey{}, fault)))
	if errors.Is(err, azfake.ErrLost) {
		err = faultstore.ErrLost
	}
	return resp, err
}

// faultKey is where a request's context carries what was decided about it.
type faultKey struct{}

// decided is the Hook of every server that has stepping clients.
func decided(c azfake.Call) azfake.Fault {
	f, _ := c.Request.Context().Value(faultKey{}).(azfake.Fault)
	return f
}

// breaksInRequest: a batch is sent whole, and its reply breaks.
func breaksInRequest(req *http.Request) bool {
	return req.Body != nil && req.ContentLength > 0 && req.Method != http.MethodPost
}

// breakOff sends the head and one byte of the body. The server never sees the
// end of it and applies nothing.
func (t *transport) breakOff(req *http.Request) error {
	in := req.WithContext(context.WithoutCancel(req.Context()))
	in.Body = io.NopCloser(io.MultiReader(io.LimitReader(req.Body, 1), brokenBody{}))
	resp, err := t.under.Do(in)
	if err == nil {
		return fmt.Errorf("azsteps: %s %s with half its body was answered %d", req.Method, req.URL.Path, resp.StatusCode)
	}
	return faultstore.ErrLost
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, faultstore.ErrLost }

// dead is what every request of a dead process gets. The SDK does not try it
// again.
type dead struct{}

func (dead) Error() string { return faultstore.ErrDead.Error() }
func (dead) Unwrap() error { return faultstore.ErrDead }
func (dead) NonRetriable() {}

// replyBody ends with the caller's context, and breaks where the reply did.
type replyBody struct {
	*bytes.Reader
	ctx    context.Context
	broken error
	closed bool
}

func (b *replyBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.broken != nil {
		err = b.broken
	}
	return n, err
}

// WriteTo hides the Reader's, which knows of no end but its own.
func (b *replyBody) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b})
}

func (b *replyBody) Close() error {
	b.closed = true
	return nil
}

// step is the request as a step: "Put Block" of "name, block 3".
func step(c *azfake.Call) faultstore.Op {
	op := faultstore.Op{Store: Store, Name: words(string(c.Op)), Subject: c.Blob, Write: true}
	switch c.Op {
	case azfake.OpGetBlob, azfake.OpGetTags, azfake.OpList, azfake.OpGetBlockList:
		op.Write, op.Parts = false, true
	case azfake.OpHeadBlob, azfake.OpGetMetadata, azfake.OpGetContainerProperties, azfake.OpAccountInfo, azfake.OpServiceProperties:
		op.Write = false
	case azfake.OpPutBlock:
		op.Parts = true
		op.Subject += ", block " + position(c.Request.URL.Query().Get("blockid"))
	case azfake.OpPutBlob, azfake.OpPutBlockList, azfake.OpBatch:
		op.Parts = c.Request.ContentLength > 0
	}
	return op
}

// position is what package azstore puts at the front of a block id.
func position(id string) string {
	raw, err := base64.StdEncoding.DecodeString(id)
	if err != nil || len(raw) < 5 {
		return id
	}
	if n := strings.TrimLeft(string(raw[:5]), "0"); n != "" {
		return n
	}
	return "0"
}

// words is the operation as its page in the REST reference is called.
func words(op string) string {
	var b strings.Builder
	for i, r := range op {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
