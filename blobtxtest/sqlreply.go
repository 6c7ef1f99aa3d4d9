package blobtxtest

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// answer is a reply that digests itself.
type answer interface{ digest(h *hasher, d *digest) }

type sqlResult struct{ last, affected int64 }

func (r sqlResult) LastInsertId() (int64, error) { return r.last, nil }
func (r sqlResult) RowsAffected() (int64, error) { return r.affected, nil }

func (r sqlResult) digest(_ *hasher, d *digest) {
	d.word(uint64(r.last))
	d.word(uint64(r.affected))
}

func readResult(query string, under driver.Result) (r sqlResult, err error) {
	if r.affected, err = under.RowsAffected(); err != nil || r.affected == 0 || firstWord(query) != "INSERT" {
		return r, err // what SQLite calls the last id is an earlier statement's
	}
	r.last, err = under.LastInsertId()
	return r, err
}

func (t *sqlTx) digest(_ *hasher, d *digest) { d.word(4) }

// sqlRows are rows that were read to their end: so nothing that is open on a
// connection depends on how far somebody has read.
type sqlRows struct {
	columns, types []string
	rows           [][]driver.Value
	next           int
}

func readRows(under driver.Rows) (*sqlRows, error) {
	r := &sqlRows{columns: under.Columns()}
	r.types = make([]string, len(r.columns))
	if t, ok := under.(driver.RowsColumnTypeDatabaseTypeName); ok {
		for i := range r.types {
			r.types[i] = t.ColumnTypeDatabaseTypeName(i)
		}
	}
	for {
		row := make([]driver.Value, len(r.columns))
		err := under.Next(row)
		if errors.Is(err, io.EOF) {
			return r, under.Close()
		}
		if err != nil {
			return nil, errors.Join(err, under.Close())
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = append([]byte{}, b...) // the driver's, until Next
			}
		}
		r.rows = append(r.rows, row)
	}
}

func (r *sqlRows) Columns() []string                           { return r.columns }
func (r *sqlRows) ColumnTypeDatabaseTypeName(index int) string { return r.types[index] }
func (r *sqlRows) Close() error                                { return nil }

func (r *sqlRows) Next(dest []driver.Value) error {
	if r.next == len(r.rows) {
		return io.EOF
	}
	copy(dest, r.rows[r.next])
	r.next++
	return nil
}

func (r *sqlRows) digest(h *hasher, d *digest) {
	d.word(uint64(len(r.rows)))
	for _, row := range r.rows {
		for _, v := range row {
			h.value(d, v)
		}
	}
}

// value digests one column of one row.
func (h *hasher) value(d *digest, v driver.Value) {
	switch v := v.(type) {
	case nil:
		d.word(1)
	case int64:
		d.word(2)
		d.word(uint64(v))
	case float64:
		d.word(3)
		d.word(math.Float64bits(v))
	case bool:
		d.word(4)
		d.yes(v)
	case string:
		d.word(5)
		h.column(d, v)
	case []byte:
		d.word(6)
		h.column(d, string(v))
	case time.Time:
		d.word(7)
		d.time(v)
	default:
		d.text(fmt.Sprint(v))
	}
}

// column digests a text that may be an ETag, or the facts of a blob.
func (h *hasher) column(d *digest, s string) {
	if strings.HasPrefix(s, `{"etag":`) {
		var facts struct{ ETag string }
		if json.Unmarshal([]byte(s), &facts) == nil {
			if quoted, err := json.Marshal(facts.ETag); err == nil {
				h.etag(d, facts.ETag)
				s = strings.Replace(s, string(quoted), "", 1)
			}
		}
	}
	h.etag(d, s)
}
