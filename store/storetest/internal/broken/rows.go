package broken

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/blobtx/blobtx/store"
)

// ignoresVersion takes any version for the one that the condition names.
type ignoresVersion struct{ rows }

func anyVersion(c store.Condition) store.Condition {
	if c.Versions() != nil {
		return store.IfExists()
	}
	return c
}

func (s ignoresVersion) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	for _, one := range p {
		s.change(one.IntentID, func(in *store.Intent) bool {
			was := in.Expect
			in.Expect = anyVersion(was)
			return in.Expect != was
		})
	}
	return s.rows.CommitObjects(ctx, p)
}

func (s ignoresVersion) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	p.If = anyVersion(p.If)
	return s.rows.DeleteObject(ctx, p)
}

func (s ignoresVersion) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	p.If = anyVersion(p.If)
	return s.rows.SetObjectMetadata(ctx, p)
}

// foldsKeys takes a key for the one that was spelled first.
type foldsKeys struct {
	rows
	mu       sync.Mutex
	spelling map[string]string
}

func (s *foldsKeys) first(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	folded := strings.ToLower(key)
	if _, known := s.spelling[folded]; !known {
		s.spelling[folded] = key
	}
	return s.spelling[folded]
}

func (s *foldsKeys) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	p.Key = s.first(p.Key)
	return s.rows.InsertIntent(ctx, p)
}

func (s *foldsKeys) GetObject(ctx context.Context, key string) (store.Object, error) {
	return s.rows.GetObject(ctx, s.first(key))
}

func (s *foldsKeys) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	p.Key = s.first(p.Key)
	return s.rows.DeleteObject(ctx, p)
}

func (s *foldsKeys) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	p.Key = s.first(p.Key)
	return s.rows.SetObjectMetadata(ctx, p)
}

// believesZeroRows writes under a snapshot: where the object is another once
// the lock is there, the write meets no row, and it takes that for a conflict
// without looking again.
type believesZeroRows struct{ rows }

func (s believesZeroRows) step(ctx context.Context, keys []string, step func(store.RowTx) ([]store.Object, error)) ([]store.Object, error) {
	snapshot := make(map[string]*store.Object)
	for _, key := range keys {
		snapshot[key] = s.committed(key)
	}
	roundTrip()
	return inTx(ctx, s.Begin, s.rows, func(tx store.RowTx) ([]store.Object, error) {
		objects, err := step(tx)
		if err != nil {
			return nil, err
		}
		for key, seen := range snapshot {
			now := s.committed(key) // locked: nobody else can change it
			if (seen == nil) != (now == nil) || (seen != nil && seen.Version != now.Version) {
				return nil, &store.ConflictError{Key: key, Current: now, Deleted: now == nil}
			}
		}
		return objects, nil
	})
}

func (s believesZeroRows) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	var keys []string
	for _, one := range p {
		keys = append(keys, one.Key)
	}
	return s.step(ctx, keys, func(tx store.RowTx) ([]store.Object, error) { return tx.CommitObjects(ctx, p) })
}

func (s believesZeroRows) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return one(s.step(ctx, []string{p.Key}, func(tx store.RowTx) ([]store.Object, error) { return several(tx.DeleteObject(ctx, p)) }))
}

func (s believesZeroRows) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return one(s.step(ctx, []string{p.Key}, func(tx store.RowTx) ([]store.Object, error) { return several(tx.SetObjectMetadata(ctx, p)) }))
}

func several(o store.Object, err error) ([]store.Object, error) { return []store.Object{o}, err }

func one(o []store.Object, err error) (store.Object, error) {
	if err != nil {
		return store.Object{}, err
	}
	return o[0], nil
}

// oneByOne commits the uploads in the order of their keys, each by itself.
func oneByOne(ctx context.Context, tx store.RowTx, p []store.CommitParams) ([]store.Object, error) {
	objects := make([]store.Object, len(p))
	left := make(map[int]bool)
	for i := range p {
		left[i] = true
	}
	for range p {
		next := -1
		for i := range left {
			if next < 0 || p[i].Key < p[next].Key {
				next = i
			}
		}
		delete(left, next)
		o, err := tx.CommitObjects(ctx, p[next:next+1])
		if err != nil {
			return nil, err
		}
		objects[next] = o[0]
	}
	return objects, nil
}

type commitsOneByOne struct{ rows }

func (s commitsOneByOne) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return oneByOne(ctx, s.rows, p)
}

// ignoresExpiry gives an expired intent more time.
type ignoresExpiry struct {
	rows
	now func() time.Time
}

func (s ignoresExpiry) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	for _, one := range p {
		s.change(one.IntentID, func(in *store.Intent) bool {
			expired := !in.ExpiresAt.After(s.now())
			in.ExpiresAt = s.now().Add(time.Hour)
			return expired
		})
	}
	return s.rows.CommitObjects(ctx, p)
}

// commitsAgain tells a repeated commit what the first was told.
type commitsAgain struct{ rows }

func (s commitsAgain) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	objects, err := s.rows.CommitObjects(ctx, p)
	if !errors.Is(err, store.ErrAlreadyCommitted) {
		return objects, err
	}
	for _, one := range p {
		s.change(one.IntentID, func(in *store.Intent) bool {
			objects = append(objects, *in.Result)
			return false
		})
	}
	return objects, nil
}

// conditionFirst refuses a retry whose first attempt was committed.
type conditionFirst struct{ rows }

func (s conditionFirst) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	if current := s.committed(p.Key); p.Expect.Validate() == nil && !p.Expect.Holds(current) {
		return store.Intent{}, &store.ConflictError{Key: p.Key, Want: p.Expect, Current: current, Deleted: current == nil}
	}
	return s.rows.InsertIntent(ctx, p)
}

// likesPrefix lets % and _ stand for anything.
type likesPrefix struct{ rows }

func (s likesPrefix) ListObjects(_ context.Context, p store.ListParams) ([]store.Object, error) {
	pattern := regexp.QuoteMeta(p.Prefix)
	pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "%", ".*"), "_", ".")
	like := regexp.MustCompile("^(?s:" + pattern + ")")
	var page []store.Object
	for _, o := range s.Objects() {
		if o.Key > p.After && like.MatchString(o.Key) && len(page) < p.Limit {
			page = append(page, o)
		}
	}
	return page, nil
}
