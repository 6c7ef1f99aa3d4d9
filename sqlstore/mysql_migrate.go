package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

// migrateWait is how long a process waits for another that migrates.
const migrateWait = time.Minute

// mysqlMigrateLock is one for each database that has the tables, however the
// connection or Options.Schema names it. A name has at most 64 characters.
func mysqlMigrateLock(meta string) string {
	database := `coalesce(DATABASE(), '')`
	if schema, _, qualified := strings.Cut(meta, "."); qualified {
		database = strings.ReplaceAll(schema, "`", "'")
	}
	return `CONCAT('blobtx migrate ', MD5(` + database + `))`
}

// alone runs fn under a lock of the session that all processes on the server
// share (MySQL, "Locking Functions"). DDL commits by itself here, so there is no
// transaction to hold a lock; a connection that is lost sets this one free.
func (e *mysqlEngine) alone(ctx context.Context, c *sql.Conn, fn func() error) error {
	q := sqlQuerier{c}
	got, _, err := oneRow(ctx, q, scanInt, `SELECT coalesce(GET_LOCK(`+e.migrateLock+`, ?), -1)`, int64(migrateWait.Seconds()))
	if err != nil {
		return err
	}
	if got != 1 {
		return fmt.Errorf("%w: another process has been migrating for %v", store.ErrBusy, migrateWait)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleBound)
		defer cancel()
		if _, _, err := oneRow(ctx, q, scanInt, `SELECT coalesce(RELEASE_LOCK(`+e.migrateLock+`), -1)`); err != nil {
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return fn()
}

// tables returns what begins the names of the tables in the files. Names of
// indexes belong to their table and have no prefix there.
func (e *mysqlEngine) tables(schema, prefix string) string {
	if schema == "" {
		return prefix
	}
	return "`" + schema + "`." + prefix
}

// migrate makes the database. A crash between the last table and the row that
// records the version leaves files to run again.
func (e *mysqlEngine) migrate(ctx context.Context, s session, schema, meta string) (bool, error) {
	if on, _, err := oneRow(ctx, s, scanInt, `SELECT @@autocommit`); err != nil || on == 0 {
		return false, cmp.Or(err, errAutocommit)
	}
	if schema != "" {
		n, _, err := oneRow(ctx, s, scanInt, `SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?`, schema)
		if err != nil {
			return false, err
		}
		if n == 0 {
			if _, err := s.Exec(ctx, "CREATE DATABASE IF NOT EXISTS `"+schema+"`"); err != nil {
				return false, err
			}
		}
	}
	where, args := `DATABASE()`, []any{meta}
	if schema != "" {
		where, args = `?`, []any{schema, meta}
	}
	n, _, err := oneRow(ctx, s, scanInt, `SELECT count(*) FROM information_schema.tables WHERE table_schema = `+where+` AND table_name = ?`, args...)
	if err != nil || n == 0 {
		return false, err
	}
	n, _, err = oneRow(ctx, s, scanInt, e.versionRowsText)
	return n > 0, err
}
