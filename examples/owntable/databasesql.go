package owntable

import (
	"context"
	"database/sql"
	"errors"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
)

// DatabaseSQL is Table with nothing but database/sql.
type DatabaseSQL struct {
	Files *blobtx.Coordinator
	Rows  *sqlstore.Store
	// Lock is ForUpdate on servers. SQLite has no locking read and needs none:
	// after its first write a transaction has the whole database.
	Lock string
}

// ForUpdate makes a SELECT a locking read.
const ForUpdate = " FOR UPDATE"

// Insert implements Table.
func (t DatabaseSQL) Insert(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.Rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := commit(t.Rows.Tx(tx)); err != nil { // first, for the foreign key
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO invoices (id, cents, version, file) VALUES ($1, $2, 1, $3)`, row.ID, row.Cents, row.File)
			return err
		})
	}, file)
	return err
}

// Update implements Table.
func (t DatabaseSQL) Update(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.Rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, `UPDATE invoices SET cents = $1, version = version + 1 WHERE id = $2 AND version = $3`, row.Cents, row.ID, row.Version)
			if err := t.met(ctx, tx, row.ID, res, err); err != nil {
				return err
			}
			_, err = commit(t.Rows.Tx(tx))
			return err
		})
	}, file)
	return err
}

// Delete implements Table.
func (t DatabaseSQL) Delete(ctx context.Context, row Invoice) error {
	return t.Rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM invoices WHERE id = $1 AND version = $2`, row.ID, row.Version)
		if err := t.met(ctx, tx, row.ID, res, err); err != nil {
			return err
		}
		return t.Files.DeleteTx(ctx, t.Rows.Tx(tx), row.File, nil) // last, for the foreign key
	})
}

// met is nil when the change met its row. Zero rows: a locking read tells why. A
// plain one may show the row as it was before the change that won.
func (t DatabaseSQL) met(ctx context.Context, tx *sql.Tx, id string, res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var version int64
	err = tx.QueryRowContext(ctx, `SELECT version FROM invoices WHERE id = $1`+t.Lock, id).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrDeleted
	}
	if err != nil {
		return err
	}
	return modified(version)
}
