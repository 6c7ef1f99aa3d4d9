package owntable

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// GORM is Table with gorm.io/gorm, on any of its databases. Its Transaction does
// not tell whether the function failed or COMMIT did; CommitWith finds out.
type GORM struct {
	Files *blobtx.Coordinator
	Rows  *sqlstore.Store
	DB    *gorm.DB
}

// Insert implements Table.
func (t GORM) Insert(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if _, err := commit(t.bind(tx)); err != nil { // first, for the foreign key
				return err
			}
			row.Version = 1
			return tx.Create(&row).Error
		})
	}, file)
	return err
}

// Update implements Table.
func (t GORM) Update(ctx context.Context, row Invoice, file *blobtx.Upload) error {
	_, err := t.Files.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return t.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := t.met(tx, row, this(tx, row).Updates(map[string]any{"cents": row.Cents, "version": gorm.Expr("version + 1")})); err != nil {
				return err
			}
			_, err := commit(t.bind(tx))
			return err
		})
	}, file)
	return err
}

// Delete implements Table.
func (t GORM) Delete(ctx context.Context, row Invoice) error {
	return t.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := t.met(tx, row, this(tx, row).Delete(&Invoice{})); err != nil {
			return err
		}
		return t.Files.DeleteTx(ctx, t.bind(tx), row.File, nil) // last, for the foreign key
	})
}

// bind is gorm's transaction as sqlstore takes it. Outside a transaction the
// assertion fails, because a pool has no Commit.
func (t GORM) bind(tx *gorm.DB) store.RowTx {
	return t.Rows.Tx(tx.Statement.ConnPool.(sqlstore.Tx))
}

// this is the row, as long as it has the version it was read with.
func this(tx *gorm.DB, row Invoice) *gorm.DB {
	return tx.Model(&Invoice{}).Where("id = ? AND version = ?", row.ID, row.Version)
}

// met is nil when the change met its row. Zero rows: a locking read tells why. A
// plain one may show the row as it was before the change that won. Where the
// database has no locking read, gorm leaves the clause out.
func (t GORM) met(tx *gorm.DB, row Invoice, change *gorm.DB) error {
	if change.Error != nil || change.RowsAffected == 1 {
		return change.Error
	}
	var now Invoice
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&now, "id = ?", row.ID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return ErrDeleted
	}
	if err != nil {
		return err
	}
	return modified(now.Version)
}
