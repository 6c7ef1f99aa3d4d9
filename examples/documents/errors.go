package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/blobtx/blobtx"
)

// refusal is an answer that needs no error of blobtx.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

// problem is the body of every answer that is not a success.
type problem struct {
	Error   string    `json:"error"`
	Current *document `json:"current,omitempty"` // with 412: what is there now
}

// fail answers with the status that an error stands for. Acting on identity, it
// needs to know nothing of what went on inside.
func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, p := s.explain(err)
	switch {
	case p.Current != nil:
		w.Header().Set("ETag", p.Current.Version.ETag())
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case status == http.StatusInternalServerError:
		s.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if err := answerJSON(w, status, p); err != nil {
		s.log.ErrorContext(r.Context(), "answer failed", "error", err)
	}
}

func (s *service) explain(err error) (status int, p problem) {
	var refused *refusal
	var tooLarge *http.MaxBytesError
	var body *blobtx.BodyError
	var conflict *blobtx.ConflictError
	conflicted := errors.As(err, &conflict)
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case errors.As(err, &refused):
		return refused.status, problem{Error: refused.text}
	case errors.As(err, &tooLarge): // inside a BodyError
		return http.StatusRequestEntityTooLarge, problem{Error: fmt.Sprintf("a document has at most %d bytes", tooLarge.Limit)}
	case errors.As(err, &body), is(blobtx.ErrBodyMismatch): // whoever sent it has probably left
		return http.StatusBadRequest, problem{Error: "the body ended early"}
	case is(blobtx.ErrOutcomeUnknown):
		return http.StatusServiceUnavailable, problem{Error: "it is not known whether it was done; ask again with the same Idempotency-Key"}
	case is(blobtx.ErrIdempotencyReuse):
		return http.StatusUnprocessableEntity, problem{Error: "this Idempotency-Key was used for another request"}
	case is(blobtx.ErrTakenOver), is(blobtx.ErrAlreadyCommitted):
		return http.StatusConflict, problem{Error: "a later request with the same Idempotency-Key took over; its answer counts"}
	case is(blobtx.ErrIntentLost):
		return http.StatusRequestTimeout, problem{Error: "too slow; nothing was stored, start again"}
	case is(blobtx.ErrBusy), s.rows.Retryable(err), conflicted && conflict.Retryable:
		return http.StatusServiceUnavailable, problem{Error: "busy; nothing was changed, try again"}
	case is(blobtx.ErrNotFound): // a conflict with a deletion is one, too
		return http.StatusNotFound, problem{Error: "there is no such document"}
	case conflicted:
		p.Error = "the document has changed since you saw it"
		if conflict.Current != nil {
			current := documentOf(*conflict.Current)
			p.Current = &current
		}
		return http.StatusPreconditionFailed, p
	case is(blobtx.ErrInvalid):
		return http.StatusBadRequest, problem{Error: err.Error()}
	}
	return http.StatusInternalServerError, problem{Error: "something went wrong"}
}
