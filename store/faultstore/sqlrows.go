package faultstore

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// sqlRows is a result that is being read. It ends with its connection: a
// driver's rows must not be touched once their connection is closed.
type sqlRows struct {
	under driver.Rows
	c     *conn
}

// reading keeps track of what is being read from the connection.
func (c *conn) reading(under driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	r := &sqlRows{under, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*sqlRows]bool)
	}
	c.open[r] = true
	return r, nil
}

// Columns implements driver.Rows.
func (r *sqlRows) Columns() []string { return r.under.Columns() }

// Next implements driver.Rows. What was read before the connection broke may
// have been buffered by a real driver; here it is gone.
func (r *sqlRows) Next(dest []driver.Value) error {
	if err := r.c.enter(); err != nil {
		return err
	}
	defer r.c.leave()
	return r.under.Next(dest)
}

// Close implements driver.Rows.
func (r *sqlRows) Close() error {
	r.c.mu.Lock()
	open := r.c.open[r]
	delete(r.c.open, r)
	r.c.mu.Unlock()
	if !open {
		return nil
	}
	return r.under.Close()
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *sqlRows) HasNextResultSet() bool {
	n, ok := r.under.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *sqlRows) NextResultSet() error {
	n, ok := r.under.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	if err := r.c.enter(); err != nil {
		return err
	}
	defer r.c.leave()
	return n.NextResultSet()
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *sqlRows) ColumnTypeScanType(index int) reflect.Type {
	if t, ok := r.under.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *sqlRows) ColumnTypeDatabaseTypeName(index int) string {
	if t, ok := r.under.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *sqlRows) ColumnTypeNullable(index int) (nullable, ok bool) {
	if t, has := r.under.(driver.RowsColumnTypeNullable); has {
		return t.ColumnTypeNullable(index)
	}
	return false, false
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *sqlRows) ColumnTypeLength(index int) (length int64, ok bool) {
	if t, has := r.under.(driver.RowsColumnTypeLength); has {
		return t.ColumnTypeLength(index)
	}
	return 0, false
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *sqlRows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if t, has := r.under.(driver.RowsColumnTypePrecisionScale); has {
		return t.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}
