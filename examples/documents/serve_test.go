package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// half is a body that the server has asked for (the client sends it only after
// 100 Continue) and that then waits, with its first bytes sent.
type half struct {
	*io.PipeReader
	rest  *io.PipeWriter
	asked chan struct{}
}

func newHalf(first string) *half {
	r, w := io.Pipe()
	h := &half{PipeReader: r, rest: w, asked: make(chan struct{})}
	go func() {
		_, _ = io.WriteString(w, first) // returns when all of it was taken
		close(h.asked)
	}()
	return h
}

// post sends it over a real connection, and hands over what comes back.
func (h *half) post(ctx context.Context, base string) <-chan *http.Response {
	answer := make(chan *http.Response, 1)
	r, err := http.NewRequestWithContext(ctx, "POST", base+"/documents?title=half", h)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}}
	go func() {
		resp, err := client.Do(r)
		if err != nil {
			resp = nil
		}
		answer <- resp
	}()
	return answer
}

func TestADisconnectInMidUploadLeavesNothing(t *testing.T) {
	for what, first := range map[string]string{"in the first block": "x", "in the third": strings.Repeat("x", 20<<20)} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.maxSize = 64 << 20
			returned := make(chan time.Time, 1)
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.handler.ServeHTTP(rw, r)
				returned <- time.Now()
			}))
			defer server.Close()
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			body := newHalf(first)
			answer := body.post(ctx, server.URL)
			<-body.asked
			left := time.Now()
			disconnect()
			body.rest.CloseWithError(io.ErrUnexpectedEOF) // or the client would wait for the rest of its body
			require.Nil(t, <-answer)
			require.Less(t, (<-returned).Sub(left), time.Second)
			w.sweepLater(16 * time.Minute) // IntentTTL has passed
			require.Zero(t, w.blobs())
			require.Empty(t, w.azure.StagedNames(containerName))
			w.agree(0)
		})
	}
}

// Whatever killed it, a process leaves at most bytes that one sweep past the
// deadline removes.
func TestADeadProcessLeavesNothingPastTheDeadline(t *testing.T) {
	w := newWorld(t)
	up, err := w.Stage(t.Context(), keyOf(mintID()), strings.NewReader("one"), nil)
	require.NoError(t, err)
	up.Release()
	require.Equal(t, 1, w.blobs())
	w.sweepLater(16 * time.Minute)
	require.Zero(t, w.blobs())
	w.agree(0)
}

func TestShutdownLetsAnUploadEnd(t *testing.T) {
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- w.serve(ctx, listener) }()
	body := newHalf("on")
	answer := body.post(t.Context(), "http://"+listener.Addr().String())
	<-body.asked
	stop()
	for { // until nobody listens any more
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case err := <-served:
		t.Fatalf("did not wait for the upload: %v", err)
	default:
	}
	_, err = io.WriteString(body.rest, "e")
	require.NoError(t, err)
	require.NoError(t, body.rest.Close())
	resp := <-answer
	require.NotNil(t, resp)
	defer resp.Body.Close()
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.NoError(t, <-served)
	w.agree(1)
}

func TestServeEndsWithItsListener(t *testing.T) {
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorIs(t, w.serve(t.Context(), listener), net.ErrClosed)
}

func TestRunServesThePage(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, says := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, says, "127.0.0.1:0", "", "") }()
	line := make([]byte, 100)
	n, err := out.Read(line)
	require.NoError(t, err)
	address, found := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "listening on ")
	require.True(t, found, string(line[:n]))
	for path, kind := range map[string]string{"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", address+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Contains(t, resp.Header.Get("Content-Type"), kind)
		require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'self'")
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	require.NoError(t, <-done)
}

func TestMistakesInFlagsAreNamed(t *testing.T) {
	for says, azure := range map[string]string{
		"neither a URL nor a connection string": "AccountName=secretaccount;AccountKey=SECRETSIG",
		"blobs cannot be listed":                denying(t) + "/acct/container?sv=2020&sig=SECRETSIG",
		"create the container: 403":             "BlobEndpoint=" + denying(t) + "/acct;SharedAccessSignature=sv=2020&sig=SECRETSIG",
	} {
		err := run(t.Context(), io.Discard, "127.0.0.1:0", "", azure)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "SECRETSIG")
	}
}

func denying(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ms-error-code", "AuthorizationFailure")
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The handlers once more, on the services that make test starts.
func TestOnRealServices(t *testing.T) {
	db, azure := testenv.Lookup(t, "PostgreSQL", testenv.PostgresEnv), testenv.Lookup(t, "Azurite", testenv.AzuriteEnv)
	s, err := open(t.Context(), db, azure, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	w := &world{t: t, service: s, handler: s.routes()}
	defer w.close()
	defer func() {
		_, err := w.db.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE documents")
		require.NoError(t, err)
	}()
	for size, want := range map[int]string{3: "one", 9 << 20: "in blocks"} {
		text := string(bytes.Repeat([]byte(want), size/len(want)+1)[:size])
		d := w.create(strings.ReplaceAll(want, " ", "+"), text, "Idempotency-Key", want)
		require.Equal(t, d, w.create(strings.ReplaceAll(want, " ", "+"), text, "Idempotency-Key", want))
		require.Equal(t, text, w.bytes(d))
		require.Equal(t, text[1:3], w.do("GET", "/documents/"+d.ID, nil, "Range", "bytes=1-2").Body.String())
		rec := w.do("PUT", "/documents/"+d.ID+"?title=b", strings.NewReader("two"), "If-Match", d.Version.ETag())
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		rec = w.do("PUT", "/documents/"+d.ID+"?title=c", strings.NewReader("three"), "If-Match", d.Version.ETag())
		require.Equal(t, http.StatusPreconditionFailed, rec.Code, rec.Body)
	}
	list, err := w.listDocuments(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, list[0].ID > list[1].ID, "the newest first")
	for _, d := range list {
		require.Equal(t, http.StatusNoContent, w.do("DELETE", "/documents/"+d.ID, nil, "If-Match", d.Version.ETag()).Code)
	}
	list, err = w.listDocuments(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, list)
}
