//go:build unix

package soak

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/blobtx/blobtx"
)

// look reads a key to its end, or a range of it, at once or with a pause in the
// middle, in which others replace and delete it. What could not be read for
// want of a connection, or because it was replaced, is not written down.
func (c *client) look(ctx context.Context) error {
	key := c.shared()
	if c.chance(3) {
		key = ownSpace
		for o, err := range c.List(ctx, &blobtx.ListOptions{Prefix: ownSpace, After: ownSpace + c.anyAsk(), Limit: 1}) {
			if err != nil {
				return nil
			}
			key = o.Key
		}
		if key == ownSpace {
			return nil
		}
	}
	r := Record{Kind: saw, At: time.Now(), Key: key}
	object, body, err := c.read(ctx, key)
	switch {
	case errors.Is(err, blobtx.ErrCorrupt):
		r.Answer, r.Error = broken, err.Error()
	case errors.Is(err, blobtx.ErrConflict):
		return nil
	case errors.Is(err, blobtx.ErrNotFound):
		return c.ledger.write(r)
	case err != nil:
		return nil
	}
	r.Version, r.Part = object.Version, object.Metadata[partKey]
	if body != nil {
		r.SHA256 = []string{sumOf(body)}
	}
	return c.ledger.write(r)
}

// anyAsk is somewhere in the listing of asks.
func (c *client) anyAsk() string {
	return []string{"", "replacer", "writer-1", "writer-2", "writer-3"}[c.random.IntN(5)] + string(rune('-'+c.random.IntN(13)))
}

// read returns the object whose bytes were read, and the bytes.
func (c *client) read(ctx context.Context, key string) (blobtx.Object, []byte, error) {
	r, err := c.Open(ctx, key, nil)
	if err != nil {
		return blobtx.Object{}, nil, err
	}
	defer r.Close()
	if c.chance(4) {
		return c.readRange(r)
	}
	var body bytes.Buffer
	if c.chance(5) {
		if _, err := io.CopyN(&body, r, 1+c.random.Int64N(8<<10)); err != nil && err != io.EOF {
			return r.Object(), nil, err
		}
		time.Sleep(time.Duration(c.random.Int64N(int64(protocol.ReadGrace) / 2)))
	}
	_, err = io.Copy(&body, r)
	return r.Object(), body.Bytes(), err
}

// readRange reads the end of the object from a random place and puts the bytes
// that should stand before it in front, so that its sum can be compared.
func (c *client) readRange(r *blobtx.Reader) (blobtx.Object, []byte, error) {
	object := r.Object()
	whole := Body(object.Metadata[partKey])
	from := c.random.Int64N(int64(len(whole)) + 1)
	if _, err := r.Seek(from, io.SeekStart); err != nil {
		return object, nil, err
	}
	end, err := io.ReadAll(r)
	return object, append(whole[:from:from], end...), err
}
