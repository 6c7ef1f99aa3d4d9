package blobtx_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

// serve is what an application's download handler looks like.
func serve(w *world) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := w.Open(r.Context(), "k", nil)
		if err != nil {
			http.Error(rw, "no such object", http.StatusNotFound)
			return
		}
		defer body.Close()
		o := body.Object()
		rw.Header().Set("ETag", `"`+o.Version.String()+`"`)
		rw.Header().Set("Content-Type", o.Blob.ContentType)
		http.ServeContent(rw, r, "", o.UpdatedAt, body)
	}
}

func TestServeContent(t *testing.T) {
	const content = "0123456789abcdefghij"
	for promise, tt := range map[string]struct {
		method  string
		header  map[string]string
		ifRange func(etag string) string
		status  int
		body    string
		reads   int // requests to the blob store
	}{
		"the whole":                      {"GET", nil, nil, 200, content, 1},
		"a range":                        {"GET", map[string]string{"Range": "bytes=5-9"}, nil, 206, content[5:10], 1},
		"from an offset on":              {"GET", map[string]string{"Range": "bytes=15-"}, nil, 206, content[15:], 1},
		"the last bytes":                 {"GET", map[string]string{"Range": "bytes=-3"}, nil, 206, content[17:], 1},
		"a range past the end":           {"GET", map[string]string{"Range": "bytes=20-"}, nil, 416, "", 0},
		"If-Range that holds":            {"GET", map[string]string{"Range": "bytes=0-1"}, func(etag string) string { return etag }, 206, "01", 1},
		"If-Range of another version":    {"GET", map[string]string{"Range": "bytes=0-1"}, func(string) string { return `"1"` }, 200, content, 1},
		"HEAD asks nothing of the blobs": {"HEAD", nil, nil, 200, "", 0},
		"If-None-Match that holds":       {"GET", map[string]string{"If-None-Match": "*"}, nil, 304, "", 0},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w, p := tapped(t, nil)
			o := w.put("k", content, &blobtx.PutOptions{ContentType: "text/x"})
			p.steps()
			r := httptest.NewRequestWithContext(t.Context(), tt.method, "/", nil)
			for name, value := range tt.header {
				r.Header.Set(name, value)
			}
			etag := `"` + o.Version.String() + `"`
			if tt.ifRange != nil {
				r.Header.Set("If-Range", tt.ifRange(etag))
			}
			rec := httptest.NewRecorder()
			serve(w)(rec, r)
			require.Equal(t, tt.status, rec.Code)
			if tt.status != 416 { // net/http drops the one and writes a text for the other
				require.Equal(t, etag, rec.Header().Get("ETag"))
				require.Equal(t, tt.body, rec.Body.String())
			}
			require.Equal(t, tt.reads, p.steps()["open blob"])
		})
	}
	inBubble(t, "several ranges", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", content, nil)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("Range", "bytes=0-1,10-11")
		rec := httptest.NewRecorder()
		serve(w)(rec, r)
		require.Equal(t, 206, rec.Code)
		require.Contains(t, rec.Body.String(), "\r\n\r\n01\r\n")
		require.Contains(t, rec.Body.String(), "\r\n\r\nab\r\n")
	})
	inBubble(t, "an empty object", func(t *testing.T) {
		w := plain(t, nil)
		w.put("k", "", nil)
		rec := httptest.NewRecorder()
		serve(w)(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		require.Equal(t, 200, rec.Code)
		require.Equal(t, "0", rec.Header().Get("Content-Length"))
	})
	inBubble(t, "a broken connection to the blob store in the middle", func(t *testing.T) {
		w, p := tapped(t, nil)
		w.put("k", content, nil)
		p.bodies = func(b io.ReadCloser) io.ReadCloser { return &torn{b, 7, errWire} }
		rec := httptest.NewRecorder()
		serve(w)(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		require.Equal(t, content, rec.Body.String())
	})
	// ServeContent has sent the length by then: all it can do is to send less.
	inBubble(t, "wrong bytes never arrive complete", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", content, nil)
		w.lie(o, strings.ToUpper(content))
		rec := httptest.NewRecorder()
		serve(w)(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		require.Less(t, rec.Body.Len(), len(content))
	})
}
