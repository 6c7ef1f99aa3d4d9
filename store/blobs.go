package store

import (
	"context"
	"io"
	"iter"
	"time"
)

// ReservedPrefix begins the names that markers, probes and locks use. No blob
// name may begin with it.
const ReservedPrefix = "_blobtx/"

// BlobStore keeps bytes under write-once names.
//
// A blob is created pending, bearing the id of its intent, and is sealed once
// its row was committed. No method replaces bytes under a name. A BlobStore is
// safe for concurrent use; it does not decide whether an unknown outcome was a
// success: it says what it met, and the protocol looks.
//
// A container that does not exist, or a permission that is missing, is
// ErrSetup with the remedy named.
type BlobStore interface {
	// Create streams p.Body to p.Name, pending, only if nothing is readable
	// there, whatever the size. The bytes become readable, all at once, only
	// after p.Body has returned io.EOF. After any other error of p.Body, which
	// Create returns as it is, and once ctx is done, it stops reading at once
	// and sends nothing more; a request already under way may still land. ErrExists: something is there,
	// perhaps by an earlier try of this very call: Stat tells. After any other
	// error the outcome is unknown.
	Create(ctx context.Context, p CreateParams) (Blob, error)

	// Seal marks the blob as committed, if it bears intentID; again is no error.
	// ErrBlobNotFound, or ErrGuardRefused when it bears another id. It changes
	// neither bytes nor ETag.
	Seal(ctx context.Context, name, intentID string) error

	// Delete removes blobs, each under its guard, and returns one error per
	// element: nil: it was there and is gone; ErrBlobNotFound: it was not there;
	// ErrGuardRefused: it is there and the guard does not hold. Any other: not
	// known. A store that repeats a request whose reply was lost may meet its
	// own success, and then says ErrBlobNotFound for what it removed: both mean
	// gone. One element's failure leaves the others alone.
	Delete(ctx context.Context, blobs []DeleteBlob) []error

	// Stat returns what is known of the readable blob, or ErrBlobNotFound, for
	// any name that a container may hold, reserved ones too.
	Stat(ctx context.Context, p StatParams) (BlobInfo, error)

	// Open returns bytes of the blob as it was under that ETag. ErrBlobNotFound,
	// or ErrConflict when the ETag is another. Closing early is free of cost
	// beyond what was read. An offset at or past the end reads nothing.
	Open(ctx context.Context, p OpenParams) (io.ReadCloser, error)

	// List yields the readable blobs in the byte order of their names. An error
	// ends the listing.
	List(ctx context.Context, p ListBlobsParams) iter.Seq2[BlobInfo, error]

	// Probe checks on a scratch blob under ReservedPrefix that everything the
	// protocol needs works with this account and credential. It returns one
	// error that is ErrSetup and names each lack and what gives it.
	Probe(ctx context.Context) error

	// Caps says what this store can do.
	Caps() Caps
}

// Caps is what a BlobStore can do. Methods it cannot offer return
// errors.ErrUnsupported.
type Caps struct {
	// Guard: Seal and guarded deletes are enforced by the service itself.
	// Without it a blob's safety rests on the row fence alone, and a restored
	// database is not unmasked.
	Guard bool
	// ClearStaged: uploads that staged blocks and never finished can be cleared.
	ClearStaged bool
}

// CreateParams is one blob to create. IntentID, Key, Base and the SHA-256 are
// stored with the blob, so that it describes itself.
type CreateParams struct {
	Name        string
	IntentID    string
	Key         string // the object's key
	Base        string // the condition that its commit will require
	ContentType string // "": application/octet-stream
	Body        *Body
}

// DeleteBlob is one blob to delete and the guard that must hold.
type DeleteBlob struct {
	Name     string
	IntentID string // the blob must bear this id
	Pending  bool   // and must not be sealed

	// ClearStaged: also make sure that blocks staged under the name can never
	// become readable. What is cleared is not reported: ErrBlobNotFound where
	// no readable blob was there.
	ClearStaged bool
}

// StatParams asks about one blob.
type StatParams struct {
	Name string
	Seal bool // also learn whether it is sealed, which may cost a request
}

// BlobInfo is what is known of one blob. IntentID is empty for a blob that is
// not ours.
type BlobInfo struct {
	Blob
	IntentID  string
	Key       string
	Base      string
	Sealed    bool // from List, and from Stat when asked
	CreatedAt time.Time
}

// OpenParams asks for bytes.
type OpenParams struct {
	Name   string
	ETag   string
	Offset int64
	Count  int64 // at most so many bytes; negative: to the end
}

// ListBlobsParams asks for a listing.
type ListBlobsParams struct {
	Prefix string
}
