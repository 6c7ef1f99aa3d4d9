package store

import (
	"context"
	"time"
)

// RowStore keeps objects, intents and retired names in one database.
//
// Every method is one step: atomic, durable when it returns nil, and
// repeatable: called again after an error it recognises its own earlier
// success, as its comment says. All deadlines are set and compared on the
// database's own clock, at statement time. A method that waits for a lock or
// a connection waits a bounded time and then returns ErrBusy. Any method may
// return ErrSetup when the schema is missing or newer than the code, and any
// error not named here, after which it is unknown whether the step was taken.
//
// Steps are the same for callers and sweepers in any number of processes. A
// RowStore is safe for concurrent use.
type RowStore interface {
	// The three steps of RowTx, each here in a transaction of its own, retried
	// a bounded number of times when the database says it was not at fault
	// (deadlock, serialization failure).
	RowTx

	// Check returns ErrSetup when the schema is absent, or newer than the code.
	// It writes nothing.
	Check(ctx context.Context) error

	// InsertIntent records a promise: state uploading, version 1, due after
	// TTL, expiring after MaxPending. It returns the intent that holds now:
	//
	//   - its ID is p.ID: inserted, by this call or by an earlier one whose
	//     reply was lost;
	//   - its ID is another: p.IdempotencyKey is known, this is the intent that
	//     has it, in whatever state, and nothing was written. The key is looked
	//     at before the condition.
	//
	// Otherwise, when p.Expect does not hold for the object as committed now, it
	// returns a *ConflictError and writes nothing: an early refusal only, the
	// commit decides. A blob name that another intent, object or retired name
	// has is ErrInvalid.
	InsertIntent(ctx context.Context, p InsertParams) (Intent, error)

	// TakeOver makes p.Holder the holder of an uploading intent, if the intent
	// is uploading and (its version is p.Version or its holder is p.Holder):
	// version + 1, due after TTL but not beyond ExpiresAt. From then on no
	// commit, heartbeat or abandon with an earlier version succeeds. It waits
	// for a transaction that has the row locked (a commit in flight), at most
	// five seconds, then ErrBusy. It returns the intent as it then stands: won
	// if it is uploading and its holder is p.Holder; otherwise its state says
	// why not. ErrNotFound: no such intent.
	TakeOver(ctx context.Context, p TakeOverParams) (Intent, error)

	// Heartbeat moves due_at to now + TTL, but not beyond ExpiresAt, and counts
	// a beat, if the intent is uploading at p.Version; it changes nothing else,
	// above all not the version. It never waits for a row lock: a locked row
	// cannot be claimed and counts as alive. (Where one writer locks the whole
	// database, it waits like every step.) It returns the intent as it then
	// stands: alive if it is uploading at p.Version. ErrNotFound: no such intent.
	Heartbeat(ctx context.Context, p HeartbeatParams) (Intent, error)

	// Abandon fences: uploading becomes abandoned, if the version is p.Version
	// or the holder is p.Holder; version + 1, due at once, the idempotency key
	// set free. It waits like TakeOver. It returns the intent as it then
	// stands: in state abandoned no commit of it can succeed any more.
	// ErrNotFound: no such intent.
	Abandon(ctx context.Context, p AbandonParams) (Intent, error)

	// GetIntents returns the intents with these ids, in this order; those that
	// do not exist are left out.
	GetIntents(ctx context.Context, ids []string) ([]Intent, error)

	// GetObject returns the object, or ErrNotFound. It sees every commit that
	// was reported before it was called.
	GetObject(ctx context.Context, key string) (Object, error)

	// ListObjects returns up to p.Limit objects in the byte order of their
	// keys: one page. Fewer than p.Limit: there are no more.
	ListObjects(ctx context.Context, p ListParams) ([]Object, error)

	// Claim hands out what is due, in the order of due_at, to one sweeper:
	// at most p.Limit intents (uploading, abandoned, sealing) and p.Limit
	// retired names. In one short transaction it
	//
	//   - turns each uploading intent into abandoned: version + 1, not watched,
	//     its idempotency key set free. So a claim fences the commit;
	//   - leaves State and Version of the others as they are;
	//   - counts an attempt (set to 1 for those it abandoned), and moves due_at
	//     to now + p.Lease, when others may claim it again.
	//
	// Rows that another transaction has locked are passed over. The claims
	// count when Claim returns nil.
	Claim(ctx context.Context, p ClaimParams) (Claimed, error)

	// SettleIntents records what became of claimed intents, and is how an
	// inline seal is recorded. Each is a compare-and-set on State and Version,
	// so a settlement that comes too late changes nothing. Rows are locked in
	// the order of their ids, and those that another transaction has locked are
	// passed over: they stay claimed and come round again. It returns how many
	// took effect. Safe to repeat.
	SettleIntents(ctx context.Context, s []IntentSettlement) (int, error)

	// SettleRetired is SettleIntents for retired names; it compares DueAt, which
	// every claim moves.
	SettleRetired(ctx context.Context, s []RetiredSettlement) (int, error)

	// Forget deletes at most limit intents that are done and due: their
	// retention is over. It returns how many; fewer than limit: no more are due.
	Forget(ctx context.Context, limit int) (int, error)

	// Retryable reports whether err says that a transaction was rolled back
	// through no fault of its own (deadlock, serialization failure, busy), so
	// that the same transaction may simply run again.
	Retryable(err error) bool
}

