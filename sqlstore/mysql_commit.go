package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// mysqlLook is what a commit finds: the intent, locked, and of the object as it
// was seen what its successor must know. Its version is 0 if there is none.
type mysqlLook struct {
	key, blobName, metadata string
	expect                  store.Condition
	now                     int64
	object                  store.Object
}

func (l *mysqlLook) holds() bool {
	if l.object.Version == 0 {
		return l.expect.Holds(nil)
	}
	return l.expect.Holds(&l.object)
}

func (e *mysqlEngine) look(ctx context.Context, s session, p store.CommitParams) (mysqlLook, bool, error) {
	query := e.lookText
	if p.Creates {
		query = e.lookAbsentText
	}
	return oneRow(ctx, s, func(scan func(dest ...any) error) (l mysqlLook, err error) {
		var expect, object string
		err = scan(&l.key, &expect, &l.blobName, &l.metadata, &l.now, &object)
		if err == nil {
			err = l.expect.UnmarshalText([]byte(expect))
		}
		if err == nil && object != "" {
			l.object, err = parseSeen(object)
		}
		return l, err
	}, query.of(s), p.IntentID, p.Version)
}

// parseSeen reads the object out of lookText's subquery: one column, because
// each subquery costs as much as a statement.
func parseSeen(text string) (o store.Object, err error) {
	var version, created int64
	var idLength int
	parts := strings.SplitN(text, ",", 4)
	if len(parts) == 4 {
		_, err = fmt.Sscan(strings.Join(parts[:3], " "), &version, &created, &idLength)
	}
	if err != nil || len(parts) < 4 || idLength > len(parts[3]) {
		return o, fmt.Errorf("the object in one column is %.80q", text)
	}
	o.Version, o.CreatedAt = store.Version(version), fromMicros(created)
	o.IntentID, o.Blob.Name = parts[3][:idLength], parts[3][idLength:]
	return o, nil
}

// commitsAtOnce: a commit that stands alone is a transaction of its own at the
// session's isolation level, which is one statement less. It locks no gap; where
// it would have to look again it is given up, and run like any other.
func (e *mysqlEngine) commitsAtOnce() {}

func (e *mysqlEngine) commitAlone(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	tx, err := e.beginWith(ctx, s.alone, "START TRANSACTION")
	if err != nil {
		return store.Object{}, false, err
	}
	defer tx.rollback() // nothing after a commit
	s = s.within(tx)
	l, ok, err := e.look(ctx, s, p)
	if err != nil || !ok || !l.holds() {
		return store.Object{}, false, err
	}
	o, ok, err := e.write(ctx, s, p, facts, l)
	if err != nil || !ok {
		return store.Object{}, false, err
	}
	return o, true, tx.commit()
}

// commitObject locks the intent, and writes what the condition allows for the
// object as it was seen. A read in an old snapshot, or a change that came
// between, is mended once by a look under a lock.
func (e *mysqlEngine) commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	if s.alone != nil {
		return e.commitAlone(ctx, s, p, facts)
	}
	l, ok, err := e.look(ctx, s, p)
	if err != nil || !ok {
		return store.Object{}, false, err
	}
	if l.holds() {
		if o, ok, err := e.write(ctx, s, p, facts, l); err != nil || ok {
			return o, ok, err
		}
	}
	o, now, _, err := e.lockedObject(ctx, s, l.key)
	if err != nil {
		return store.Object{}, false, err
	}
	l.object, l.now = o, max(l.now, now)
	if !l.holds() {
		return store.Object{}, false, nil
	}
	return e.write(ctx, s, p, facts, l)
}

