//go:build unix

package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/blobtx/blobtx"
)

// write creates objects: one, or several in one commit. What an earlier life
// asked for and never heard of comes first.
func (c *client) write(ctx context.Context) error {
	if c.pending != nil {
		return c.put(ctx, *c.pending, false)
	}
	ask := c.newAsk(viaPut)
	if c.chance(2) {
		ask.Via = viaTx
	}
	parts := 1
	if c.chance(4) {
		parts = 2 + c.random.IntN(2)
	}
	for i := range parts {
		key := ownSpace + part(ask.Ask, i)
		if i == 0 && c.chance(2) {
			key = c.shared()
		}
		ask.Keys = append(ask.Keys, key)
	}
	condition := blobtx.IfAbsent()
	if c.chance(4) {
		condition = blobtx.Always()
	}
	ask.If, ask.Again = &condition, !c.chance(3)
	return c.put(ctx, ask, true)
}

// shared is a key for which others contend.
func (c *client) shared() string {
	if c.chance(2) {
		return fmt.Sprint(keptSpace, c.random.IntN(keptKeys))
	}
	return fmt.Sprint(hotSpace, c.random.IntN(hotKeys))
}

// replace puts new bytes under a key that is there.
func (c *client) replace(ctx context.Context) error {
	if c.pending != nil {
		return c.put(ctx, *c.pending, false)
	}
	key := c.shared()
	current, err := c.Get(ctx, key)
	if err != nil { // not there, or not to be reached: nothing was asked for
		return nil
	}
	ask := c.newAsk(viaPut)
	if c.chance(2) {
		ask.Via = viaTx
	}
	condition := blobtx.IfVersion(current.Version)
	switch c.random.IntN(4) {
	case 0:
		condition = blobtx.IfExists()
	case 1:
		condition = blobtx.Always()
	}
	ask.Keys, ask.If, ask.Again = []string{key}, &condition, !c.chance(3)
	return c.put(ctx, ask, true)
}

// put asks, and writes both down. First: this ask was not made before.
func (c *client) put(ctx context.Context, ask Record, first bool) error {
	ask.SHA256 = nil
	for i := range ask.Keys {
		ask.SHA256 = append(ask.SHA256, sumOf(Body(part(ask.Ask, i))))
	}
	if err := c.ledger.write(ask); err != nil {
		return err
	}
	objects, err := c.send(ctx, ask)
	return c.tell(ask, objects, err, first)
}

func (c *client) putOptions(ask Record, i int) *blobtx.PutOptions {
	o := &blobtx.PutOptions{If: *ask.If, Metadata: map[string]string{partKey: part(ask.Ask, i)}}
	if ask.Again {
		o.IdempotencyKey = part(ask.Ask, i)
	}
	if c.chance(2) {
		o.SHA256 = ask.SHA256[i]
	}
	return o
}

func (c *client) send(ctx context.Context, ask Record) ([]blobtx.Object, error) {
	if ask.Via == viaPut && len(ask.Keys) == 1 {
		o, err := c.Put(ctx, ask.Keys[0], reader(Body(part(ask.Ask, 0)), c.random), c.putOptions(ask, 0))
		if err != nil {
			return nil, err
		}
		return []blobtx.Object{o}, nil
	}
	var ups []*blobtx.Upload
	for i, key := range ask.Keys {
		up, err := c.Stage(ctx, key, reader(Body(part(ask.Ask, i)), c.random), c.putOptions(ask, i))
		if err != nil {
			return nil, err
		}
		defer up.Release()
		if c.chance(2) { // the others leave it to the sweepers
			in := up.Intent()
			defer c.Abort(ctx, &in) //nolint:errcheck // as in a handler: what fails is the sweepers'
		}
		ups = append(ups, up)
	}
	if c.chance(2) { // what an application does in between
		time.Sleep(time.Duration(c.random.Int64N(int64(maxTravel))))
	}
	if ask.Via == viaPut {
		return c.Commit(ctx, nil, ups...)
	}
	return c.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return c.inTx(ctx, ask.Ask, func(_ context.Context, tx *sql.Tx) error {
			_, err := commit(c.rows.Tx(tx))
			return err
		})
	}, ups...)
}

// remove deletes a key that is there, whatever its version or this one only,
// alone or beside an order.
func (c *client) remove(ctx context.Context) error {
	key := fmt.Sprint(hotSpace, c.random.IntN(hotKeys))
	current, err := c.Get(ctx, key)
	if err != nil {
		return nil
	}
	ask := c.newAsk(viaDelete)
	condition := blobtx.IfVersion(current.Version)
	if c.chance(2) {
		condition = blobtx.Always()
	}
	ask.Delete, ask.Keys, ask.If = true, []string{key}, &condition
	if c.chance(2) {
		ask.Via = viaTx
	}
	if err := c.ledger.write(ask); err != nil {
		return err
	}
	o := &blobtx.DeleteOptions{If: condition}
	if ask.Via == viaDelete {
		return c.tell(ask, nil, c.Delete(ctx, key, o), true)
	}
	committing := false
	err = c.inTx(ctx, ask.Ask, func(ctx context.Context, tx *sql.Tx) error {
		err := c.DeleteTx(ctx, c.rows.Tx(tx), key, o)
		committing = err == nil
		return err
	})
	if err != nil && committing && !c.rows.Retryable(err) { // COMMIT itself failed
		err = errors.Join(blobtx.ErrOutcomeUnknown, err)
	}
	return c.tell(ask, nil, err, true)
}
