package owntable

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
)

// SQLX is Table with github.com/jmoiron/sqlx: *sqlx.Tx fits sqlstore.Tx.
type SQLX struct {
	Files *blobtx.Coordinator
	Rows  *sqlstore.Store
	DB    *sqlx.DB
	Lock  string // ForUpdate, or empty on SQLite
}

// Insert implements Table.
func (t SQLX) Insert(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.inTx(ctx, func(tx *sqlx.Tx) error {
			if _, err := commit(t.Rows.Tx(tx)); err != nil { // first, for the foreign key
				return err
			}
			_, err := tx.NamedExecContext(ctx, `INSERT INTO invoices (id, cents, version, file) VALUES (:id, :cents, 1, :file)`, row)
			return err
		})
	}, file)
	return err
}

// Update implements Table.
func (t SQLX) Update(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.inTx(ctx, func(tx *sqlx.Tx) error {
			if err := t.change(ctx, tx, `UPDATE invoices SET cents = :cents, version = version + 1 WHERE id = :id AND version = :version`, row); err != nil {
				return err
			}
			_, err := commit(t.Rows.Tx(tx))
			return err
		})
	}, file)
	return err
}

// Delete implements Table.
func (t SQLX) Delete(ctx context.Context, row Invoice) error {
	return t.inTx(ctx, func(tx *sqlx.Tx) error {
		if err := t.change(ctx, tx, `DELETE FROM invoices WHERE id = :id AND version = :version`, row); err != nil {
			return err
		}
		return t.Files.DeleteTx(ctx, t.Rows.Tx(tx), row.File, nil) // last, for the foreign key
	})
}

// change requires that the statement meets its row. Zero rows: a locking read
// tells why. A plain one may show the row as it was before the change that won.
func (t SQLX) change(ctx context.Context, tx *sqlx.Tx, query string, row Invoice) error {
	res, err := tx.NamedExecContext(ctx, query, row)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var version int64
	err = tx.GetContext(ctx, &version, tx.Rebind(`SELECT version FROM invoices WHERE id = ?`+t.Lock), row.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrDeleted
	}
	if err != nil {
		return err
	}
	return modified(version)
}

func (t SQLX) inTx(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	tx, err := t.DB.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
