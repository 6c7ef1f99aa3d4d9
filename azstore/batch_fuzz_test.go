package azstore

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

const batchType = "multipart/mixed; boundary=b"

// goodBatch is an answer to three deletes: done, absent, refused by the guard.
const goodBatch = "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\nx-ms-version: 2026\r\nContent-Length: 0\r\n\r\n" +
	"\r\n--b\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\nHTTP/1.1 404 The specified blob does not exist.\r\nx-ms-error-code: BlobNotFound\r\nContent-Length: 0\r\n\r\n" +
	"\r\n--b\r\nContent-Type: application/http\r\nContent-ID: 2\r\n\r\nHTTP/1.1 412 Precondition Failed\r\nx-ms-error-code: ConditionNotMet\r\nContent-Length: 0\r\n\r\n" +
	"\r\n--b--\r\n"

// scripted answers a batch as it is told, and nothing else.
type scripted struct {
	status      int
	contentType string
	body        []byte
}

func (s scripted) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if r.URL.Query().Get("comp") != "batch" {
		return nil, errors.New("connection lost")
	}
	return &http.Response{
		StatusCode: s.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {s.contentType}}, Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body)),
	}, nil
}

// answers reads a batch reply as far as it can be read: per element, what each
// of its parts says.
func (s scripted) answers() map[int][]error {
	said := map[int][]error{}
	_, params, err := mime.ParseMediaType(s.contentType)
	if err != nil {
		return said
	}
	for parts := multipart.NewReader(bytes.NewReader(s.body), params["boundary"]); ; {
		part, err := parts.NextPart()
		if err != nil {
			return said
		}
		id, noID := strconv.Atoi(strings.TrimSpace(part.Header.Get("Content-ID")))
		text, err := io.ReadAll(part)
		if err != nil {
			return said
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(text, '\n'))), nil)
		if err != nil || noID != nil {
			continue
		}
		_ = resp.Body.Close()
		said[id] = append(said[id], meaning(resp))
	}
}

var errNothing = errors.New("an answer that decides nothing")

func meaning(r *http.Response) error {
	code := r.Header.Get("x-ms-error-code")
	switch {
	case r.StatusCode >= 200 && r.StatusCode < 300:
		return nil
	case r.StatusCode == 404:
		return store.ErrBlobNotFound
	case r.StatusCode == 412 && (code == "" || code == "ConditionNotMet"): // the code may be in the body
		return store.ErrGuardRefused
	}
	return errNothing
}

// FuzzBatchReply: whatever answers a batch, a delete is reported as done, absent
// or refused only if the answer says so of this very element and says nothing
// else of it; and nothing panics.
func FuzzBatchReply(f *testing.F) {
	add := func(body string) { f.Add(202, batchType, []byte(body)) }
	add(goodBatch)
	for i := range len(goodBatch) / 8 {
		add(goodBatch[:i*8]) // cut anywhere
	}
	for _, id := range []string{"-1", "3", "99999999999999999999", "x", "", "0", "1", " 1 ", "+1"} {
		add(strings.Replace(goodBatch, "Content-ID: 2", "Content-ID: "+id, 1))
	}
	add(strings.Replace(goodBatch, "Content-ID: 2\r\n", "", 1))
	add(strings.ReplaceAll(goodBatch, "HTTP/1.1 202", "HTTP/1.1 999"))
	add(strings.ReplaceAll(goodBatch, "HTTP/1.1 202", "HTTP/1.1 100"))
	add(strings.ReplaceAll(goodBatch, "Content-Length: 0", "Content-Length: 7"))
	add(strings.ReplaceAll(goodBatch, "Content-ID: 1", "Content-ID: 0"))
	f.Add(202, "multipart/mixed", []byte(goodBatch))
	f.Add(202, "text/html", []byte("<html>a proxy</html>"))
	f.Add(200, batchType, []byte(goodBatch))
	f.Add(400, batchType, []byte(goodBatch))
	f.Add(500, "application/xml", []byte("<Error><Code>InternalError</Code></Error>"))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		if status < 100 || status > 999 {
			return // not HTTP
		}
		answer := scripted{status, contentType, body}
		c, err := container.NewClientWithNoCredential("https://account.example/c", &container.ClientOptions{
			ClientOptions: policy.ClientOptions{Transport: answer, Retry: policy.RetryOptions{MaxRetries: -1}},
		})
		require.NoError(t, err)
		s, err := New(c, nil)
		require.NoError(t, err)
		said := answer.answers()
		for i, err := range s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: "i"}, {Name: "b", IntentID: "i"}, {Name: "c", IntentID: "i"}}) {
			if !isFinal(err) {
				continue
			}
			require.Equal(t, http.StatusAccepted, status)
			require.Len(t, said[i], 1, "element %d: %v", i, err)
			require.ErrorIs(t, err, said[i][0], "element %d", i)
		}
	})
}

// What the fuzzing compares with is not empty: a good answer is believed.
func TestABatchReplyIsBelieved(t *testing.T) {
	said := scripted{202, batchType, []byte(goodBatch)}.answers()
	require.Equal(t, map[int][]error{0: {nil}, 1: {store.ErrBlobNotFound}, 2: {store.ErrGuardRefused}}, said)
}