// RowTx is the steps that may run inside a transaction of the caller's.
//
// Inside a caller's transaction they use that transaction only, and:
//
//   - A *ConflictError, ErrNotFound, ErrInvalid, ErrIntentLost, ErrTakenOver,
//     ErrHeld and ErrAlreadyCommitted leave no trace: if the caller commits anyway,
//     everything is as before, whatever the number of uploads, and the
//     transaction stays usable.
//   - After any other error nothing more is issued on the transaction; the
//     error, and every later call on the same RowTx, is ErrTxUnusable with
//     the cause wrapped.
type RowTx interface {
	// CommitObjects makes uploads visible: for each, in the order of their
	// keys, it locks the intent and requires it uploading, at p.Version and
	// not expired; inserts or updates the object if the intent's condition
	// holds; and only then sets the intent sealing with its result, version + 1,
	// due after SealIn, and records the name of a replaced blob as retired, due
	// after ReadGrace. All of them or none. The objects come back in the order
	// of p.
	//
	// A conditional write that met no row is not a conflict yet: its snapshot
	// may be older than the lock it waited for. A locking read decides; while
	// the condition holds the step runs again, at most 5 times, then it is a
	// *ConflictError marked Retryable.
	//
	// Errors: *ConflictError. ErrAlreadyCommitted: the intent is sealing or
	// done, which is also how a repeated call recognises its own success; read
	// the result from the intent. ErrIntentLost: abandoned, or expired, or (in
	// an own transaction) gone. ErrTakenOver: uploading at another version.
	// ErrHeld. In a caller's transaction an intent that it cannot see at all is
	// ErrTxUnusable: the snapshot is older than the upload.
	CommitObjects(ctx context.Context, p []CommitParams) ([]Object, error)

	// DeleteObject removes the object if p.If holds and records its blob as
	// retired, due after ReadGrace. It returns the object it removed. No object
	// under Always is ErrNotFound; any other condition that does not hold is a
	// *ConflictError. Zero rows are looked at again as in CommitObjects. A
	// repeated call with IfVersion cannot remove a later object: versions never
	// repeat.
	DeleteObject(ctx context.Context, p DeleteParams) (Object, error)

	// SetObjectMetadata replaces the metadata of the object if p.If holds, under
	// a new version, and returns the object. No object under Always is
	// ErrNotFound; any other condition that does not hold is a *ConflictError,
	// whose Current lets a repeated call recognise its own success: the low
	// RandomBits of the version are p.Random unless the database's clock stood
	// behind the object.
	SetObjectMetadata(ctx context.Context, p MetadataParams) (Object, error)
}

