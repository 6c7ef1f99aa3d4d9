package owntable_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/examples/owntable"
	"github.com/blobtx/blobtx/sqlstore"
)

var seven = owntable.Invoice{ID: "7", Cents: 1000, Version: 1, File: "invoice/7"}

func (w *world) create(row owntable.Invoice, body string) error {
	return owntable.Create(w.t.Context(), w.Coordinator, w.table, row, strings.NewReader(body))
}

func TestTwoWriters(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "ten"))
		require.Equal(t, []owntable.Invoice{seven}, w.invoices())
		require.Equal(t, []string{"invoice/7: ten"}, w.files())

		a, b := w.stage("invoice/7", "twelve", blobtx.IfExists()), w.stage("invoice/7", "nine", blobtx.IfExists())
		won := seven
		won.Cents = 1200
		require.NoError(t, w.table.Update(t.Context(), won, a))
		won.Version = 2
		late := seven
		late.Cents = 900
		err := w.table.Update(t.Context(), late, b)
		require.ErrorIs(t, err, owntable.ErrModified)
		require.ErrorContains(t, err, "at version 2")
		require.Equal(t, []owntable.Invoice{won}, w.invoices())
		require.Equal(t, []string{"invoice/7: twelve"}, w.files())

		// The upload that lost is still there, and may be committed by whoever
		// reads the row again.
		late.Version = 2
		require.NoError(t, w.table.Update(t.Context(), late, b))
		late.Version = 3
		require.Equal(t, []owntable.Invoice{late}, w.invoices())
		require.Equal(t, []string{"invoice/7: nine"}, w.files())
		w.swept()
	})
}

// A row that is deleted under a change takes the change's file with it.
func TestDeletedUnderAChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "ten"))
		late := w.stage("invoice/7", "twelve", blobtx.Always()) // would create
		stale := seven
		stale.Version = 9
		require.ErrorIs(t, w.table.Delete(t.Context(), stale), owntable.ErrModified)
		require.Equal(t, []string{"invoice/7: ten"}, w.files())
		require.NoError(t, w.table.Delete(t.Context(), seven))
		require.ErrorIs(t, w.table.Delete(t.Context(), seven), owntable.ErrDeleted)
		require.ErrorIs(t, w.table.Update(t.Context(), seven, late), owntable.ErrDeleted)
		require.Empty(t, w.invoices())
		require.Empty(t, w.files())
		w.swept()
	})
}

// Whichever half fails, and whichever came first, the other is undone.
func TestEitherHalfUndoesTheOther(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "ten"))
		o, err := w.Get(t.Context(), "invoice/7")
		require.NoError(t, err)

		// The object is refused, after the row was changed.
		up := w.stage("invoice/7", "twelve", blobtx.IfVersion(o.Version))
		moved, err := w.SetMetadata(t.Context(), "invoice/7", map[string]string{"a": "b"}, nil)
		require.NoError(t, err)
		var conflict *blobtx.ConflictError
		require.ErrorAs(t, w.table.Update(t.Context(), seven, up), &conflict)
		require.Equal(t, moved.Version, conflict.Current.Version)

		// The object is refused, before the row is written.
		other := owntable.Invoice{ID: "8", Cents: 1, Version: 1, File: "invoice/8"}
		first, second := w.stage("invoice/8", "first", blobtx.IfAbsent()), w.stage("invoice/8", "second", blobtx.IfAbsent())
		require.NoError(t, w.table.Insert(t.Context(), other, first))
		again := other
		again.ID = "9"
		require.ErrorIs(t, w.table.Insert(t.Context(), again, second), blobtx.ErrExists)

		// The row is refused, after the object was committed: there is an invoice 7.
		taken := seven
		taken.File = "invoice/7b"
		err = w.create(taken, "seven again")
		require.Error(t, err)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)

		require.Equal(t, []owntable.Invoice{seven, other}, w.invoices())
		require.Equal(t, []string{"invoice/7: ten", "invoice/8: first"}, w.files())
		w.swept()
	})
}

