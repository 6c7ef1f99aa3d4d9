package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

func TestCreate(t *testing.T) {
	w := newWorld(t)
	rec := w.do("POST", "/documents?title=a%20b.txt", strings.NewReader("ten euros"), "Content-Type", "text/plain")
	require.Equal(t, http.StatusCreated, rec.Code, rec.Body)
	d := w.decode(rec)
	require.Equal(t, "a b.txt", d.Title)
	require.Equal(t, "text/plain", d.ContentType)
	require.Equal(t, int64(9), d.Size)
	require.Equal(t, d.Version.ETag(), rec.Header().Get("ETag"))
	require.Equal(t, "/documents/"+d.ID, rec.Header().Get("Location"))
	require.Contains(t, rec.Body.String(), fmt.Sprintf(`"version":"%d"`, d.Version), "text, not a number")
	require.Equal(t, "ten euros", w.bytes(d))
	require.NotEqual(t, d.ID, w.create("a%20b.txt", "ten euros").ID, "two requests, two documents")
	w.create("empty", "")
	w.agree(3)
	for what, target := range map[string]string{
		"no title": "/documents", "a blank one": "/documents?title=%20", "a long one": "/documents?title=" + strings.Repeat("a", 201), "a line break": "/documents?title=a%0Ab",
	} {
		rec := w.do("POST", target, strings.NewReader("x"))
		require.Equal(t, http.StatusBadRequest, rec.Code, what)
		w.problem(rec)
	}
	require.Equal(t, http.StatusBadRequest, w.do("POST", "/documents?title=a", strings.NewReader("x"), "Content-Type", "a\tb").Code)
	require.Equal(t, http.StatusForbidden, w.do("POST", "/documents?title=a", strings.NewReader("x"), "Sec-Fetch-Site", "cross-site").Code)
	w.agree(3)
}

func TestRead(t *testing.T) {
	const content = "0123456789abcdefghij"
	w := newWorld(t)
	d := w.create("r%C3%A9sum%C3%A9.html", content, "Content-Type", "text/html")
	tag, target := d.Version.ETag(), "/documents/"+d.ID
	for promise, tt := range map[string]struct {
		method  string
		headers []string
		status  int
		body    string
	}{
		"the whole":                       {"GET", nil, 200, content},
		"HEAD":                            {"HEAD", nil, 200, ""},
		"a range":                         {"GET", []string{"Range", "bytes=5-9"}, 206, "56789"},
		"the last bytes":                  {"GET", []string{"Range", "bytes=-3"}, 206, "hij"},
		"If-Range that holds":             {"GET", []string{"Range", "bytes=5-9", "If-Range", tag}, 206, "56789"},
		"If-Range of another version":     {"GET", []string{"Range", "bytes=5-9", "If-Range", `"7"`}, 200, content},
		"If-Range with a weak tag":        {"GET", []string{"Range", "bytes=5-9", "If-Range", "W/" + tag}, 200, content},
		"a range past the end":            {"GET", []string{"Range", "bytes=20-"}, 416, "invalid range: failed to overlap\n"},
		"If-None-Match with this version": {"GET", []string{"If-None-Match", tag}, 304, ""},
		"If-None-Match with a weak tag":   {"GET", []string{"If-None-Match", "W/" + tag}, 304, ""},
		"If-None-Match with another":      {"GET", []string{"If-None-Match", `"7"`}, 200, content},
		"If-Match with another":           {"GET", []string{"If-Match", `"7"`}, 412, ""},
	} {
		t.Run(promise, func(t *testing.T) {
			rec := w.do(tt.method, target, nil, tt.headers...)
			require.Equal(t, tt.status, rec.Code)
			require.Equal(t, tt.body, rec.Body.String())
			if tt.status < 400 {
				require.Equal(t, tag, rec.Header().Get("ETag"))
			}
			if tt.status == http.StatusPartialContent && tt.body == "56789" {
				require.Equal(t, "bytes 5-9/20", rec.Header().Get("Content-Range"))
			}
		})
	}
	h := w.do("GET", target, nil).Header()
	require.Equal(t, "text/html", h.Get("Content-Type"))
	require.Equal(t, `attachment; filename*=utf-8''r%C3%A9sum%C3%A9.html`, h.Get("Content-Disposition"), "an upload is never a page of this site")
	require.Empty(t, h.Get("Last-Modified"), "it counts seconds")
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Contains(t, h.Get("Content-Security-Policy"), "sandbox")
	require.Equal(t, http.StatusNotFound, w.do("GET", target+"x", nil).Code)
	w.agree(1)
}

