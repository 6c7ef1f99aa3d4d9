package blobtx

import (
	"context"
	"fmt"
	"iter"

	"github.com/blobtx/blobtx/store"
)

// ListOptions configures List.
type ListOptions struct {
	Prefix string // keys that begin with it
	After  string // keys greater than it, in byte order
	Limit  int    // at most so many objects; 0: all
}

// List yields objects in the byte order of their keys, page by page: nothing is
// held open while the caller's loop body runs. An error ends it.
func (c *Coordinator) List(ctx context.Context, opts *ListOptions) iter.Seq2[Object, error] {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(Object, error) bool) {
		if err := c.made(); err != nil {
			yield(Object{}, failed("list", o.Prefix, "", err))
			return
		}
		if o.Limit < 0 {
			yield(Object{}, failed("list", o.Prefix, "", fmt.Errorf("limit %d: %w", o.Limit, ErrInvalid)))
			return
		}
		const page = 200
		after, left := o.After, o.Limit
		for {
			n := page
			if o.Limit > 0 {
				n = min(n, left)
			}
			objects, err := c.rows.ListObjects(ctx, store.ListParams{Prefix: o.Prefix, After: after, Limit: n})
			if err != nil {
				yield(Object{}, failed("list", o.Prefix, "", err))
				return
			}
			for _, object := range objects {
				if !yield(object, nil) {
					return
				}
			}
			left -= len(objects)
			if len(objects) < n || o.Limit > 0 && left == 0 {
				return
			}
			after = objects[len(objects)-1].Key
		}
	}
}
