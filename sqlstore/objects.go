package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blobtx/blobtx/store"
)

// maxRuns is how often a conditional write that met no row is run.
const maxRuns = 5

// commitStep is one upload to make visible.
type commitStep struct {
	store.CommitParams
	at    int    // its place in the caller's list
	facts string // blobFacts, as JSON
}

// prepareCommits checks the uploads before anything is issued and puts them in
// the order of their keys, so that two transactions lock objects in one order.
func prepareCommits(p []store.CommitParams) ([]commitStep, error) {
	steps := make([]commitStep, len(p))
	for i, one := range p {
		if err := checkCommit(one); err != nil {
			return nil, fmt.Errorf("commit %q: %w", one.Key, err)
		}
		b := one.Blob
		facts, err := json.Marshal(blobFacts{b.ETag, b.Size, b.SHA256, b.ContentType})
		if err != nil {
			return nil, fmt.Errorf("commit %q: %w", one.Key, err)
		}
		one.Random &= 1<<store.RandomBits - 1
		one.ReadGrace, one.SealIn = max(0, one.ReadGrace), max(0, one.SealIn)
		steps[i] = commitStep{one, i, string(facts)}
	}
	slices.SortStableFunc(steps, func(a, b commitStep) int { return cmp.Compare(a.Key, b.Key) })
	return steps, nil
}

func checkCommit(p store.CommitParams) error {
	if err := store.ValidateKey(p.Key); err != nil {
		return err
	}
	if err := checkText("intent id", p.IntentID); err != nil {
		return err
	}
	if err := checkText("ETag", p.Blob.ETag); err != nil {
		return err
	}
	if p.Blob.Size < 0 {
		return fmt.Errorf("size %d is negative: %w", p.Blob.Size, store.ErrInvalid)
	}
	if err := store.ValidateSHA256(p.Blob.SHA256); err != nil {
		return err
	}
	return store.ValidateContentType(p.Blob.ContentType)
}

// checkText refuses what a text column would refuse, cut or change.
func checkText(what, s string) error {
	if s == "" || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s %.60q must be valid UTF-8, without NUL and not empty: %w", what, s, store.ErrInvalid)
	}
	return nil
}

// CommitObjects is store.RowTx's, in a transaction of its own. One upload is
// one statement when it succeeds, if the database can do that.
func (s *Store) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	steps, err := prepareCommits(p)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	var objects []store.Object
	if err := s.usable(); err != nil {
		return nil, err
	}
	if one, ok := s.engine.(singleCommitter); ok && len(steps) == 1 {
		met := false
		err := s.step(ctx, "commit objects", func(ctx context.Context, q session) error {
			o, ok, err := one.commitObject(ctx, q, steps[0].CommitParams, steps[0].facts)
			objects, met = []store.Object{o}, ok
			return err
		})
		if err != nil || met {
			return result(objects, err)
		}
		// Why it met no row is found out in a transaction, which keeps its
		// locks from one run to the next.
	}
	err = s.txStep(ctx, "commit objects", func(ctx context.Context, q session) (err error) {
		objects, err = s.commitAll(ctx, q, steps)
		return err
	})
	return result(objects, err)
}

// singleCommitter is an engine whose commitObject is one statement.
type singleCommitter interface {
	engine
	commitsAtOnce()
}

// commitAll commits all or none. A savepoint is what takes back the first when
// a later one is in conflict and the caller commits anyway.
func (s *Store) commitAll(ctx context.Context, q session, steps []commitStep) ([]store.Object, error) {
	objects := make([]store.Object, len(steps))
	if len(steps) == 1 {
		o, err := s.commitOne(ctx, q, steps[0])
		objects[0] = o
		return objects, err
	}
	set, back, release := s.engine.savepoint()
	if _, err := q.Exec(ctx, set); err != nil {
		return nil, err
	}
	for _, step := range steps {
		o, err := s.commitOne(ctx, q, step)
		if err != nil && !clean(err) {
			return nil, err
		}
		if err != nil {
			if _, undo := q.Exec(ctx, back); undo != nil {
				return nil, fmt.Errorf("%w: back to savepoint: %w", store.ErrTxUnusable, undo)
			}
			if err := s.release(ctx, q, release); err != nil {
				return nil, err
			}
			return nil, err
		}
		objects[step.at] = o
	}
	return objects, s.release(ctx, q, release)
}