func TestReplace(t *testing.T) {
	w := newWorld(t)
	first := w.create("a", "one")
	target := "/documents/" + first.ID
	put := func(text string, headers ...string) (int, document) {
		t.Helper()
		rec := w.do("PUT", target+"?title=b", strings.NewReader(text), headers...)
		var p problem
		if rec.Code >= 400 {
			p = w.problem(rec)
			if p.Current != nil {
				require.Equal(t, p.Current.Version.ETag(), rec.Header().Get("ETag"))
				return rec.Code, *p.Current
			}
			return rec.Code, document{}
		}
		d := w.decode(rec)
		require.Equal(t, d.Version.ETag(), rec.Header().Get("ETag"))
		return rec.Code, d
	}

	status, second := put("two", "If-Match", first.Version.ETag())
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, first.ID, second.ID)
	require.Equal(t, "b", second.Title)
	require.NotEqual(t, first.Version, second.Version)
	require.Equal(t, "two", w.bytes(second))

	for what, tag := range map[string]string{"stale": first.Version.ETag(), "weak": "W/" + second.Version.ETag(), "foreign": `"0x8DC0FFEE"`} {
		status, current := put("three", "If-Match", tag)
		require.Equal(t, http.StatusPreconditionFailed, status, what)
		require.Equal(t, second, current, what)
	}
	status, _ = put("three")
	require.Equal(t, http.StatusPreconditionRequired, status)
	for _, malformed := range []string{"", "7", `"7`} {
		status, _ = put("three", "If-Match", malformed)
		require.Equal(t, http.StatusBadRequest, status, malformed)
	}
	require.Equal(t, "two", w.bytes(second))
	w.agree(1)

	status, third := put("three", "If-Match", first.Version.ETag(), "If-Match", second.Version.ETag())
	require.Equal(t, http.StatusOK, status, "a list, in two lines")
	status, fourth := put("four", "If-Match", "*")
	require.Equal(t, http.StatusOK, status)
	require.NotEqual(t, third.Version, fourth.Version)
	w.agree(1)

	require.NoError(t, w.Delete(t.Context(), keyOf(first.ID), nil))
	_, err := w.db.ExecContext(t.Context(), deleteRow, first.ID)
	require.NoError(t, err)
	for _, tag := range []string{fourth.Version.ETag(), "*"} {
		status, _ = put("five", "If-Match", tag)
		require.Equal(t, http.StatusNotFound, status, "PUT does not create")
	}
	w.agree(0)
	w.sweepLater(48 * time.Hour)
	w.sweepLater(48 * time.Hour)
	require.Zero(t, w.blobs())
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	d := w.create("a", "one")
	other := w.create("b", "two")
	target := "/documents/" + d.ID
	require.Equal(t, http.StatusPreconditionRequired, w.do("DELETE", target, nil).Code)
	require.Equal(t, http.StatusBadRequest, w.do("DELETE", target, nil, "If-Match", "7").Code)
	rec := w.do("DELETE", target, nil, "If-Match", other.Version.ETag())
	require.Equal(t, http.StatusPreconditionFailed, rec.Code)
	require.Equal(t, &d, w.problem(rec).Current)
	require.Equal(t, d.Version.ETag(), rec.Header().Get("ETag"))
	w.agree(2)

	rec = w.do("DELETE", target, nil, "If-Match", d.Version.ETag())
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Empty(t, rec.Body.String())
	require.Equal(t, http.StatusNotFound, w.do("GET", target, nil).Code)
	require.Equal(t, http.StatusNotFound, w.do("DELETE", target, nil, "If-Match", d.Version.ETag()).Code)
	require.Equal(t, http.StatusNotFound, w.do("DELETE", target, nil, "If-Match", "*").Code)
	w.agree(1)
	require.Equal(t, http.StatusNoContent, w.do("DELETE", "/documents/"+other.ID, nil, "If-Match", "*").Code)
	w.agree(0)
}

