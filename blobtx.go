package blobtx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/blobtx/blobtx/store"
)

// What the stores and the protocol share, under the names that applications use.
type (
	// Object is what exists: one row, ready to read.
	Object = store.Object
	// Blob is the facts of an object's bytes.
	Blob = store.Blob
	// Intent is what is promised: one upload attempt. It may be sent through a queue.
	Intent = store.Intent
	// Version is the optimistic-concurrency token of one object.
	Version = store.Version
	// Condition is what an object must be for a change to take place.
	Condition = store.Condition
	// ConflictError is ErrConflict with the current object.
	ConflictError = store.ConflictError
	// BodyError is a failure of the caller's reader.
	BodyError = store.BodyError
)

// IfAbsent holds when there is no object: create-only. It is the zero Condition.
func IfAbsent() Condition { return store.IfAbsent() }

// IfExists holds when there is an object, whatever its version.
func IfExists() Condition { return store.IfExists() }

// IfVersion holds when the object has one of these versions, at most 16.
func IfVersion(v ...Version) Condition { return store.IfVersion(v...) }

// Always holds in every case: the client wins.
func Always() Condition { return store.Always() }

// ParseETag reads a strong entity tag as Version.ETag wrote it.
func ParseETag(s string) (Version, error) { return store.ParseETag(s) }

// ParseIfMatch makes the condition for a change out of an If-Match header.
func ParseIfMatch(header string) (Condition, error) { return store.ParseIfMatch(header) }

// The errors of package store, under the same identity.
var (
	ErrNotFound         = store.ErrNotFound
	ErrExists           = store.ErrExists
	ErrConflict         = store.ErrConflict
	ErrInvalid          = store.ErrInvalid
	ErrSetup            = store.ErrSetup
	ErrNewerSchema      = store.ErrNewerSchema
	ErrIntentLost       = store.ErrIntentLost
	ErrTakenOver        = store.ErrTakenOver
	ErrIdempotencyReuse = store.ErrIdempotencyReuse
	ErrHeld             = store.ErrHeld
	ErrBodyMismatch     = store.ErrBodyMismatch
	ErrForeignBlob      = store.ErrForeignBlob
	ErrBlobNotFound     = store.ErrBlobNotFound
	ErrGuardRefused     = store.ErrGuardRefused
	ErrCorrupt          = store.ErrCorrupt
	ErrOutcomeUnknown   = store.ErrOutcomeUnknown
	ErrNotCommitted     = store.ErrNotCommitted
	ErrAlreadyCommitted = store.ErrAlreadyCommitted
	ErrTxUnusable       = store.ErrTxUnusable
	ErrWrongStore       = store.ErrWrongStore
	ErrBusy             = store.ErrBusy
)

// Options configures a Coordinator. The zero value is right for most services;
// every process over the same stores should use the same durations.
type Options struct {
	// IntentTTL is the silence after which an upload may be abandoned. A
	// keep-alive breaks the silence while the process lives. Defaults to 15 minutes.
	IntentTTL time.Duration
	// MaxPending is the longest life of an upload before its commit. Defaults to 48 hours.
	MaxPending time.Duration
	// ReadGrace is how long the blob of a replaced or deleted object stays
	// readable for those who opened it before. Defaults to 5 minutes; negative: none.
	ReadGrace time.Duration
	// Quarantine is how long the name of an abandoned upload is watched for
	// requests that land late. Defaults to 24 hours.
	Quarantine time.Duration
	// Retention is how long an outcome is remembered. Defaults to 24 hours for
	// intents with an idempotency key and 1 hour for those without.
	Retention time.Duration
	// SealLater leaves the tag flip to the sweeper, in batches, and saves a
	// request and a statement per commit.
	SealLater bool
	// BlobName derives the blob name of an intent. It must be unique for the
	// intent id and should begin with something evenly spread. Defaults to
	// random names.
	BlobName func(key, intentID string) string
	// Logger hears what went wrong and was survived. Nil: silent.
	Logger *slog.Logger
	// OnEvent is told what happened, for metrics. It is called in the goroutine
	// that did it and must not block.
	OnEvent func(context.Context, Event)
}

// Event is one thing that happened.
type Event struct {
	Kind     EventKind
	Key      string // of the object; empty for a retired blob
	IntentID string
	BlobName string
	Err      error // why, for the kinds that are failures
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventCommitted EventKind = "committed"  // Commit, CommitWith or Put made an upload an object
	EventReplayed  EventKind = "replayed"   // an idempotency key met its earlier result
	EventTakenOver EventKind = "taken-over" // a retry took an unfinished upload over
	EventAborted   EventKind = "aborted"    // fenced by Abort
	EventSealed    EventKind = "sealed"     // the blob says committed
	EventAbandoned EventKind = "abandoned"  // a sweeper cleaned up after an upload that was never committed
	EventDeleted   EventKind = "deleted"    // the blob of a replaced or deleted object is gone
	EventHeld      EventKind = "held"       // a person must decide; Err says why
	EventFailed    EventKind = "failed"     // will be tried again; Err says what
)

