package faultstore

import (
	"context"
	"database/sql/driver"
)

// stmt is a prepared statement; running it is a step.
type stmt struct {
	under driver.Stmt
	c     *conn
	query string
}

func (s *stmt) Close() error {
	if err := s.c.enter(); err != nil {
		return nil // it went with its connection
	}
	defer s.c.leave()
	return s.under.Close()
}

func (s *stmt) NumInput() int { return s.under.NumInput() }

// Exec implements driver.Stmt; database/sql calls ExecContext.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements driver.Stmt; database/sql calls QueryContext.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return sqlStep(ctx, s.c, s.c.statementOp(s.query, true), func(ctx context.Context) (driver.Result, error) {
		if x, ok := s.under.(driver.StmtExecContext); ok {
			return s.c.ran(s.query, func() (driver.Result, error) { return x.ExecContext(ctx, args) })
		}
		return s.c.ran(s.query, func() (driver.Result, error) {
			return s.under.Exec(plain(args)) //nolint:staticcheck // what a driver without contexts has
		})
	})
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return sqlStep(ctx, s.c, s.c.statementOp(s.query, !reads(s.query)), func(ctx context.Context) (driver.Rows, error) {
		if q, ok := s.under.(driver.StmtQueryContext); ok {
			return s.c.reading(q.QueryContext(ctx, args))
		}
		return s.c.reading(s.under.Query(plain(args))) //nolint:staticcheck // what a driver without contexts has
	})
}

// CheckNamedValue implements driver.NamedValueChecker.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.under.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	if c, ok := s.under.(driver.ColumnConverter); ok { //nolint:staticcheck // what an older driver has
		value, err := c.ColumnConverter(v.Ordinal - 1).ConvertValue(v.Value)
		v.Value = value
		return err
	}
	return s.c.CheckNamedValue(v)
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}

func plain(args []driver.NamedValue) []driver.Value {
	out := make([]driver.Value, len(args))
	for i, v := range args {
		out[i] = v.Value
	}
	return out
}
