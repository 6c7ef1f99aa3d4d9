package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARepeatedRequestGetsTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	post := func() *httptest.ResponseRecorder {
		return w.do("POST", "/documents?title=a", strings.NewReader("one"), "Idempotency-Key", "k", "Content-Type", "text/plain")
	}
	first := post()
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	d := w.decode(first)
	same := func() {
		t.Helper()
		again := post()
		require.Equal(t, first.Code, again.Code, again.Body)
		require.Equal(t, first.Body.String(), again.Body.String())
		require.Equal(t, first.Header(), again.Header())
	}
	same()
	w.agree(1)

	put := func() *httptest.ResponseRecorder {
		return w.do("PUT", "/documents/"+d.ID+"?title=b", strings.NewReader("two"), "Idempotency-Key", "k", "If-Match", d.Version.ETag())
	}
	replaced := put()
	require.Equal(t, http.StatusOK, replaced.Code, replaced.Body)
	again := put()
	require.Equal(t, replaced.Code, again.Code, "not a conflict with itself")
	require.Equal(t, replaced.Body.String(), again.Body.String())
	require.Equal(t, replaced.Header(), again.Header())
	same() // as it was then, though it was replaced since
	w.agree(1)
	require.Equal(t, http.StatusNoContent, w.do("DELETE", "/documents/"+d.ID, nil, "If-Match", "*").Code)
	same()
	w.agree(0)
}

func TestAnIdempotencyKeyIsOneRequests(t *testing.T) {
	w := newWorld(t)
	d := w.create("a", "one", "Idempotency-Key", "k", "Content-Type", "text/plain")
	for what, rec := range map[string]*httptest.ResponseRecorder{
		"other bytes of the same length":  w.do("POST", "/documents?title=a", strings.NewReader("two"), "Idempotency-Key", "k", "Content-Type", "text/plain"),
		"other bytes, length not told":    w.do("POST", "/documents?title=a", unsized("ones"), "Idempotency-Key", "k", "Content-Type", "text/plain"),
		"another length":                  w.do("POST", "/documents?title=a", strings.NewReader("ones"), "Idempotency-Key", "k", "Content-Type", "text/plain"),
		"no bytes":                        w.do("POST", "/documents?title=a", nil, "Idempotency-Key", "k", "Content-Type", "text/plain"),
		"another title":                   w.do("POST", "/documents?title=b", strings.NewReader("one"), "Idempotency-Key", "k", "Content-Type", "text/plain"),
		"another content type":            w.do("POST", "/documents?title=a", strings.NewReader("one"), "Idempotency-Key", "k"),
		"another title and other content": w.do("POST", "/documents?title=b", strings.NewReader("two"), "Idempotency-Key", "k"),
	} {
		require.Equal(t, http.StatusUnprocessableEntity, rec.Code, what)
		w.problem(rec)
	}
	require.Equal(t, http.StatusOK, w.do("PUT", "/documents/"+d.ID+"?title=a", strings.NewReader("two"), "Idempotency-Key", "k", "If-Match", "*").Code, "another address")
	rec := w.do("PUT", "/documents/"+d.ID+"?title=a", strings.NewReader("two"), "Idempotency-Key", "k", "If-Match", d.Version.ETag())
	require.Equal(t, http.StatusUnprocessableEntity, rec.Code, "another condition")
	require.Equal(t, http.StatusBadRequest, w.do("POST", "/documents?title=a", strings.NewReader("one"), "Idempotency-Key", strings.Repeat("k", 250)).Code)
	w.agree(1)
	require.Equal(t, d, w.create("a", "one", "Idempotency-Key", "k", "Content-Type", "text/plain"), "misuse has harmed nothing")
}

// stuck is a body that says when it is read, and gives its bytes when it is let.
type stuck struct {
	io.Reader
	reading, goOn chan struct{}
	once          sync.Once
}

func (s *stuck) Read(p []byte) (int, error) {
	s.once.Do(func() { close(s.reading) })
	<-s.goOn
	return s.Reader.Read(p)
}

func newStuck(text string) *stuck {
	return &stuck{Reader: strings.NewReader(text), reading: make(chan struct{}), goOn: make(chan struct{})}
}

// start sends a create in the background, and waits until its body is read.
func (w *world) start(title string, body *stuck, headers ...string) (wait func() *httptest.ResponseRecorder) {
	var rec *httptest.ResponseRecorder
	var wg sync.WaitGroup
	wg.Go(func() { rec = w.do("POST", "/documents?title="+title, body, headers...) })
	<-body.reading
	return func() *httptest.ResponseRecorder {
		close(body.goOn)
		wg.Wait()
		return rec
	}
}

func TestAnAttemptOvertakenByItsRetryIsToldSo(t *testing.T) {
	for promise, test := range map[string]func(t *testing.T, w *world, finishFirst func() *httptest.ResponseRecorder){
		"while the retry is under way: 409": func(t *testing.T, w *world, finishFirst func() *httptest.ResponseRecorder) {
			finishRetry := w.start("a", newStuck("one"), "Idempotency-Key", "k")
			first := finishFirst()
			require.Equal(t, http.StatusConflict, first.Code, first.Body)
			w.problem(first)
			require.Equal(t, http.StatusCreated, finishRetry().Code)
		},
		"after the retry was done: its answer": func(t *testing.T, w *world, finishFirst func() *httptest.ResponseRecorder) {
			retry := w.do("POST", "/documents?title=a", strings.NewReader("one"), "Idempotency-Key", "k")
			require.Equal(t, http.StatusCreated, retry.Code, retry.Body)
			first := finishFirst()
			require.Equal(t, http.StatusCreated, first.Code, first.Body)
			require.Equal(t, retry.Body.String(), first.Body.String())
		},
		"by another request in its clothes: neither": func(t *testing.T, w *world, finishFirst func() *httptest.ResponseRecorder) {
			other := w.do("POST", "/documents?title=b", strings.NewReader("two"), "Idempotency-Key", "k")
			require.Equal(t, http.StatusUnprocessableEntity, other.Code, other.Body)
			require.GreaterOrEqual(t, finishFirst().Code, 400)
		},
	} {
		t.Run(promise, func(t *testing.T) {
			w := newWorld(t)
			test(t, w, w.start("a", newStuck("one"), "Idempotency-Key", "k"))
			w.create("a", "one", "Idempotency-Key", "k") // the same again, or free again
			w.agree(1)
			w.sweepLater(time.Hour)
			require.Equal(t, 1, w.blobs())
		})
	}
}

// However many send the same at once, there is one document, and everyone who
// is told of it is told the same.
func TestRepeatedRequestsAtOnceMakeOneDocument(t *testing.T) {
	w := newWorld(t)
	answers := make([]*httptest.ResponseRecorder, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			answers[i] = w.do("POST", "/documents?title=a", strings.NewReader(strings.Repeat("x", 100_000)), "Idempotency-Key", "k")
		})
	}
	wg.Wait()
	last := w.do("POST", "/documents?title=a", strings.NewReader(strings.Repeat("x", 100_000)), "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, last.Code, last.Body)
	created := 0
	for _, rec := range answers {
		switch rec.Code {
		case http.StatusCreated:
			created++
			require.Equal(t, last.Body.String(), rec.Body.String())
			require.Equal(t, last.Header().Get("ETag"), rec.Header().Get("ETag"))
		case http.StatusConflict, http.StatusServiceUnavailable:
		default:
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	}
	require.Positive(t, created)
	require.Equal(t, 1, w.blobs())
	w.agree(1)
}
