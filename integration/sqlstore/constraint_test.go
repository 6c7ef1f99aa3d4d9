package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store/memstore"
)

// A statement that a constraint refuses is decided: nothing is repeated, and
// nothing is unknown.
func TestDeleteOfAnObjectThatARowRefersTo(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		rows, db := d.migrated(t, nil)
		db.SetMaxOpenConns(1)
		if d.dialect == sqlstore.SQLite {
			_, err := db.ExecContext(t.Context(), "PRAGMA foreign_keys = ON")
			require.NoError(t, err)
		}
		kind := "VARCHAR(700)"
		if d.dialect == sqlstore.MySQL {
			kind = "VARBINARY(700)"
		}
		if d.dialect == sqlstore.Postgres {
			kind = `TEXT COLLATE "C"`
		}
		_, err := db.ExecContext(t.Context(), "CREATE TABLE invoices (file "+kind+" NOT NULL, FOREIGN KEY (file) REFERENCES blobtx_objects (object_key))")
		require.NoError(t, err)
		c, err := blobtx.New(rows, memstore.NewBlobs(nil), nil)
		require.NoError(t, err)
		_, err = c.Put(t.Context(), "k", strings.NewReader("x"), nil)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "INSERT INTO invoices VALUES ('k')")
		require.NoError(t, err)

		err = c.Delete(t.Context(), "k", nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.NotErrorIs(t, err, blobtx.ErrOutcomeUnknown)
		_, err = c.Get(t.Context(), "k")
		require.NoError(t, err)
	})
}