func (s *Store) release(ctx context.Context, q session, release string) error {
	if release == "" {
		return nil
	}
	if _, err := q.Exec(ctx, release); err != nil {
		return fmt.Errorf("%w: release savepoint: %w", store.ErrTxUnusable, err)
	}
	return nil
}

// commitOne is the conditional write, and what it means when it met no row.
// That is not a conflict yet: the statement's snapshot may be older than the
// lock it waited for. A locking read decides.
func (s *Store) commitOne(ctx context.Context, q session, step commitStep) (store.Object, error) {
	var want store.Condition
	for range maxRuns {
		o, ok, err := s.engine.commitObject(ctx, q, step.CommitParams, step.facts)
		if err != nil || ok {
			return o, err
		}
		step.Creates = false // a hint may be wrong
		in, expired, found, err := s.engine.lockIntent(ctx, q, step.IntentID)
		if err != nil {
			return store.Object{}, err
		}
		if err := lost(step.CommitParams, in, expired, found, q.own); err != nil {
			return store.Object{}, fmt.Errorf("%.60q: intent %.60q: %w", step.Key, step.IntentID, err)
		}
		want = in.Expect
		if err := s.conflict(ctx, q, in.Key, want); err != nil {
			return store.Object{}, err
		}
	}
	return store.Object{}, &store.ConflictError{Key: step.Key, Want: want, Retryable: true}
}

// lost says why an intent cannot be committed, nil if it can.
func lost(p store.CommitParams, in store.Intent, expired, found, own bool) error {
	switch {
	case !found && own:
		return fmt.Errorf("%w: there is no such intent", store.ErrIntentLost)
	case !found:
		return fmt.Errorf("%w: it cannot see the intent; begin it after the upload", store.ErrTxUnusable)
	case in.Committed():
		return store.ErrAlreadyCommitted
	case in.State == store.Abandoned:
		return store.ErrIntentLost
	case in.State == store.Held:
		return store.ErrHeld
	case in.Version != p.Version:
		return store.ErrTakenOver
	case expired:
		return fmt.Errorf("%w: it expired at %s", store.ErrIntentLost, in.ExpiresAt)
	}
	return nil
}

// conflict reads the object under a lock and returns a ConflictError, or nil
// while the condition holds.
func (s *Store) conflict(ctx context.Context, q session, key string, want store.Condition) error {
	o, found, err := s.engine.lockObject(ctx, q, key)
	if err != nil {
		return err
	}
	e := &store.ConflictError{Key: key, Want: want, Deleted: !found}
	if found {
		e.Current = &o
	}
	if want.Holds(e.Current) {
		return nil
	}
	return e
}

// checkChange checks what DeleteObject and SetObjectMetadata have in common.
func checkChange(key string, want store.Condition) error {
	if err := store.ValidateKey(key); err != nil {
		return err
	}
	if want == store.IfAbsent() {
		return fmt.Errorf("change %q: IfAbsent holds for no object that could be changed: %w", key, store.ErrInvalid)
	}
	return want.Validate()
}

// DeleteObject is store.RowTx's, in a transaction of its own.
func (s *Store) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	if err := cmp.Or(s.usable(), checkChange(p.Key, p.If)); err != nil {
		return store.Object{}, err
	}
	var o store.Object
	run := s.txStep
	if _, ok := s.engine.(singleCommitter); ok {
		run = s.step
	}
	err := run(ctx, "delete object", func(ctx context.Context, q session) (err error) {
		o, err = s.deleteObject(ctx, q, p)
		return err
	})
	return result(o, err)
}

