package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/json"
	"io/fs"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/blobtx/blobtx"
)

//go:embed page
var pageFiles embed.FS

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	handle("POST /documents", s.create)
	handle("GET /documents", s.list)
	handle("GET /documents/{id}", s.read) // and HEAD
	handle("PUT /documents/{id}", s.replace)
	handle("DELETE /documents/{id}", s.remove)
	mux.Handle("GET /", servePage())
	// Another site's page in the same browser may not write here.
	return http.NewCrossOriginProtection().Handler(mux)
}

func servePage() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the folder's name above is wrong
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-cache")
		serve.ServeHTTP(w, r)
	})
}

// create stores a new document. The id is the server's: a client that never saw
// the answer asks again with the same Idempotency-Key and is told the first one.
func (s *service) create(w http.ResponseWriter, r *http.Request) error {
	d, err := s.save(w, r, mintID(), blobtx.IfAbsent())
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/documents/"+d.ID)
	return answer(w, http.StatusCreated, d)
}

// mintID makes ids that sort by their time.
func mintID() string {
	return strconv.FormatInt(time.Now().UnixMilli(), 36) + strings.ToLower(rand.Text()[:16])
}

// replace stores other bytes, and a title, for the version the client saw.
func (s *service) replace(w http.ResponseWriter, r *http.Request) error {
	want, err := ifMatch(r)
	if err != nil {
		return err
	}
	d, err := s.save(w, r, r.PathValue("id"), want)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, d)
}

// read serves one version of the bytes: whole, in ranges, or 304.
func (s *service) read(w http.ResponseWriter, r *http.Request) error {
	file, err := s.Open(r.Context(), keyOf(r.PathValue("id")), nil)
	if err != nil {
		return err
	}
	defer file.Close()
	o := file.Object()
	h := w.Header()
	h.Set("ETag", o.Version.ETag())
	h.Set("Cache-Control", "no-cache") // ask each time; 304 is cheap
	h.Set("Content-Type", o.Blob.ContentType)
	// Whatever was uploaded is a file to keep, never a page of this site.
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": o.Metadata["title"]}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	// No Last-Modified: two versions may be of one second, and no two have one tag.
	http.ServeContent(w, r, "", time.Time{}, file)
	return nil
}

// remove deletes the version that the client saw, and its row with it.
func (s *service) remove(w http.ResponseWriter, r *http.Request) error {
	want, err := ifMatch(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	err = s.rows.InTx(r.Context(), nil, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.DeleteTx(ctx, s.rows.Tx(tx), keyOf(id), &blobtx.DeleteOptions{If: want}); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, deleteRow, id)
		return err
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// list gives one page, and where the next one begins.
func (s *service) list(w http.ResponseWriter, r *http.Request) error {
	limit := 20
	if text := r.FormValue("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 100 {
			return &refusal{http.StatusBadRequest, "limit is a number from 1 to 100"}
		}
	}
	list, err := s.listDocuments(r.Context(), r.FormValue("after"), limit+1) // one more tells whether there are more
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID
	}
	w.Header().Set("Cache-Control", "no-store")
	return answerJSON(w, http.StatusOK, map[string]any{"documents": list, "next": next})
}

// ifMatch is the condition of a change. Without one, the change of somebody
// else would be overwritten unseen, so it is asked for (RFC 6585, section 3).
func ifMatch(r *http.Request) (blobtx.Condition, error) {
	lines := r.Header.Values("If-Match")
	if len(lines) == 0 {
		return blobtx.Condition{}, &refusal{http.StatusPreconditionRequired, "name the version you saw: If-Match with its ETag"}
	}
	return blobtx.ParseIfMatch(strings.Join(lines, ","))
}

func answer(w http.ResponseWriter, status int, d document) error {
	w.Header().Set("ETag", d.Version.ETag())
	return answerJSON(w, status, d)
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has left
	return nil
}
