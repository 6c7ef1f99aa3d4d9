package store

import (
	"errors"
	"fmt"
)

// The errors, acted on by identity with errors.Is. Their texts are for people
// and may change.
var (
	// ErrNotFound: no object, or no intent any more (an outcome is remembered until its retention ends).
	ErrNotFound = errors.New("not found")
	// ErrExists: there is already something where absence was wanted.
	ErrExists = errors.New("already exists")
	// ErrConflict: the object is not what the condition wanted; see ConflictError.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: bad input, refused before anything was written.
	ErrInvalid = errors.New("invalid")
	// ErrSetup: the database or the container is not ready: not migrated, a newer schema, no such container, a permission missing. The text names the remedy.
	ErrSetup = errors.New("not set up")

	// ErrNewerSchema: the database was migrated by a later release. It is also ErrSetup.
	ErrNewerSchema = fmt.Errorf("the schema is newer than this library: %w", ErrSetup)

	// ErrIntentLost: the upload was abandoned, because it was too slow or was aborted. Start again with a new intent.
	ErrIntentLost = errors.New("intent lost: the upload was abandoned")
	// ErrTakenOver: a retry with the same idempotency key, an Attach or an Outcome took the intent over. What becomes of it is not known here.
	ErrTakenOver = errors.New("intent taken over by a later attempt")
	// ErrIdempotencyReuse: the idempotency key was used for another request: other bytes or another condition.
	ErrIdempotencyReuse = errors.New("idempotency key reused for a different request")
	// ErrHeld: the intent waits for a person's decision (a guard refused, or a restored database).
	ErrHeld = errors.New("intent held for a decision")

	// ErrBodyMismatch: the body is not what was declared: its size or its SHA-256.
	ErrBodyMismatch = errors.New("body differs from what was declared")
	// ErrForeignBlob: under that name is a blob that is not ours.
	ErrForeignBlob = errors.New("foreign blob")
	// ErrBlobNotFound: there is no blob under that name.
	ErrBlobNotFound = errors.New("blob not found")
	// ErrGuardRefused: the blob store refused, because the blob is not in the state or not of the intent that the guard names.
	ErrGuardRefused = errors.New("refused by the guard")
	// ErrCorrupt: an object without its bytes: they are missing or different.
	ErrCorrupt = errors.New("object without its bytes")

	// ErrOutcomeUnknown: the request may or may not have taken effect. Settle, or the sweeper, finds out.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrNotCommitted: settled: not committed, and no attempt made before this answer ever will be.
	ErrNotCommitted = errors.New("not committed")
	// ErrAlreadyCommitted: this intent was committed before; the caller's own rows went in with it then. Roll back.
	ErrAlreadyCommitted = errors.New("already committed")
	// ErrTxUnusable: the transaction can no longer be trusted, or cannot see the upload. Roll back.
	ErrTxUnusable = errors.New("transaction unusable: roll back")
	// ErrWrongStore: the database and the container do not belong together.
	ErrWrongStore = errors.New("wrong store")
	// ErrBusy: a lock or a connection was not to be had within the bound, or contention outlasted the retries. Nothing was changed.
	ErrBusy = errors.New("busy")
)

// ConflictError is ErrConflict with the facts: what was wanted and what is
// there. It is also ErrExists where absence was wanted, and ErrNotFound where
// the object is gone.
type ConflictError struct {
	Key     string
	Want    Condition
	Current *Object // nil and not Deleted: it could not be read
	Deleted bool    // there is no object

	// Retryable: the condition held when it was looked at again, but the
	// change lost every race. Ask once more.
	Retryable bool
}

func (e *ConflictError) Error() string {
	switch {
	case e.Retryable:
		return fmt.Sprintf("conflict on %q: want %s: lost every race for the row, try again", e.Key, e.Want)
	case e.Deleted:
		return fmt.Sprintf("conflict on %q: want %s: there is no such object (deleted, or never created)", e.Key, e.Want)
	case e.Current == nil:
		return fmt.Sprintf("conflict on %q: want %s", e.Key, e.Want)
	case e.Want == IfAbsent():
		return fmt.Sprintf("conflict on %q: already exists at version %s; to replace it, use Always or IfVersion", e.Key, e.Current.Version)
	}
	return fmt.Sprintf("conflict on %q: want %s, is at version %s", e.Key, e.Want, e.Current.Version)
}

// Is makes a ConflictError match ErrConflict, and ErrExists or ErrNotFound as
// the facts have it.
func (e *ConflictError) Is(target error) bool {
	switch target {
	case ErrConflict:
		return true
	case ErrExists:
		return e.Want == IfAbsent() && !e.Deleted
	case ErrNotFound:
		return e.Deleted
	}
	return false
}

// BodyError is a failure of the caller's reader. Nothing of the body became
// readable. errors.As finds what the reader returned, *http.MaxBytesError for
// one.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "read body: " + e.Err.Error() }

// Unwrap returns the reader's error.
func (e *BodyError) Unwrap() error { return e.Err }
