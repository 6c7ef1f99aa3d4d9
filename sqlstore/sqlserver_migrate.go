package sqlstore

import (
	"context"
	"fmt"

	"github.com/blobtx/blobtx/store"
)

// tables returns what begins the names of the tables in the files: there is no
// search path.
func (e *sqlServerEngine) tables(schema, prefix string) string {
	if schema == "" {
		return prefix
	}
	return `"` + schema + `".` + prefix
}

// migrate takes the lock that others wait for until the transaction ends (SQL
// Server, "sp_getapplock"), and makes the schema. DDL is part of the
// transaction.
func (e *sqlServerEngine) migrate(ctx context.Context, s session, schema, meta string) (bool, error) {
	var level, snapshot int64
	err := s.Query(ctx, e.settingsText, nil, func(scan func(dest ...any) error) error { return scan(&level, &snapshot) })
	if err == nil {
		err = checkSettings(level, snapshot)
	}
	if err != nil {
		return false, err
	}
	got, _, err := oneRow(ctx, s, scanInt, e.lockText, migrateWait.Milliseconds())
	switch {
	case err != nil:
		return false, err
	case got == -1:
		return false, fmt.Errorf("%w: another process has been migrating for %v", store.ErrBusy, migrateWait)
	case got < 0:
		return false, fmt.Errorf("sp_getapplock returned %d", got)
	}
	name := `[` + meta + `]`
	if schema != "" {
		n, _, err := oneRow(ctx, s, scanInt, e.schemasText, schema)
		if err != nil {
			return false, err
		}
		if n == 0 {
			if _, err := s.Exec(ctx, e.schemaText+`"`+schema+`"`); err != nil { // alone in its batch, as it must be
				return false, err
			}
		}
		name = `[` + schema + `].` + name
	}
	n, _, err := oneRow(ctx, s, scanInt, e.tableText, name)
	return n > 0, err
}
