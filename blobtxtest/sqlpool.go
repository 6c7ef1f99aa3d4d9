package blobtxtest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// sqlPool keeps the database of one exploration and the driver's connections to
// it from one execution to the next: to open them, and to parse the statements,
// would take longer than the rest.
type sqlPool struct {
	connector driver.Connector
	folder    string
	first     []byte // the database with all tables, before Setup

	mu      sync.Mutex // held for a few assignments, never across a wait
	idle    []*rawConn
	altered bool // an execution changed more than rows
	resets  []string
	reset   *rawConn
}

func (p *sqlPool) file() string      { return p.folder + "/explored.db" }
func (p *sqlPool) firstFile() string { return p.folder + "/first.db" }

// rawConn is a connection of the driver's, with the statements that were
// prepared on it.
type rawConn struct {
	driver.Conn
	kept    map[string]driver.Stmt
	altered bool // by a setting, say
}

// begin makes the database as it was before Setup.
func (p *sqlPool) begin() error {
	if p.reset != nil && !p.altered && len(p.resets) > 0 {
		err := p.emptied()
		if err == nil {
			return nil
		}
		p.altered = true
	}
	p.close()
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(p.file() + suffix)
	}
	if err := os.WriteFile(p.file(), p.first, 0o600); err != nil {
		return err
	}
	p.altered = false
	return p.prepareReset()
}

// prepareReset finds out how to bring rows back as they were, if that is
// possible: a trigger would run, and a virtual table has tables of its own.
func (p *sqlPool) prepareReset() (err error) {
	if p.reset, err = p.connect(context.Background()); err != nil {
		return err
	}
	for _, setting := range []string{"PRAGMA foreign_keys = OFF", "ATTACH '" + strings.ReplaceAll(p.firstFile(), "'", "''") + "' AS first"} {
		if _, err := p.reset.exec(context.Background(), setting, nil); err != nil {
			return err
		}
	}
	p.resets = nil
	special, err := p.names("sql LIKE 'CREATE VIRTUAL %' OR type = 'trigger'")
	if err != nil || len(special) > 0 {
		return err
	}
	tables, err := p.names("type = 'table' AND name <> 'sqlite_sequence'")
	if err != nil {
		return err
	}
	counters, err := p.names("name = 'sqlite_sequence'") // last: inserts move them
	if err != nil {
		return err
	}
	for _, name := range append(tables, counters...) {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		p.resets = append(p.resets, "DELETE FROM main."+name, "INSERT INTO main."+name+" SELECT * FROM first."+name)
	}
	return p.emptied()
}

func (p *sqlPool) names(which string) ([]string, error) {
	rows, err := p.reset.query(context.Background(), "SELECT name FROM sqlite_master WHERE "+which+" ORDER BY name", nil)
	if err != nil {
		return nil, err
	}
	all, err := readRows(rows)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all.rows))
	for i, row := range all.rows {
		names[i] = fmt.Sprint(row[0])
	}
	return names, nil
}

func (p *sqlPool) emptied() error {
	for _, statement := range append(append([]string{"BEGIN IMMEDIATE"}, p.resets...), "COMMIT") {
		if _, err := p.reset.exec(context.Background(), statement, nil); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// take returns a connection on which nothing is open.
func (p *sqlPool) take(ctx context.Context) (*rawConn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.connect(ctx)
}

func (p *sqlPool) connect(ctx context.Context) (*rawConn, error) {
	under, err := p.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &rawConn{Conn: under, kept: make(map[string]driver.Stmt)}
	// A process that dies loses nothing that it has written; only power does.
	for _, setting := range []string{"PRAGMA busy_timeout = 0", "PRAGMA synchronous = OFF"} {
		if _, err := c.exec(ctx, setting, nil); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	c.altered = false
	return c, nil
}

// giveBack takes a connection that somebody has closed.
func (p *sqlPool) giveBack(c *rawConn, inTx bool) error {
	if inTx {
		if _, err := c.exec(context.Background(), "ROLLBACK", nil); err != nil {
			c.altered = true
		}
	}
	if c.altered {
		p.mu.Lock()
		p.altered = true
		p.mu.Unlock()
		return c.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	return nil
}

func (p *sqlPool) close() {
	for _, c := range p.idle {
		_ = c.close()
	}
	p.idle = nil
	if p.reset != nil {
		_ = p.reset.close()
		p.reset = nil
	}
}

// keep returns the statement, prepared.
func (c *rawConn) keep(query string) (driver.Stmt, error) {
	if stmt := c.kept[query]; stmt != nil {
		return stmt, nil
	}
	if len(c.kept) == 200 { // of texts with the time in them there are many
		c.forget()
	}
	stmt, err := c.Prepare(query)
	if err == nil {
		c.kept[query] = stmt
	}
	return stmt, err
}

func (c *rawConn) forget() {
	for _, stmt := range c.kept {
		_ = stmt.Close()
	}
	clear(c.kept)
}

func (c *rawConn) close() error {
	c.forget()
	return c.Close()
}

func (c *rawConn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	switch firstWord(query) {
	case "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE":
		stmt, err := c.keep(query)
		if err != nil {
			return nil, err
		}
		return stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	}
	c.altered = true // it may have
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *rawConn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	switch first := firstWord(query); {
	case first == "SELECT", first == "WITH", first == "INSERT", first == "UPDATE", first == "DELETE", query == dataVersion:
		stmt, err := c.keep(query)
		if err != nil {
			return nil, err
		}
		return stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	}
	c.altered = true
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func firstWord(query string) string {
	query = strings.TrimLeft(query, " \t\r\n")
	end := strings.IndexAny(query, " \t\r\n;")
	if end < 0 {
		end = len(query)
	}
	return strings.ToUpper(query[:end])
}
