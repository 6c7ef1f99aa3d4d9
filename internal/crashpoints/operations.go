package crashpoints

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
)

// operation is one table of the page.
type operation struct {
	name  string
	about string
	// told is what the caller is told of a success, and of a failure that is
	// final.
	done, refused string
	// replaces: there is an object already.
	replaces bool
	// gone: the operation's success is that there is no object.
	gone bool
	run  func(ctx context.Context, p *process) error
}

const key = "k"

func operations() []operation {
	put := func(body []byte, opts func(p *process) *blobtx.PutOptions) func(context.Context, *process) error {
		return func(ctx context.Context, p *process) error {
			_, err := p.Put(ctx, key, bytes.NewReader(body), opts(p))
			return err
		}
	}
	create := func(*process) *blobtx.PutOptions { return nil }
	replace := func(p *process) *blobtx.PutOptions {
		return &blobtx.PutOptions{If: blobtx.IfVersion(p.old.Version)}
	}
	return []operation{
		{
			name: "Put", about: "A new object, its bytes in one request.",
			done: "stored", refused: "not stored", run: put([]byte("new"), create),
		},
		{
			name: "Put, in blocks", about: "A new object whose body is longer than a block.",
			done: "stored", refused: "not stored", run: put(bytes.Repeat([]byte("b"), blockSize+1), create),
		},
		{
			name: "A replace", about: "`Put` with `IfVersion`, over an object that is there.",
			done: "stored", refused: "not stored", replaces: true, run: put([]byte("new"), replace),
		},
		{
			name: "Delete", about: "Of an object that is there.",
			done: "deleted", refused: "not deleted", replaces: true, gone: true,
			run: func(ctx context.Context, p *process) error { return p.Delete(ctx, key, nil) },
		},
		{
			name:  "CommitWith",
			about: "`Stage`, then `CommitWith` around a transaction of the caller's own. After a failure the caller does nothing.",
			done:  "stored", refused: "not stored", run: commitWith,
		},
	}
}

func commitWith(ctx context.Context, p *process) error {
	up, err := p.Stage(ctx, key, strings.NewReader("new"), nil)
	if err != nil {
		return err
	}
	defer up.Release()
	objects, err := p.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		begun, err := p.w.rows.Begin(ctx)
		if err != nil {
			return err
		}
		tx := faultstore.Tx(begun, p.alive)
		defer func() { _ = tx.Rollback() }()
		if _, err := commit(store.RowTx(tx)); err != nil {
			return err
		}
		return tx.Commit()
	}, up)
	if err == nil && len(objects) != 1 {
		err = fmt.Errorf("%d objects", len(objects))
	}
	return err
}