// write is false when the object is not as it was seen.
func (e *mysqlEngine) write(ctx context.Context, s session, p store.CommitParams, facts string, l mysqlLook) (store.Object, bool, error) {
	old := l.object
	o := store.Object{
		Key: l.key, Version: store.NextVersion(old.Version, fromMicros(l.now), p.Random), IntentID: p.IntentID, Blob: p.Blob,
		CreatedAt: fromMicros(l.now), UpdatedAt: fromMicros(l.now),
	}
	o.Blob.Name = l.blobName
	if old.Version != 0 {
		o.CreatedAt = old.CreatedAt
	}
	var err error
	if o.Metadata, err = parseMetadata(l.metadata); err != nil {
		return store.Object{}, false, err
	}
	version, created := int64(o.Version), o.CreatedAt.UnixMicro()
	committed := []any{l.now + micros(p.SealIn), l.now, facts, version, created, l.now}
	b := p.Blob
	if old.Version == 0 {
		_, err := s.Exec(ctx, e.createText.of(s), l.key, version, l.blobName, p.IntentID, b.ETag, b.Size, b.SHA256, b.ContentType, l.metadata, created, l.now)
		if err != nil {
			return store.Object{}, false, err
		}
		n, err := s.Exec(ctx, e.createdText, append(append([]any{l.key}, committed...), p.IntentID)...)
		return o, n > 0 && err == nil, err
	}
	args := append([]any{l.key, int64(old.Version)}, committed...)
	args = append(args, version, l.blobName, p.IntentID, b.ETag, b.Size, b.SHA256, b.ContentType, l.metadata, l.now, p.IntentID)
	n, err := s.Exec(ctx, e.replaceText.of(s), args...)
	if err != nil || n == 0 {
		return store.Object{}, false, err
	}
	_, err = s.Exec(ctx, e.retireText.of(s), old.Blob.Name, old.IntentID, l.now+micros(p.ReadGrace))
	return o, err == nil, err
}

func (e *mysqlEngine) lockedObject(ctx context.Context, s session, key string) (o store.Object, now int64, found bool, err error) {
	o, found, err = oneRow(ctx, s, func(scan func(dest ...any) error) (store.Object, error) {
		return scanObject(func(dest ...any) error { return scan(append(dest, &now)...) })
	}, e.lockObjectText.of(s), key)
	return o, now, found, err
}

func (e *mysqlEngine) lockObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	o, _, found, err := e.lockedObject(ctx, s, key)
	return o, found, err
}

func (e *mysqlEngine) deleteObject(ctx context.Context, s session, p store.DeleteParams) (o store.Object, ok bool, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		if o, now, ok, err = e.lockedObject(ctx, s, p.Key); err != nil || !ok {
			return err
		}
		if ok = p.If.Holds(&o); !ok {
			return nil
		}
		if _, err := s.Exec(ctx, e.deleteText, p.Key); err != nil {
			return err
		}
		_, err = s.Exec(ctx, e.retireText.of(s), o.Blob.Name, o.IntentID, now+micros(p.ReadGrace))
		return err
	})
	return o, ok && err == nil, err
}

func (e *mysqlEngine) setMetadata(ctx context.Context, s session, p store.MetadataParams, metadata string) (o store.Object, ok bool, err error) {
	err = e.inTx(ctx, s, func(ctx context.Context, s session) error {
		var now int64
		if o, now, ok, err = e.lockedObject(ctx, s, p.Key); err != nil || !ok {
			return err
		}
		if ok = p.If.Holds(&o); !ok {
			return nil
		}
		o.Version = store.NextVersion(o.Version, fromMicros(now), p.Random)
		o.UpdatedAt = fromMicros(now)
		if o.Metadata, err = parseMetadata(metadata); err != nil {
			return err
		}
		_, err = s.Exec(ctx, e.metadataText, int64(o.Version), metadata, now, p.Key)
		return err
	})
	return o, ok && err == nil, err
}

func (e *mysqlEngine) getObject(ctx context.Context, s session, key string) (store.Object, bool, error) {
	return oneRow(ctx, s, scanObject, e.getObjectText, key)
}

func (e *mysqlEngine) listObjects(ctx context.Context, s session, from, after, below string, limit int) ([]store.Object, error) {
	if below == "" {
		return allRows(ctx, s, scanObject, e.listText, from, after, int64(limit))
	}
	return allRows(ctx, s, scanObject, e.listBelowText, from, after, below, int64(limit))
}
