package owntable

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
)

// PGX is Table with native pgx: Rows keeps blobtx's steps on a *sql.DB of its
// own, and TxOf binds those that belong into a transaction of the pool's.
type PGX struct {
	Files *blobtx.Coordinator
	Rows  *sqlstore.Store
	Pool  *pgxpool.Pool
}

// Querier is pgx.Tx as sqlstore.TxOf takes it.
type Querier struct{ pgx.Tx }

var _ sqlstore.Querier = Querier{}

// Exec implements sqlstore.Querier.
func (q Querier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := q.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

// Query implements sqlstore.Querier.
func (q Querier) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := q.Tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() // what it finds out is in Err
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Insert implements Table.
func (t PGX) Insert(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
			if _, err := commit(t.Rows.TxOf(Querier{tx})); err != nil { // first, for the foreign key
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO invoices (id, cents, version, file) VALUES ($1, $2, 1, $3)`, row.ID, row.Cents, row.File)
			return err
		})
	}, file)
	return err
}

// Update implements Table.
func (t PGX) Update(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
			n, err := Querier{tx}.Exec(ctx, `UPDATE invoices SET cents = $1, version = version + 1 WHERE id = $2 AND version = $3`, row.Cents, row.ID, row.Version)
			if err := t.met(ctx, tx, row.ID, n, err); err != nil {
				return err
			}
			_, err = commit(t.Rows.TxOf(Querier{tx}))
			return err
		})
	}, file)
	return err
}

// Delete implements Table.
func (t PGX) Delete(ctx context.Context, row Invoice) error {
	return pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
		n, err := Querier{tx}.Exec(ctx, `DELETE FROM invoices WHERE id = $1 AND version = $2`, row.ID, row.Version)
		if err := t.met(ctx, tx, row.ID, n, err); err != nil {
			return err
		}
		return t.Files.DeleteTx(ctx, t.Rows.TxOf(Querier{tx}), row.File, nil) // last, for the foreign key
	})
}

// met is nil when the change met its row. Zero rows: a locking read tells why. A
// plain one may show the row as it was before the change that won.
func (t PGX) met(ctx context.Context, tx pgx.Tx, id string, n int64, err error) error {
	if err != nil || n == 1 {
		return err
	}
	var version int64
	err = tx.QueryRow(ctx, `SELECT version FROM invoices WHERE id = $1 FOR UPDATE`, id).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrDeleted
	}
	if err != nil {
		return err
	}
	return modified(version)
}
