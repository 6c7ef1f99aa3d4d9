package blobtxtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

// looker reads the whole database, from a connection of its own and past every
// fault.
type looker struct {
	p       *sqlPlace
	conn    *sql.Conn
	version int64    // of the database, when it was read last
	tables  []string // the application's
	rows    []*sqlRows
}

// What package sqlstore keeps in its tables, under its standard prefix.
const (
	blobtxPrefix = "blobtx_"
	dataVersion  = "PRAGMA data_version" // moves when another connection commits
	intentIDs    = "SELECT id FROM blobtx_intents ORDER BY id"
	retiredRows  = "SELECT blob_name, intent_id, coalesce(due_at, 0), attempts, last_error, watched FROM blobtx_retired ORDER BY blob_name"
)

func (l *looker) open(p *sqlPlace) (err error) {
	l.p, l.version = p, -1
	if l.conn, err = p.db.Conn(context.Background()); err != nil {
		return err
	}
	names, err := l.read("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		return err
	}
	for _, row := range names.rows {
		if name := fmt.Sprint(row[0]); !strings.HasPrefix(name, blobtxPrefix) {
			l.tables = append(l.tables, name)
		}
	}
	return nil
}

func (l *looker) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// read runs a query past package database/sql, whose conversions nobody needs.
func (l *looker) read(query string) (rows *sqlRows, err error) {
	err = l.conn.Raw(func(c any) error {
		got, err := c.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
		if err == nil {
			rows = got.(*sqlRows)
		}
		return err
	})
	return rows, err
}

// look reads what has changed since.
func (p *sqlPlace) look(s *snapshot) error {
	s.blobs = s.blobs[:0]
	for info, err := range p.blobs.List(context.Background(), store.ListBlobsParams{}) {
		if err != nil {
			return err
		}
		s.blobs = append(s.blobs, info)
	}
	version, err := p.looker.read(dataVersion)
	if err != nil {
		return err
	}
	if now := version.rows[0][0].(int64); now != p.looker.version || s.intents == nil {
		p.looker.version = now
		return p.looker.all(s)
	}
	return nil
}

func (l *looker) all(s *snapshot) error {
	ctx := context.Background()
	ids, err := l.read(intentIDs)
	if err != nil {
		return err
	}
	names := make([]string, len(ids.rows))
	for i, row := range ids.rows {
		names[i] = fmt.Sprint(row[0])
	}
	if s.intents, err = l.p.rows.GetIntents(ctx, names); err != nil {
		return err
	}
	if s.intents == nil {
		s.intents = []store.Intent{}
	}
	if s.objects, err = l.p.rows.ListObjects(ctx, store.ListParams{Limit: 1000}); err != nil {
		return err
	}
	if err := l.retired(s); err != nil {
		return err
	}
	l.rows = l.rows[:0]
	for _, name := range l.tables {
		rows, err := l.read(`SELECT * FROM "` + strings.ReplaceAll(name, `"`, `""`) + `"`)
		if err != nil {
			return err
		}
		l.rows = append(l.rows, rows)
	}
	return nil
}

func (l *looker) retired(s *snapshot) error {
	rows, err := l.read(retiredRows)
	if err != nil {
		return err
	}
	s.retired = s.retired[:0]
	for _, row := range rows.rows {
		r := store.Retired{
			BlobName: fmt.Sprint(row[0]), IntentID: fmt.Sprint(row[1]),
			Attempts: int(row[3].(int64)), LastError: fmt.Sprint(row[4]), Watched: row[5].(int64) != 0,
		}
		if due := row[2].(int64); due != 0 {
			r.DueAt = time.UnixMicro(due).UTC()
		}
		s.retired = append(s.retired, r)
	}
	return nil
}

// digest is what the database held when it was looked at last.
func (p *sqlPlace) digest() digest {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	var d digest
	p.e.hash.rows(&d, &p.e.ledger.now)
	p.tables(&d)
	return d
}

// tables digests the application's tables.
func (p *sqlPlace) tables(d *digest) {
	for i, name := range p.looker.tables {
		d.text(name)
		if i < len(p.looker.rows) {
			p.looker.rows[i].digest(p.e.hash, d)
		}
	}
}

// hidden digests what an execution's own digest does not know of: the
// application's tables, and open transactions, whose content follows from what
// the database held, the statements, and the time at each.
func (p *sqlPlace) hidden(d *digest) {
	p.tables(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum digest
	for c := range p.inTx {
		one := c.base
		one.sub(c.times)
		one.word(c.owner)
		sum.plus(one)
	}
	d.sub(sum)
}
