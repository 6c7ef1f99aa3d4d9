package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
)

const containerName = "documents"

// world is the service on stores that a test can look into, with a database
// clock that it can move.
type world struct {
	*service
	t       *testing.T
	azure   *azfake.Server
	handler http.Handler
	later   atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, azure: azfake.New(nil), service: &service{log: slog.New(slog.DiscardHandler), maxSize: 1 << 20}}
	t.Cleanup(w.close)
	dialect, err := w.openDB(filepath.Join(t.TempDir(), "documents.db"))
	require.NoError(t, err)
	client, err := w.azure.ContainerClient(containerName, nil)
	require.NoError(t, err)
	require.NoError(t, w.join(t.Context(), dialect, &sqlstore.Options{
		TestClockOffset: func() time.Duration { return time.Duration(w.later.Load()) },
	}, client))
	w.handler = w.routes()
	return w
}

// do is one request; headers are name, value, ….
func (w *world) do(method, target string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(w.t.Context(), method, target, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec
}

func (w *world) create(title, text string, headers ...string) document {
	w.t.Helper()
	rec := w.do("POST", "/documents?title="+title, strings.NewReader(text), headers...)
	require.Equal(w.t, http.StatusCreated, rec.Code, rec.Body)
	return w.decode(rec)
}

func (w *world) decode(rec *httptest.ResponseRecorder) (d document) {
	w.t.Helper()
	require.NoError(w.t, json.Unmarshal(rec.Body.Bytes(), &d), rec.Body)
	return d
}

func (w *world) problem(rec *httptest.ResponseRecorder) (p problem) {
	w.t.Helper()
	require.NoError(w.t, json.Unmarshal(rec.Body.Bytes(), &p), rec.Body)
	require.NotEmpty(w.t, p.Error)
	return p
}

// bytes is what the document reads as now.
func (w *world) bytes(d document) string {
	w.t.Helper()
	rec := w.do("GET", "/documents/"+d.ID, nil)
	require.Equal(w.t, http.StatusOK, rec.Code, rec.Body)
	return rec.Body.String()
}

// blobs counts what is in the container, the library's own apart.
func (w *world) blobs() (n int) {
	for name := range w.azure.InspectFacts(containerName) {
		if !strings.HasPrefix(name, "documents/_blobtx/") {
			n++
		}
	}
	return n
}

// agree compares rows, objects and blobs; nothing may be under way.
func (w *world) agree(documents int) {
	w.t.Helper()
	rows, err := w.listDocuments(w.t.Context(), "", 1000)
	require.NoError(w.t, err)
	require.Len(w.t, rows, documents)
	objects := map[string]document{}
	for o, err := range w.List(w.t.Context(), nil) {
		require.NoError(w.t, err)
		objects[idOf(o.Key)] = documentOf(o)
	}
	require.Len(w.t, objects, documents)
	for _, row := range rows {
		require.Equal(w.t, objects[row.ID], row)
	}
	client, err := w.azure.ContainerClient(containerName, nil)
	require.NoError(w.t, err)
	blobs, err := azstore.New(client, &azstore.Options{Prefix: "documents/"})
	require.NoError(w.t, err)
	blobtxtest.Check(w.t, w.rows, blobs)
}

// sweepLater lets all deadlines pass on the database's clock, and sweeps once.
func (w *world) sweepLater(d time.Duration) {
	w.t.Helper()
	w.later.Add(int64(d))
	_, err := w.Sweep(w.t.Context(), nil)
	require.NoError(w.t, err)
}

// unsized hides a reader's length, as a client does that sends in chunks.
func unsized(text string) io.Reader { return struct{ io.Reader }{bytes.NewReader([]byte(text))} }