func (s *Store) deleteObject(ctx context.Context, q session, p store.DeleteParams) (store.Object, error) {
	p.ReadGrace = max(0, p.ReadGrace)
	return s.change(ctx, q, p.Key, p.If, func() (store.Object, bool, error) {
		return s.engine.deleteObject(ctx, q, p)
	})
}

// change runs a conditional write on an object that must be there.
func (s *Store) change(ctx context.Context, q session, key string, want store.Condition, write func() (store.Object, bool, error)) (store.Object, error) {
	for range maxRuns {
		o, ok, err := write()
		if err != nil || ok {
			return o, err
		}
		o, found, err := s.engine.lockObject(ctx, q, key)
		switch {
		case err != nil:
			return store.Object{}, err
		case found && want.Holds(&o): // seen only now
		case found:
			return store.Object{}, &store.ConflictError{Key: key, Want: want, Current: &o}
		case want == store.Always():
			return store.Object{}, fmt.Errorf("object %q: %w", key, store.ErrNotFound)
		default:
			return store.Object{}, &store.ConflictError{Key: key, Want: want, Deleted: true}
		}
	}
	return store.Object{}, &store.ConflictError{Key: key, Want: want, Retryable: true}
}

func checkMetadata(p store.MetadataParams) (string, error) {
	if err := checkChange(p.Key, p.If); err != nil {
		return "", err
	}
	return formatMetadata(p.Metadata)
}

// SetObjectMetadata is store.RowTx's, in a transaction of its own.
func (s *Store) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	metadata, err := checkMetadata(p)
	if err != nil {
		return store.Object{}, err
	}
	var o store.Object
	err = s.step(ctx, "set object metadata", func(ctx context.Context, q session) (err error) {
		o, err = s.setMetadata(ctx, q, p, metadata)
		return err
	})
	return result(o, err)
}

func (s *Store) setMetadata(ctx context.Context, q session, p store.MetadataParams, metadata string) (store.Object, error) {
	p.Random &= 1<<store.RandomBits - 1
	return s.change(ctx, q, p.Key, p.If, func() (store.Object, bool, error) {
		return s.engine.setMetadata(ctx, q, p, metadata)
	})
}

// GetObject is store.RowStore's.
func (s *Store) GetObject(ctx context.Context, key string) (store.Object, error) {
	if err := store.ValidateKey(key); err != nil {
		return store.Object{}, err
	}
	var o store.Object
	err := s.step(ctx, "get object", func(ctx context.Context, q session) error {
		var found bool
		var err error
		if o, found, err = s.engine.getObject(ctx, q, key); err == nil && !found {
			return fmt.Errorf("object %q: %w", key, store.ErrNotFound)
		}
		return err
	})
	return result(o, err)
}

// ListObjects is store.RowStore's: one page, read whole before it returns.
func (s *Store) ListObjects(ctx context.Context, p store.ListParams) ([]store.Object, error) {
	if p.Limit < 1 {
		return nil, fmt.Errorf("list objects: limit %d: %w", p.Limit, store.ErrInvalid)
	}
	for _, text := range []string{p.Prefix, p.After} {
		if text != "" {
			if err := checkText("list objects: prefix or start", text); err != nil {
				return nil, err
			}
		}
	}
	var page []store.Object
	err := s.step(ctx, "list objects", func(ctx context.Context, q session) (err error) {
		page, err = s.engine.listObjects(ctx, q, p.Prefix, p.After, after(p.Prefix), p.Limit)
		return err
	})
	return result(page, err)
}

// after returns the least text that is greater than every text with this
// prefix, "" when there is none. The order of bytes is the order of characters
// in UTF-8, and the databases take only whole characters.
func after(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last < utf8.MaxRune {
			if last++; last == 0xd800 { // surrogates are not characters
				last = 0xe000
			}
			return prefix + string(last)
		}
	}
	return ""
}
