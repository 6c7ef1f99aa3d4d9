package faultstore

import (
	"context"
	"errors"
	"time"

	"github.com/blobtx/blobtx/store"
)

var (
	// ErrLost is what the caller sees of a request or a reply that was lost. It
	// is never driver.ErrBadConn, on which database/sql would retry by itself.
	ErrLost = errors.New("faultstore: connection lost")

	// ErrDead is what every call of a dead process returns, without effect.
	ErrDead = errors.New("faultstore: the process is dead")
)

// Op is one step that is about to be taken.
type Op struct {
	Store   string // "rows", "blobs", "tx" (a transaction of package memstore's kind) or "sql"
	Name    string // what is asked for: "insert intent", "create blob", "COMMIT", a statement
	Subject string // which object, intent or blob; several are joined with spaces

	// Write: the effect outlives a connection that breaks, so that losing the
	// reply, and arriving late, are not the same as losing the request. A
	// statement inside a transaction is no Write: a broken connection rolls it
	// back. Its COMMIT is one.
	Write bool
	// Parts: it may also break in the middle (Midway).
	Parts bool

	// TxDone, if not nil, is closed when the context ends that the statement's
	// transaction was begun with. database/sql then waits, with a mutex, for the
	// statement to return, to roll back: an injector that holds callers in a
	// testing/synctest bubble must let this one go.
	TxDone <-chan struct{}
}

// Kind is what happens at a step.
type Kind uint8

// The kinds.
const (
	// Proceed: nothing goes wrong.
	Proceed Kind = iota
	// FailBefore: the request is lost. Nothing is applied.
	FailBefore
	// LoseReply: the request is applied and the caller does not learn it.
	LoseReply
	// Late: the caller is told ErrLost now; Fault.Late gets the request, to be
	// applied at any later time, or never.
	Late
	// Midway: a body breaks after its first byte and nothing becomes readable; a
	// read ends half-way; of a batch the first half is applied.
	Midway
	// Die: the process ends before the step is taken.
	Die
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case Proceed:
		return "proceeds"
	case FailBefore:
		return "request lost"
	case LoseReply:
		return "applied, reply lost"
	case Late:
		return "delayed"
	case Midway:
		return "breaks in the middle"
	case Die:
		return "the process dies"
	}
	return "unknown"
}

// Fault is the injector's decision about one step. The zero value lets it
// proceed.
type Fault struct {
	Kind Kind

	// Delay is waited before anything else, or until the context ends.
	Delay time.Duration

	// Context, if set, is what the underlying store gets instead of the
	// caller's. Without it, Proceed passes the caller's on, and a step whose
	// reply is lost or that arrives late does not end with the caller.
	Context context.Context

	// Late receives the request of a Late fault. Nil: it never arrives.
	Late func(Message)

	// Told, if set, is called in the caller's goroutine with what the caller is
	// about to be told. Of a database/sql driver it is that driver's own result.
	Told func(reply any, err error)
}

// Message is a request that is still on its way.
type Message struct {
	Op    Op
	Apply func() // it arrives; waits where the store waits
	Drop  func() // it never will; a transaction whose COMMIT it was is rolled back
}

// An Injector decides about every step. Step may block: the caller waits. It
// is called by many goroutines at once.
type Injector interface {
	Step(ctx context.Context, op Op) Fault
}

// InjectorFunc is a function as an Injector.
type InjectorFunc func(ctx context.Context, op Op) Fault

// Step calls f.
func (f InjectorFunc) Step(ctx context.Context, op Op) Fault { return f(ctx, op) }

// tell reports what the caller is told, and passes the error on.
func (f *Fault) tell(reply any, err error) error {
	if f.Told != nil {
		f.Told(reply, err)
	}
	return err
}

// late hands a message over. Nobody to take it: it never arrives.
func (f *Fault) late(m Message) {
	if f.Late == nil {
		m.Drop()
		return
	}
	f.Late(m)
}

// begin asks the injector and waits out the delay. The contexts are for a step
// whose caller waits for it, and for one whose caller has been told ErrLost.
func begin(ctx context.Context, in Injector, op Op) (f Fault, waited, unheard context.Context) {
	f = in.Step(ctx, op)
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if f.Context != nil {
		return f, f.Context, f.Context
	}
	if f.Kind == Proceed {
		return f, ctx, nil
	}
	return f, ctx, context.WithoutCancel(ctx)
}

// call takes one step under the injector.
func call[T any](ctx context.Context, in Injector, op Op, do func(ctx context.Context) (T, error)) (T, error) {
	f, waited, unheard := begin(ctx, in, op)
	var none T
	switch f.Kind {
	case Proceed:
		v, err := do(waited)
		if f.Told != nil {
			f.Told(v, err)
		}
		return v, err
	case Die:
		return none, f.tell(nil, ErrDead)
	case LoseReply:
		_, _ = do(unheard)
	case Late:
		f.late(Message{Op: op, Apply: func() { _, _ = do(unheard) }, Drop: func() {}})
	}
	return none, f.tell(nil, ErrLost)
}

// each joins what steps are about, without allocating for a single one.
func each[T any](items []T, name func(*T) string) string {
	if len(items) == 1 {
		return name(&items[0])
	}
	var joined []byte
	for i := range items {
		if i > 0 {
			joined = append(joined, ' ')
		}
		joined = append(joined, name(&items[i])...)
	}
	return string(joined)
}

var _ store.RowStore = (*rows)(nil)
var _ store.BlobStore = (*blobs)(nil)
