package store

import (
	"fmt"
	"strconv"
	"time"
)

// Version is the optimistic-concurrency token of one object. It grows with
// every change and practically never repeats for a key: not after delete and
// re-create, not on a clock with millisecond steps, not after a restore. It is
// 64 bits wide, so its JSON form is text: a double holds 53. The zero Version
// belongs to no object.
type Version int64

// String returns the decimal form.
func (v Version) String() string { return strconv.FormatInt(int64(v), 10) }

// MarshalText makes a Version text in JSON, as a value and as a map key.
func (v Version) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(v), 10), nil }

// UnmarshalText accepts what MarshalText wrote: a positive decimal without
// sign or leading zero, or "0". Anything else is ErrInvalid.
func (v *Version) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != string(text) {
		return fmt.Errorf("version %.40q: %w", text, ErrInvalid)
	}
	*v = Version(n)
	return nil
}

// RandomBits is how many low bits of a fresh Version are random; the bits
// above are the database's clock in milliseconds.
const RandomBits = 21

// NextVersion is the one rule by which a version follows another:
// max(current + 1, fresh), where fresh is the database's clock in milliseconds
// times 2²¹ plus 21 random bits given by the caller. An object that has no
// current version (0) takes fresh. Stores written in SQL repeat the rule in
// their statements.
func NextVersion(current Version, clock time.Time, random uint32) Version {
	fresh := Version(clock.UnixMilli()<<RandomBits | int64(random&(1<<RandomBits-1)))
	return max(current+1, fresh)
}

// Object is what exists: one row, ready to read. A half-made object has no
// row, so a reader cannot forget a filter.
type Object struct {
	Key       string            `json:"key"`
	Version   Version           `json:"version"`
	Blob      Blob              `json:"blob"`
	IntentID  string            `json:"intent_id"` // the intent that produced these bytes
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"created_at"` // UTC, microseconds, database clock
	UpdatedAt time.Time         `json:"updated_at"` // the same
}

// Blob is the facts of the bytes. Bytes under one name never change.
type Blob struct {
	Name        string `json:"name"`
	ETag        string `json:"etag"`             // as the blob store gave it, opaque
	Size        int64  `json:"size"`             // bytes
	SHA256      string `json:"sha256,omitempty"` // lower-case hex; empty only for adopted blobs
	ContentType string `json:"content_type,omitempty"`
}
