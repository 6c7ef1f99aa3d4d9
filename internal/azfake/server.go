package azfake

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultAccount is the account name of a Server without Options.Account.
const DefaultAccount = "azfake"

// Options chooses the account and the behaviours that differ between accounts,
// or between the service and its emulator. The zero value is a plain account
// that asks for no credential.
type Options struct {
	// Account is the storage account's name. Defaults to DefaultAccount.
	Account string
	// Key is the account key in base64. With it, every request must carry a
	// valid shared key signature, a SAS or some bearer token ("Authorize with
	// Shared Key", "Create a service SAS", "Create an account SAS", REST
	// reference). Defaults to none: anyone may do anything, except that a SAS
	// in the URL still limits what its request may do.
	Key string
	// Now is the server's clock. Defaults to time.Now.
	Now func() time.Time
	// CreateConflict412 makes a create-only write that finds a blob answer 412
	// ConditionNotMet ("Specifying conditional headers", REST reference) in
	// place of 409 BlobAlreadyExists, which is what the service sends.
	CreateConflict412 bool
	// AzuriteStaged makes staged blocks behave as in Azurite: a create-only Put
	// Blob over a name that has only staged blocks answers 409, Delete Blob of
	// it 202, and neither Put Blob nor Delete Blob discards staged blocks.
	AzuriteStaged bool
	// Hierarchical makes this an account with a hierarchical namespace: index
	// tags are refused wherever they appear.
	Hierarchical bool
	// SoftDelete is how long a deleted blob can be undeleted. Defaults to 0:
	// deleted is gone.
	SoftDelete time.Duration
	// Discard keeps the size of every body and none of its bytes; reads give
	// zeros. For measuring a client's memory in the same process.
	Discard bool
}

// Server is the account. Its methods may be called from any goroutine.
type Server struct {
	opts Options
	key  []byte

	mu         sync.Mutex // held for a map operation, never across a wait
	containers map[string]*containerState
	seq        uint64 // entity tags and lease ids

	hooks hookBox
	count counters
}

// New returns an empty account. It panics if the key is not base64, which is a
// mistake in the test itself. A nil Options is the zero value.
func New(opts *Options) *Server {
	s := &Server{containers: map[string]*containerState{}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Account == "" {
		s.opts.Account = DefaultAccount
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	key, err := base64.StdEncoding.DecodeString(s.opts.Key)
	if err != nil {
		panic("azfake: account key: " + err.Error())
	}
	s.key = key
	return s
}

// ServeHTTP answers one request. Both address styles are understood:
// https://account.blob.core.windows.net/container/blob and
// http://host/account/container/blob. A request or reply that a Hook loses
// closes the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rep, err := s.serve(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for k, v := range rep.header {
		w.Header()[k] = v
	}
	body := rep.body
	if r.Method == http.MethodHead || rep.status == http.StatusNotModified {
		body = nil
	}
	if rep.header.Get("Content-Length") == "" && rep.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.FormatInt(body.len(), 10))
	}
	w.WriteHeader(rep.status)
	if rep.cut < 0 {
		// An error means that the client left: there is nobody to tell.
		_, _ = body.WriteTo(w)
		return
	}
	_, _ = body.slice(0, rep.cut).WriteTo(w)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// serve takes a request through its fault, its body and its operation. An
// error means that no answer may arrive.
func (s *Server) serve(r *http.Request) (*reply, error) {
	c, bad := s.parse(r)
	f := s.meet(c)
	if err := wait(c.ctx, f.Delay); err != nil {
		return nil, err
	}
	switch f.Kind {
	case LostRequest:
		return nil, ErrLost
	case Refused:
		return s.dress(c, f.refusal()), nil
	}
	if bad == nil {
		var err error
		if bad, err = s.readBody(c); err != nil {
			return nil, err
		}
	}
	if bad != nil {
		return s.dress(c, bad.reply()), nil
	}
	if f.Kind == LateRequest {
		if f.Late != nil {
			f.Late(func() int { return s.apply(c).status })
		}
		return nil, ErrLost
	}
	rep := s.dress(c, s.apply(c))
	if err := wait(c.ctx, f.DelayReply); err != nil {
		return nil, err
	}
	switch f.Kind {
	case LostReply:
		return nil, ErrLost
	case CutReply:
		rep.cut = f.Keep
	}
	return rep, nil
}

// apply checks the credential and runs the operation. The body has been read:
// from here on nothing waits.
func (s *Server) apply(c *call) *reply {
	c.now = s.opts.Now().UTC()
	if bad := s.authorize(c); bad != nil {
		return bad.reply()
	}
	if bad := s.refuseTagsOnHierarchical(c); bad != nil {
		return bad.reply()
	}
	return handlers[c.op](s, c)
}

// dress adds the headers that every answer carries.
func (s *Server) dress(c *call, rep *reply) *reply {
	h := rep.header
	h.Set("x-ms-request-id", s.requestID())
	if v := c.header.Get("x-ms-version"); v != "" {
		h.Set("x-ms-version", v)
	}
	if v := c.header.Get("x-ms-client-request-id"); v != "" {
		h.Set("x-ms-client-request-id", v)
	}
	h.Set("Date", s.opts.Now().UTC().Format(http.TimeFormat))
	return rep
}

func (s *Server) requestID() string {
	return fakeUUID(s.count.nextRequest())
}

// fakeUUID writes n in the shape of a UUID.
func fakeUUID(n uint64) string {
	hex := strconv.FormatUint(n, 16)
	hex = strings.Repeat("0", 12-min(12, len(hex))) + hex
	return "a2fa0000-0000-4000-8000-" + hex[len(hex)-12:]
}

// nextETag returns an entity tag that this server has not used. The lock is held.
func (s *Server) nextETag() string {
	s.seq++
	hex := strings.ToUpper(strconv.FormatUint(s.seq, 16))
	return `"0x8DC` + strings.Repeat("0", 12-min(12, len(hex))) + hex + `"`
}
