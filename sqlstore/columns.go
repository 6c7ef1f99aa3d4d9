package sqlstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

const (
	objectColumns = `o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at`

	intentColumns = `t.id, coalesce(t.idempotency_key, ''), t.object_key, t.expect, t.blob_name, t.direct, t.metadata,` +
		` t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at,` +
		` t.beats, t.attempts, t.last_error, t.watched,` +
		` coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0)`
)

func scanObject(scan func(dest ...any) error) (store.Object, error) {
	var o store.Object
	var version, created, updated int64
	var metadata string
	err := scan(&o.Key, &version, &o.Blob.Name, &o.IntentID, &o.Blob.ETag, &o.Blob.Size, &o.Blob.SHA256,
		&o.Blob.ContentType, &metadata, &created, &updated)
	if err != nil {
		return store.Object{}, err
	}
	o.Version, o.CreatedAt, o.UpdatedAt = store.Version(version), fromMicros(created), fromMicros(updated)
	if o.Metadata, err = parseMetadata(metadata); err != nil {
		return store.Object{}, fmt.Errorf("object %.60q: %w", o.Key, err)
	}
	return o, nil
}

// intentRow is an intent on its way from the database.
type intentRow struct {
	in                                   store.Intent
	expect, metadata, state, facts       string
	direct, watched, attempts            int64
	due, expires, created, updated       int64
	objVersion, objCreated, objUpdatedAt int64
}

func (r *intentRow) dest(more ...any) []any {
	return append([]any{
		&r.in.ID, &r.in.IdempotencyKey, &r.in.Key, &r.expect, &r.in.BlobName, &r.direct, &r.metadata,
		&r.state, &r.in.Version, &r.in.Holder, &r.due, &r.expires, &r.created, &r.updated,
		&r.in.Beats, &r.attempts, &r.in.LastError, &r.watched,
		&r.facts, &r.objVersion, &r.objCreated, &r.objUpdatedAt,
	}, more...)
}

// blobFacts is what the result column keeps: the facts of the bytes that only
// the caller of the commit knows.
type blobFacts struct {
	ETag        string `json:"etag"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256,omitempty"`
	ContentType string `json:"content_type,omitempty"`
}

func (r *intentRow) intent() (store.Intent, error) {
	in := r.in
	in.Direct, in.Watched, in.Attempts, in.State = r.direct != 0, r.watched != 0, int(r.attempts), store.State(r.state)
	in.DueAt, in.ExpiresAt = fromMicros(r.due), fromMicros(r.expires)
	in.CreatedAt, in.UpdatedAt = fromMicros(r.created), fromMicros(r.updated)
	var err error
	if err = in.Expect.UnmarshalText([]byte(r.expect)); err != nil {
		return store.Intent{}, fmt.Errorf("intent %.60q: stored %w", in.ID, err)
	}
	if in.Metadata, err = parseMetadata(r.metadata); err != nil {
		return store.Intent{}, fmt.Errorf("intent %.60q: %w", in.ID, err)
	}
	if r.facts == "" {
		return in, nil
	}
	var facts blobFacts
	if err := json.Unmarshal([]byte(r.facts), &facts); err != nil {
		return store.Intent{}, fmt.Errorf("intent %.60q: stored result: %w", in.ID, err)
	}
	metadata, _ := parseMetadata(r.metadata) // a map of its own
	in.Result = &store.Object{
		Key: in.Key, Version: store.Version(r.objVersion), IntentID: in.ID, Metadata: metadata,
		Blob: store.Blob{
			Name: in.BlobName, ETag: facts.ETag, Size: facts.Size, SHA256: facts.SHA256, ContentType: facts.ContentType,
		},
		CreatedAt: fromMicros(r.objCreated), UpdatedAt: fromMicros(r.objUpdatedAt),
	}
	return in, nil
}

// scanInserted fills in what the caller of an insert knows: every column that a
// statement returns costs the server something at each execution.
func scanInserted(p store.InsertParams, metadata string) func(scan func(dest ...any) error) (store.Intent, error) {
	return func(scan func(dest ...any) error) (store.Intent, error) {
		var created int64
		if err := scan(&created); err != nil {
			return store.Intent{}, err
		}
		in := store.Intent{
			ID: p.ID, IdempotencyKey: p.IdempotencyKey, Key: p.Key, Expect: p.Expect, BlobName: p.BlobName, Direct: p.Direct,
			State: store.Uploading, Version: 1, Holder: p.Holder,
			DueAt: fromMicros(created + micros(p.TTL)), ExpiresAt: fromMicros(created + micros(p.MaxPending)),
			CreatedAt: fromMicros(created), UpdatedAt: fromMicros(created),
		}
		var err error
		in.Metadata, err = parseMetadata(metadata) // as it will be read: a map of its own
		return in, err
	}
}

// scanCommitted is scanObject for a commit, whose caller knows the facts of the
// bytes.
func scanCommitted(p store.CommitParams) func(scan func(dest ...any) error) (store.Object, error) {
	return func(scan func(dest ...any) error) (store.Object, error) {
		o := store.Object{IntentID: p.IntentID, Blob: p.Blob}
		var version, created, updated int64
		var metadata string
		if err := scan(&o.Key, &o.Blob.Name, &metadata, &version, &created, &updated); err != nil {
			return store.Object{}, err
		}
		o.Version, o.CreatedAt, o.UpdatedAt = store.Version(version), fromMicros(created), fromMicros(updated)
		var err error
		o.Metadata, err = parseMetadata(metadata)
		return o, err
	}
}

// claimed is the intent as a sweeper takes it: it needs no more, and a row that
// cannot be read must not stall the others.
func (r *intentRow) claimed() store.Intent {
	in, err := r.intent()
	if err != nil {
		bare := *r
		bare.expect, bare.metadata, bare.facts = "absent", "{}", ""
		in, _ = bare.intent()
	}
	return in
}

func scanClaimed(scan func(dest ...any) error) (store.Intent, error) {
	var r intentRow
	if err := scan(r.dest()...); err != nil {
		return store.Intent{}, err
	}
	return r.claimed(), nil
}

func scanIntent(scan func(dest ...any) error) (store.Intent, error) {
	var r intentRow
	if err := scan(r.dest()...); err != nil {
		return store.Intent{}, err
	}
	return r.intent()
}

func scanRetired(scan func(dest ...any) error) (store.Retired, error) {
	var r store.Retired
	var due, attempts, watched int64
	err := scan(&r.BlobName, &r.IntentID, &due, &attempts, &r.LastError, &watched)
	r.DueAt, r.Attempts, r.Watched = fromMicros(due), int(attempts), watched != 0
	return r, err
}

// fromMicros: 0 stands for no time at all; nothing here is as old as 1970.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func formatMetadata(m map[string]string) (string, error) {
	if err := store.ValidateMetadata(m); err != nil {
		return "", err
	}
	if len(m) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(m)
	return string(text), err
}

func parseMetadata(text string) (map[string]string, error) {
	if text == "{}" {
		return nil, nil
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("stored metadata: %w", err)
	}
	return m, nil
}

// errorText is err's text as a column can hold it.
func errorText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	const limit = 1000
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") // the cut may be in the middle of a character
	}
	return s
}
