package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// Tx is a transaction of the caller's. *sql.Tx, *sqlx.Tx and gorm's ConnPool
// inside a transaction have these methods; *sql.DB and *sql.Conn do not, so a
// step that belongs in a transaction cannot be run outside one by mistake.
// Commit and Rollback are never called.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Querier is what the steps need of a transaction, for those that are not
// database/sql's: twenty lines over pgx.Tx. Arguments are string and int64, on
// SQL Server also []byte, destinations *string and *int64.
type Querier interface {
	// Exec returns how many rows the statement changed.
	Exec(ctx context.Context, query string, args ...any) (rowsAffected int64, err error)
	// Query calls each for every row, in order, until it returns an error,
	// which Query returns. scan is not used after each returned. When Query
	// returns, nothing of the statement is pending and its error, also one that
	// came after the last row, was returned.
	Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error
}

// sqlQuerier is a Querier over *sql.Conn and Tx. It has no method that reaches
// *sql.DB: what goes through the pool may be sent twice by database/sql when
// the driver says ErrBadConn, and say nothing.
type sqlQuerier struct {
	c interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

func (q sqlQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := q.c.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (q sqlQuerier) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := q.c.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() // the one that counts is below
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// clockQuerier moves the database's clock, in tests.
type clockQuerier struct {
	Querier
	offset func() time.Duration
}

func (q clockQuerier) at(query string) string {
	return strings.ReplaceAll(query, offsetToken, "+("+strconv.FormatInt(micros(q.offset()), 10)+")")
}

func (q clockQuerier) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return q.Querier.Exec(ctx, q.at(query), args...)
}

func (q clockQuerier) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	return q.Querier.Query(ctx, q.at(query), args, each)
}

// oneRow runs a statement that returns at most one row.
func oneRow[T any](ctx context.Context, q Querier, scan func(scan func(dest ...any) error) (T, error), query string, args ...any) (T, bool, error) {
	var got T
	found := false
	err := q.Query(ctx, query, args, func(row func(dest ...any) error) (err error) {
		got, err = scan(row)
		found = true
		return err
	})
	return got, found && err == nil, err
}

// allRows runs a statement that returns any number of rows.
func allRows[T any](ctx context.Context, q Querier, scan func(scan func(dest ...any) error) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := q.Query(ctx, query, args, func(row func(dest ...any) error) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func scanInt(scan func(dest ...any) error) (n int64, err error)     { err = scan(&n); return n, err }
func scanString(scan func(dest ...any) error) (s string, err error) { err = scan(&s); return s, err }