// InsertParams is what InsertIntent records.
type InsertParams struct {
	ID, Holder     string
	IdempotencyKey string // "": none
	Key            string
	Expect         Condition
	BlobName       string
	Direct         bool
	Metadata       map[string]string
	TTL            time.Duration // silence allowed until the first heartbeat
	MaxPending     time.Duration // life before commit
}

// TakeOverParams names an intent, what it was when last seen, and who takes it.
type TakeOverParams struct {
	ID      string
	Version int64
	Holder  string
	TTL     time.Duration
}

// HeartbeatParams names an intent at the version its holder knows.
type HeartbeatParams struct {
	ID      string
	Version int64
	TTL     time.Duration
}

// AbandonParams names an intent, what it was when last seen, and its holder.
type AbandonParams struct {
	ID      string
	Version int64
	Holder  string // "": compare the version alone
}

// CommitParams is one upload to make visible. The condition, the blob name and
// the metadata come from the intent's row, never from here.
type CommitParams struct {
	IntentID  string
	Version   int64  // the intent's
	Key       string // the intent's object key: it gives the order, and the name in errors
	Creates   bool   // a hint that the intent expects no object; may pick a shorter way, decides nothing
	Blob      Blob   // facts of the bytes: ETag, Size, SHA256, ContentType; Name is not used
	Random    uint32 // RandomBits random bits for the new version
	ReadGrace time.Duration
	SealIn    time.Duration
}

// DeleteParams is one object to remove. IfAbsent is ErrInvalid.
type DeleteParams struct {
	Key       string
	If        Condition
	ReadGrace time.Duration
}

// MetadataParams is new metadata for one object. IfAbsent is ErrInvalid.
type MetadataParams struct {
	Key      string
	If       Condition
	Metadata map[string]string
	Random   uint32
}

// ListParams asks for one page of objects.
type ListParams struct {
	Prefix string // keys that begin with it
	After  string // keys greater than it
	Limit  int    // at least 1
}

// ClaimParams asks for work.
type ClaimParams struct {
	Limit int
	Lease time.Duration // how long the claim keeps others away
	Until time.Time     // only what was due then; zero: now
}

// Claimed is a batch of work.
type Claimed struct {
	Now     time.Time // the database's clock at the claim
	Intents []Intent  // as they are after the claim: never uploading
	Retired []Retired // the same: DueAt is the end of the claim
}

// Verdict is what a settlement makes of a row.
type Verdict string

// The verdicts. Now is the database's clock at the settlement.
const (
	// ToDone: sealing becomes done; version + 1, attempts 0, due after In.
	ToDone Verdict = "done"
	// ToWatch: an abandoned intent stays, watched; version + 1, attempts 0, due
	// after In. A retired name the same.
	ToWatch Verdict = "watch"
	// ToGone: the row is deleted.
	ToGone Verdict = "gone"
	// ToRetry: Err is noted, due after In. Version and attempts stay.
	ToRetry Verdict = "retry"
	// ToHeld: an intent becomes held, version + 1; a retired name keeps its row.
	// Err is noted; never due again.
	ToHeld Verdict = "held"
)

// Follows reports whether the verdict may be given on an intent in this state.
func (v Verdict) Follows(s State) bool {
	switch v {
	case ToDone:
		return s == Sealing
	case ToWatch, ToGone:
		return s == Abandoned
	case ToRetry, ToHeld:
		return s == Sealing || s == Abandoned
	}
	return false
}

// IntentSettlement is a compare-and-set on one intent.
type IntentSettlement struct {
	ID      string
	State   State
	Version int64
	To      Verdict
	In      time.Duration
	Err     string
}

// RetiredSettlement is a compare-and-set on one retired name. All verdicts but
// ToDone apply.
type RetiredSettlement struct {
	BlobName string
	DueAt    time.Time // as claimed
	To       Verdict
	In       time.Duration
	Err      string
}
