package blobtx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// CommitOptions configures Commit. It has no fields yet.
type CommitOptions struct{}

// Commit makes uploads visible, all of them or none, in one transaction of its
// own, and seals them unless SealLater is set. Once begun it does not end with
// ctx. An upload that was committed before is a replay: the stored object comes
// back.
//
// A *ConflictError names the object that stood in the way; nothing was changed,
// and the uploads are still there to commit or abort. ErrIntentLost: too slow.
// ErrNotFound: the intent is no longer remembered, whatever became of it.
// ErrTakenOver: a retry has the upload now. ErrOutcomeUnknown: the database
// could not be reached to find out; Settle again, or leave it to the sweeper.
// ErrHeld. ErrBusy: no connection or lock in time, nothing was changed; is a
// transaction open? ErrSetup. The end of ctx, if it came before the commit began.
// ErrInvalid: no upload, a zero one, one twice, two for one key, or a mixture
// of replays and others.
func (c *Coordinator) Commit(ctx context.Context, opts *CommitOptions, ups ...*Upload) ([]Object, error) {
	objects, err := c.commit(ctx, ups)
	return objects, c.failedUploads("commit", ups, err)
}

func (c *Coordinator) commit(ctx context.Context, ups []*Upload) ([]Object, error) {
	if objects, err := c.replays(ups); objects != nil || err != nil {
		return objects, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
	c.seals.enter()
	defer func() {
		if err := c.seals.leave(ctx); err != nil {
			c.opts.Logger.Warn("blobtx: seals were not recorded, the sweeper will finish them", "error", err)
		}
	}()
	var err error
	unclear := false // an earlier try may have been applied
	for try := 1; try <= 5; try++ {
		var objects []Object
		objects, err = c.rows.CommitObjects(ctx, c.commitParams(ups))
		if err == nil {
			c.committed(ctx, ups, objects)
			return objects, nil
		}
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.Retryable && c.pause(ctx, try):
			continue
		case errors.Is(err, ErrIntentLost):
			return nil, c.lost(ctx, ups, err)
		case refused(err) && !errors.Is(err, ErrTakenOver), errors.Is(err, ErrBusy) && !unclear:
			return nil, err
		}
		unclear = true
		// Taken over may be by our own Settle, whose request came late.
		outcome, settleErr := c.settle(ctx, ups)
		switch {
		case settleErr != nil && errors.Is(settleErr, ErrOutcomeUnknown):
			return nil, fmt.Errorf("%w; commit: %w", settleErr, err)
		case settleErr != nil:
			return nil, settleErr
		case outcome.Committed:
			if !errors.Is(err, ErrAlreadyCommitted) { // else it was told and sealed then
				c.committed(ctx, ups, outcome.Objects)
			}
			return outcome.Objects, nil
		}
		if !c.pause(ctx, try) {
			break
		}
	}
	return nil, err
}

// lost tells an abandoned intent from one that is no longer remembered, which
// may have been committed in its time.
func (c *Coordinator) lost(ctx context.Context, ups []*Upload, err error) error {
	switch _, readErr := c.readAll(ctx, ups); {
	case errors.Is(readErr, ErrNotFound):
		return readErr
	case readErr != nil:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, readErr)
	}
	return err
}

// CommitTx makes uploads visible in a transaction of the caller's, which the
// caller then commits or rolls back. It issues statements on that transaction
// only and never changes an Upload: after a rollback the same one may be
// committed again. After the caller's COMMIT call Seal, or leave it to the
// sweeper. If the reply to COMMIT is lost, call Settle, or use CommitWith,
// which does all of this.
//
// A *ConflictError, ErrIntentLost, ErrTakenOver and ErrHeld leave no trace in
// the transaction. ErrAlreadyCommitted: the caller's own rows went in with the
// upload the first time; roll back. ErrTxUnusable: roll back; the transaction
// failed, or it began before the upload. ErrInvalid, as for Commit.
func (c *Coordinator) CommitTx(ctx context.Context, tx store.RowTx, ups ...*Upload) ([]Object, error) {
	objects, err := c.commitTx(ctx, tx, ups)
	return objects, c.failedUploads("commit", ups, err)
}

