package wire

import (
	"errors"
	"io"
	"net/http"
)

// ErrLost is what the client sees of a request or a reply that a Transport lost.
var ErrLost = errors.New("connection reset")

// Transport is an HTTP transport with a Fate.
type Transport struct {
	Fate
	// Base sends what is not lost. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// Do sends the request, as policy.Transporter of the Azure SDK.
func (x *Transport) Do(r *http.Request) (*http.Response, error) { return x.RoundTrip(r) }

// RoundTrip sends the request, as http.RoundTripper.
func (x *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := x.Base
	if base == nil {
		base = http.DefaultTransport
	}
	fault, hit := x.begin(what(r))
	if hit && !fault.losesReply() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, ErrLost
	}
	response, err := base.RoundTrip(r)
	if err != nil || !hit {
		return response, err
	}
	// The whole answer, so that the server has done what it was asked.
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, ErrLost
}

// what says what a request of Blob Storage asks for; its query has names too,
// and may have a signature.
func what(r *http.Request) string {
	if comp := r.URL.Query().Get("comp"); comp != "" {
		return r.Method + " " + comp
	}
	return r.Method
}