// Create and Change clean up behind themselves: no sweep is needed.
func TestAFailedChangeLeavesNoBlob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "ten"))
		before, named := w.container()
		require.Equal(t, named, before)
		stale := seven
		stale.Version = 9
		err := owntable.Change(t.Context(), w.Coordinator, w.table, stale, strings.NewReader("lost"))
		require.ErrorIs(t, err, owntable.ErrModified)
		taken := seven
		taken.File = "invoice/7b"
		require.Error(t, w.create(taken, "lost"))
		after, _ := w.container()
		require.Equal(t, before, after)
		require.Equal(t, []owntable.Invoice{seven}, w.invoices())
		require.Equal(t, []string{"invoice/7: ten"}, w.files())
	})
}

func TestOneOfEightWins(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "0"))
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			row := seven
			row.Cents = int64(i)
			up := w.stage("invoice/7", fmt.Sprint(i), blobtx.IfExists())
			all.Go(func() { errs[i] = w.table.Update(t.Context(), row, up) })
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, won, "two won")
				won = i
				continue
			}
			require.ErrorIs(t, err, owntable.ErrModified)
		}
		require.GreaterOrEqual(t, won, 0, "%v", errors.Join(errs...))
		require.Equal(t, []owntable.Invoice{{ID: "7", Cents: int64(won), Version: 2, File: "invoice/7"}}, w.invoices())
		require.Equal(t, []string{"invoice/7: " + fmt.Sprint(won)}, w.files())
		w.swept()
	})
}

func TestTheForeignKeyHolds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		require.NoError(t, w.create(seven, "ten"))
		_, err := w.db.ExecContext(t.Context(), "INSERT INTO invoices (id, cents, version, file) VALUES ('8', 1, 1, 'no such file')")
		require.Error(t, err)
		require.Error(t, w.Delete(t.Context(), "invoice/7", nil), "its row is there")
		require.Equal(t, []owntable.Invoice{seven}, w.invoices())
		require.Equal(t, []string{"invoice/7: ten"}, w.files())
		require.NoError(t, w.table.Delete(t.Context(), seven))
		require.Empty(t, w.files())
		w.swept()
	})
}

// Why the DSN has foreign_keys(1): without it the schema promises what nobody
// keeps.
func TestSQLiteChecksForeignKeysOnlyWhenAsked(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "app.db")
	w := open(t, sqlstore.SQLite, "sqlite", file+"?"+pragmas, owntable.Schema)
	const dangling = "INSERT INTO invoices (id, cents, version, file) VALUES ('8', 1, 1, 'no such file')"
	_, err := w.db.ExecContext(t.Context(), dangling)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", file+"?_pragma=foreign_keys(1)"+pragmas)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "INSERT INTO invoices (id, cents, version, file) VALUES ('9', 1, 1, 'nor this')")
	require.ErrorContains(t, err, "FOREIGN KEY")
}

// Why the read that tells modified from deleted takes a lock: within a snapshot
// that is older than the winner, a plain one shows the row that has gone.
func TestAPlainReadTellsOfThePast(t *testing.T) {
	w := onMariaDB(t).withSQLX("mysql", owntable.ForUpdate)
	require.NoError(t, w.create(seven, "ten"))
	ctx := t.Context()
	conn, err := w.db.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "SET SESSION innodb_snapshot_isolation = OFF") // the default changed in MariaDB 11.6
	require.NoError(t, err)
	tx, err := conn.BeginTx(ctx, nil) // REPEATABLE READ
	require.NoError(t, err)
	defer tx.Rollback() //nolint:errcheck // it only reads
	var version int
	const plain = "SELECT version FROM invoices WHERE id = '7'"
	require.NoError(t, tx.QueryRowContext(ctx, plain).Scan(&version))
	require.NoError(t, w.table.Delete(ctx, seven))
	res, err := tx.ExecContext(ctx, "UPDATE invoices SET version = version + 1 WHERE id = '7' AND version = 1")
	require.NoError(t, err)
	n, err := res.RowsAffected()
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, tx.QueryRowContext(ctx, plain).Scan(&version))
	require.Equal(t, 1, version, "as if nothing had happened")
	require.ErrorIs(t, tx.QueryRowContext(ctx, plain+owntable.ForUpdate).Scan(&version), sql.ErrNoRows)
}