// The bounds on work that must not end with the caller's context. A caller
// that leaves does not make the outcome of a commit unknown.
const (
	commitBound = time.Minute      // Commit, one run of CommitWith's function, Settle
	cleanBound  = 20 * time.Second // Abort, an inline seal
	sealOwed    = 30 * time.Second // how long sweepers leave an inline seal alone
	claimLease  = 5 * time.Minute  // how long a sweeper has for one batch
)

// Coordinator runs the protocol over a pair of stores. It is safe for
// concurrent use and needs no Close: it owns no connection, and no goroutine
// but the keep-alive of the uploads in hand.
type Coordinator struct {
	rows     store.RowStore
	blobs    store.BlobStore
	opts     Options
	random   entropy
	instance string // prefix of the holders that this process gives
	ready    atomic.Bool
	seals    groupCommit
}

// New returns a Coordinator. It does no I/O; Check does. ErrInvalid: a store is
// nil, a duration is negative, or IntentTTL is above MaxPending.
func New(rows store.RowStore, blobs store.BlobStore, opts *Options) (*Coordinator, error) {
	if rows == nil || blobs == nil {
		return nil, fmt.Errorf("blobtx: new: a store is nil: %w", ErrInvalid)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"IntentTTL", &o.IntentTTL, 15 * time.Minute},
		{"MaxPending", &o.MaxPending, 48 * time.Hour},
		{"Quarantine", &o.Quarantine, 24 * time.Hour},
	} {
		if *d.value < 0 {
			return nil, fmt.Errorf("blobtx: new: %s is negative: %w", d.name, ErrInvalid)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	switch {
	case o.Retention < 0:
		return nil, fmt.Errorf("blobtx: new: Retention is negative: %w", ErrInvalid)
	case o.IntentTTL > o.MaxPending:
		return nil, fmt.Errorf("blobtx: new: IntentTTL %s is above MaxPending %s: %w", o.IntentTTL, o.MaxPending, ErrInvalid)
	case o.ReadGrace == 0:
		o.ReadGrace = 5 * time.Minute
	case o.ReadGrace < 0:
		o.ReadGrace = 0
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{rows: rows, blobs: blobs, opts: o, random: newEntropy()}
	c.instance = c.random.hex(instanceBytes)
	c.seals.write = rows.SettleIntents
	return c, nil
}

// made is ErrInvalid for a Coordinator that New did not make.
func (c *Coordinator) made() error {
	if c == nil || c.rows == nil {
		return fmt.Errorf("a Coordinator that New did not make: %w", ErrInvalid)
	}
	return nil
}

// Check is for start-up: it verifies the schema and, on a scratch blob, that
// everything the protocol needs works with this account and credential. ErrSetup
// names what is missing and what gives it.
func (c *Coordinator) Check(ctx context.Context) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("blobtx: check: %w", err)
	}
	if err := c.rows.Check(ctx); err != nil {
		return fmt.Errorf("blobtx: check: %w", err)
	}
	if err := c.blobs.Probe(ctx); err != nil {
		return fmt.Errorf("blobtx: check: %w", err)
	}
	c.ready.Store(true)
	return nil
}

// setup makes sure, once per process, that both stores are there before the
// first promise is written: a missing container must not leave intents behind.
func (c *Coordinator) setup(ctx context.Context) error {
	if c.ready.Load() {
		return nil
	}
	if err := c.rows.Check(ctx); err != nil {
		return err
	}
	if _, err := c.blobs.Stat(ctx, store.StatParams{Name: store.ReservedPrefix + "ready"}); err != nil && !errors.Is(err, ErrBlobNotFound) {
		return err
	}
	c.ready.Store(true)
	return nil
}

func (c *Coordinator) retention(idempotencyKey string) time.Duration {
	switch {
	case c.opts.Retention > 0:
		return c.opts.Retention
	case idempotencyKey != "":
		return 24 * time.Hour
	}
	return time.Hour
}

func (c *Coordinator) event(ctx context.Context, e Event) {
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(ctx, e)
	}
}

// opError is an error wrapped once, at the boundary: what was asked, of which
// key, by which intent.
type opError struct {
	op, key, intentID string
	err               error
}

func (e *opError) Error() string {
	if e.intentID == "" {
		return fmt.Sprintf("blobtx: %s %.200q: %v", e.op, e.key, e.err)
	}
	return fmt.Sprintf("blobtx: %s %.200q (intent %s): %v", e.op, e.key, e.intentID, e.err)
}

func (e *opError) Unwrap() error { return e.err }

func failed(op, key, intentID string, err error) error {
	if _, told := err.(*opError); err == nil || told {
		return err
	}
	return &opError{op, key, intentID, err}
}

// refused reports whether err is a decision: a store that says so has changed
// nothing. After any other error the step may have been taken.
func refused(err error) bool {
	for _, decision := range []error{ErrConflict, ErrNotFound, ErrIntentLost, ErrTakenOver, ErrHeld, ErrInvalid, ErrSetup} {
		if errors.Is(err, decision) {
			return true
		}
	}
	return false
}

// repeated takes a step whose reply may be lost, and which recognises its own
// success, up to three times.
func repeated[T any](ctx context.Context, c *Coordinator, step func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := step()
		if err == nil || refused(err) || errors.Is(err, ErrBusy) || try == 3 || !c.pause(ctx, try) {
			return v, err
		}
	}
}

// detached is a context for work that must not end with the caller's.
func detached(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), bound)
}