func (c *Coordinator) commitTx(ctx context.Context, tx store.RowTx, ups []*Upload) ([]Object, error) {
	if tx == nil {
		return nil, fmt.Errorf("the transaction is nil: %w", ErrInvalid)
	}
	if err := c.valid(ups); err != nil {
		return nil, err
	}
	for _, up := range ups {
		if up.replay != nil {
			return nil, ErrAlreadyCommitted
		}
	}
	return tx.CommitObjects(ctx, c.commitParams(ups))
}

func (c *Coordinator) commitParams(ups []*Upload) []store.CommitParams {
	params := make([]store.CommitParams, len(ups))
	sealIn := sealOwed
	if c.opts.SealLater {
		sealIn = 0
	}
	for i, up := range ups {
		in := up.current()
		params[i] = store.CommitParams{
			IntentID: in.ID, Version: in.Version, Key: in.Key, Creates: in.Expect == IfAbsent(), Blob: up.blob,
			Random: c.random.versionBits(), ReadGrace: c.opts.ReadGrace, SealIn: sealIn,
		}
	}
	return params
}

// committed ends the work on uploads that were seen committed.
func (c *Coordinator) committed(ctx context.Context, ups []*Upload, objects []Object) {
	for i, up := range ups {
		up.Release()
		c.event(ctx, Event{Kind: EventCommitted, Key: objects[i].Key, IntentID: objects[i].IntentID, BlobName: objects[i].Blob.Name})
	}
	if c.opts.SealLater {
		return
	}
	owed := make([]Intent, len(ups))
	for i, up := range ups {
		owed[i] = up.current()
		owed[i].State, owed[i].Version = store.Sealing, owed[i].Version+1
	}
	c.sealInline(ctx, owed)
}

// valid refuses what is not a set of uploads to commit together.
func (c *Coordinator) valid(ups []*Upload) error {
	if err := c.made(); err != nil {
		return err
	}
	if len(ups) == 0 {
		return fmt.Errorf("no upload: %w", ErrInvalid)
	}
	keys := make(map[string]bool, len(ups))
	for _, up := range ups {
		if up == nil || up.c == nil {
			return fmt.Errorf("an upload that neither Upload nor Stage made: %w", ErrInvalid)
		}
		key := up.current().Key
		if keys[key] {
			return fmt.Errorf("two uploads for %q in one commit: %w", key, ErrInvalid)
		}
		keys[key] = true
	}
	return nil
}

// replays returns the stored objects when every upload is a replay.
func (c *Coordinator) replays(ups []*Upload) ([]Object, error) {
	if err := c.valid(ups); err != nil {
		return nil, err
	}
	var objects []Object
	for _, up := range ups {
		if up.replay != nil {
			objects = append(objects, *up.replay)
		}
	}
	if n := len(objects); n != 0 && n != len(ups) {
		return nil, fmt.Errorf("%d of %d uploads were committed before: commit the others apart: %w", n, len(ups), ErrInvalid)
	}
	return objects, nil
}

func (c *Coordinator) failedUploads(op string, ups []*Upload, err error) error {
	var told *opError
	if err == nil || errors.As(err, &told) { // the caller's function returned what commit told it
		return err
	}
	var keys, ids []string
	for _, up := range ups {
		if in := up.Intent(); in.ID != "" {
			keys, ids = append(keys, in.Key), append(ids, in.ID)
		}
		if len(keys) == 3 && len(ups) > 3 {
			keys = append(keys, fmt.Sprintf("and %d more", len(ups)-3))
			break
		}
	}
	return failed(op, strings.Join(keys, ", "), strings.Join(ids, ", "), err)
}