func TestList(t *testing.T) {
	w := newWorld(t)
	page := func(query string) (titles []string, next string) {
		t.Helper()
		rec := w.do("GET", "/documents?"+query, nil)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		var body struct {
			Documents []document
			Next      string
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
		require.NotContains(t, rec.Body.String(), "null")
		for _, d := range body.Documents {
			titles = append(titles, d.Title)
		}
		return titles, body.Next
	}
	titles, next := page("")
	require.Empty(t, titles)
	require.Empty(t, next)

	var all []string
	for i := range 5 {
		w.create(fmt.Sprint(i), "x")
	}
	for after := ""; ; {
		titles, next := page("limit=2&after=" + after)
		all = append(all, titles...)
		if next == "" {
			require.Len(t, titles, 1)
			break
		}
		require.Len(t, titles, 2)
		after = next
	}
	require.ElementsMatch(t, []string{"0", "1", "2", "3", "4"}, all, "each once")
	titles, next = page("limit=5")
	require.Equal(t, all, titles)
	require.Empty(t, next, "the last page is full")
	for _, limit := range []string{"0", "-1", "101", "x"} {
		require.Equal(t, http.StatusBadRequest, w.do("GET", "/documents?limit="+limit, nil).Code)
	}
}

func TestTooLarge(t *testing.T) {
	w := newWorld(t)
	fits := strings.Repeat("x", int(w.maxSize))
	d := w.create("fits", fits)
	require.Equal(t, int64(len(fits)), d.Size)
	for _, target := range []string{"POST /documents", "PUT /documents/" + d.ID} {
		method, path, _ := strings.Cut(target, " ")
		told := strings.NewReader(fits + "x")
		for _, body := range []io.Reader{told, unsized(fits + "x")} {
			rec := w.do(method, path+"?title=a", body, "If-Match", "*")
			require.Equal(t, http.StatusRequestEntityTooLarge, rec.Code, target)
			require.Contains(t, w.problem(rec).Error, fmt.Sprint(len(fits)))
		}
		require.Equal(t, len(fits)+1, told.Len(), "its length was told, and it was read for nothing")
	}
	w.agree(1)
	require.Equal(t, 1, w.blobs(), "what did not fit was removed at once")
	require.Equal(t, http.StatusCreated, w.do("POST", "/documents?title=b", unsized(fits)).Code)
	w.agree(2)
}

// If the row cannot be written, there is no object either, and no blob.
func TestRowAndObjectCommitTogether(t *testing.T) {
	w := newWorld(t)
	first := w.create("a", "one")
	for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
		_, err := w.db.ExecContext(t.Context(), "CREATE TRIGGER refuse_"+event+" BEFORE "+event+" ON documents BEGIN SELECT RAISE(ABORT, 'not today'); END")
		require.NoError(t, err)
	}
	var log strings.Builder
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, rec := range []int{
		w.do("POST", "/documents?title=b", strings.NewReader("two")).Code,
		w.do("PUT", "/documents/"+first.ID+"?title=b", strings.NewReader("two"), "If-Match", first.Version.ETag()).Code,
		w.do("DELETE", "/documents/"+first.ID, nil, "If-Match", first.Version.ETag()).Code,
	} {
		require.Equal(t, http.StatusInternalServerError, rec)
	}
	require.Equal(t, 3, strings.Count(log.String(), "not today"), "an operator must see why")
	require.Equal(t, "one", w.bytes(first))
	require.Equal(t, 1, w.blobs())
	w.agree(1)
}

// The answers to what no client can bring about at will.
func TestWhatErrorsStandFor(t *testing.T) {
	w := newWorld(t)
	unknown := errors.Join(blobtx.ErrOutcomeUnknown, blobtx.ErrBusy)
	for _, tt := range []struct {
		err    error
		status int
	}{
		{unknown, http.StatusServiceUnavailable},
		{blobtx.ErrBusy, http.StatusServiceUnavailable},
		{&blobtx.ConflictError{Key: "documents/a", Retryable: true, Current: &blobtx.Object{Key: "documents/a"}}, http.StatusServiceUnavailable},
		{&blobtx.ConflictError{Key: "documents/a"}, http.StatusPreconditionFailed},
		{blobtx.ErrIntentLost, http.StatusRequestTimeout},
		{blobtx.ErrTakenOver, http.StatusConflict},
		{blobtx.ErrAlreadyCommitted, http.StatusConflict},
		{blobtx.ErrBodyMismatch, http.StatusBadRequest},
		{&blobtx.BodyError{Err: io.ErrUnexpectedEOF}, http.StatusBadRequest},
		{blobtx.ErrCorrupt, http.StatusInternalServerError},
		{blobtx.ErrHeld, http.StatusInternalServerError},
		{errors.New("password=secret"), http.StatusInternalServerError},
	} {
		status, p := w.explain(fmt.Errorf("blobtx: commit: %w", tt.err))
		require.Equal(t, tt.status, status, tt.err)
		require.NotEmpty(t, p.Error)
		require.NotContains(t, p.Error, "secret")
		require.Nil(t, p.Current)
	}
	_, p := w.explain(unknown)
	require.Contains(t, p.Error, "not known", "unknown is never told as nothing was changed")
}
