package store

import "time"

// State is where an intent stands.
//
//	         Intent           Upload             Commit (one transaction)          tag flipped
//	(none) ────────► uploading ─────► uploading ──────────────────────────► sealing ──────────► done ── retention over ──► (gone)
//	                    │ deadline passed (claim), or Abort
//	                    ▼
//	                abandoned ── blob deleted; name watched for late uploads until the quarantine ends ──► (gone)
type State string

// The states of an intent.
const (
	Uploading State = "uploading" // promised; may still be committed
	Sealing   State = "sealing"   // committed; the blob's seal is owed
	Done      State = "done"      // committed and sealed; remembered for retries
	Abandoned State = "abandoned" // never to be committed; the name is watched
	Held      State = "held"      // waits for a person's decision; never due
)

// Intent is what is promised: one row per upload attempt, kept until its
// outcome is no longer asked for. Every step is a compare-and-set on State and
// Version. It is plain data: it survives JSON and may be sent through a queue.
type Intent struct {
	ID             string            `json:"id"` // UUID, ours; the blob carries the same id
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Key            string            `json:"key"`
	Expect         Condition         `json:"expect"`
	BlobName       string            `json:"blob_name"`
	Direct         bool              `json:"direct,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"` // for the object

	State   State  `json:"state"`
	Version int64  `json:"version"` // grows by one with every step and takeover, not with a heartbeat
	Holder  string `json:"holder"`  // random, given by whoever inserted or took over

	DueAt     time.Time `json:"due_at,omitzero"` // when a sweeper may act; zero: never (held)
	ExpiresAt time.Time `json:"expires_at"`      // the end of its life before commit
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"` // the last step; heartbeats do not count

	Beats     int64  `json:"beats,omitempty"`
	Attempts  int    `json:"attempts,omitempty"` // claims since the last settlement
	LastError string `json:"last_error,omitempty"`

	// Watched: abandoned, and a sweeper has cleaned its name at least once. The
	// quarantine runs, and nothing of blobtx creates anything under it again.
	Watched bool `json:"watched,omitempty"`

	Result *Object `json:"result,omitempty"` // sealing and done: the object as it was committed
}

// Committed reports whether the intent's object was committed.
func (in *Intent) Committed() bool { return in.State == Sealing || in.State == Done }

// Retired is what must go: the blob of a committed object that the object has
// given up.
type Retired struct {
	BlobName  string
	IntentID  string    // for the guard
	DueAt     time.Time // the read grace is over, or the claim expires; zero: never (held)
	Attempts  int       // claims since the last settlement
	LastError string
	Watched   bool // the blob was deleted; the name is watched for a create that lands late
}
