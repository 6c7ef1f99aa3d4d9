package faultstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store/faultstore"
)

// fakeDB is a driver whose whole database is a list of statements: those that
// took effect, those of transactions at their COMMIT.
type fakeDB struct {
	mu     sync.Mutex
	rows   []string
	conns  int // open
	opened int
}

func (d *fakeDB) Connect(context.Context) (driver.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns++
	d.opened++
	return &fakeConn{db: d}, nil
}

func (d *fakeDB) Driver() driver.Driver { return nil }

func (d *fakeDB) applied() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.rows)
}

func (d *fakeDB) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns
}

type fakeConn struct {
	db     *fakeDB
	inTx   bool
	tx     []string
	closed bool
}

func (c *fakeConn) Prepare(query string) (driver.Stmt, error) { return &fakeStmt{c, query}, nil }
func (c *fakeConn) Begin() (driver.Tx, error) {
	c.inTx = true
	return c, nil
}

func (c *fakeConn) Close() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if c.closed {
		return errors.New("closed twice")
	}
	c.closed = true
	c.db.conns--
	return nil
}

func (c *fakeConn) Commit() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	c.db.rows = append(c.db.rows, c.tx...)
	c.inTx, c.tx = false, nil
	return nil
}

func (c *fakeConn) Rollback() error {
	c.inTx, c.tx = false, nil
	return nil
}

func (c *fakeConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	switch query {
	case "BEGIN":
		c.inTx = true
	case "COMMIT":
		return driver.ResultNoRows, c.Commit()
	default:
		if c.closed {
			return nil, errors.New("used after close")
		}
		if c.inTx {
			c.tx = append(c.tx, query)
			break
		}
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.rows = append(c.db.rows, query)
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &fakeRows{c: c, left: 3}, nil
}

type fakeStmt struct {
	c     *fakeConn
	query string
}

func (s *fakeStmt) Close() error  { return nil }
func (s *fakeStmt) NumInput() int { return -1 }
func (s *fakeStmt) Exec([]driver.Value) (driver.Result, error) {
	return s.c.ExecContext(context.Background(), s.query, nil)
}

func (s *fakeStmt) Query([]driver.Value) (driver.Rows, error) {
	return &fakeRows{c: s.c, left: 3}, nil
}

type fakeRows struct {
	c    *fakeConn
	left int
}

func (r *fakeRows) Columns() []string { return []string{"n"} }
func (r *fakeRows) Close() error {
	if r.c.closed {
		return errors.New("rows used after their connection was closed")
	}
	return nil
}

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	dest[0] = int64(r.left)
	return nil
}

func openDB(t *testing.T, in faultstore.Injector) (*sql.DB, *fakeDB) {
	under := &fakeDB{}
	db := sql.OpenDB(faultstore.Connector(under, in))
	t.Cleanup(func() {
		require.NoError(t, db.Close())
		require.Zero(t, under.open(), "a connection is left open")
	})
	return db, under
}

func TestStatementFaults(t *testing.T) {
	for kind, applied := range map[faultstore.Kind]int{faultstore.FailBefore: 0, faultstore.LoseReply: 1} {
		for _, prepared := range []bool{false, true} {
			t.Run(kind.String(), func(t *testing.T) {
				s := at("INSERT", faultstore.Fault{Kind: kind})
				db, under := openDB(t, s)
				exec := func() error {
					_, err := db.ExecContext(t.Context(), "INSERT")
					return err
				}
				if prepared {
					stmt, err := db.PrepareContext(t.Context(), "INSERT")
					require.NoError(t, err)
					defer stmt.Close()
					exec = func() error {
						_, err := stmt.ExecContext(t.Context())
						return err
					}
				}
				require.ErrorIs(t, exec(), faultstore.ErrLost)
				require.Len(t, under.applied(), applied, "database/sql tried again by itself")
				require.Len(t, s.ops, 1)
				require.True(t, s.ops[0].Write)
				require.Zero(t, under.open(), "the broken connection stays in the pool")
				require.NoError(t, exec())
				require.Len(t, under.applied(), applied+1)
			})
		}
	}
}

func TestALateStatement(t *testing.T) {
	var late faultstore.Message
	db, under := openDB(t, at("INSERT", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := db.ExecContext(ctx, "INSERT")
	cancel()
	require.ErrorIs(t, err, faultstore.ErrLost)
	require.Empty(t, under.applied())
	late.Apply()
	require.Equal(t, []string{"INSERT"}, under.applied())
	require.Zero(t, under.open())
}

func TestAStatementInATransaction(t *testing.T) {
	for _, kind := range []faultstore.Kind{faultstore.FailBefore, faultstore.LoseReply, faultstore.Late} {
		t.Run(kind.String(), func(t *testing.T) {
			s := at("UPDATE", faultstore.Fault{Kind: kind, Late: func(faultstore.Message) { t.Error("it cannot outlive its connection") }})
			db, under := openDB(t, s)
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT")
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "UPDATE")
			require.ErrorIs(t, err, faultstore.ErrLost)
			_, err = tx.ExecContext(t.Context(), "INSERT")
			require.ErrorIs(t, err, faultstore.ErrLost)
			require.Error(t, tx.Commit())
			require.Empty(t, under.applied())
			require.False(t, s.ops[1].Write)
		})
	}
}

func TestCommitFaults(t *testing.T) {
	var late faultstore.Message
	for _, c := range []struct {
		name    string
		fault   faultstore.Fault
		end     func()
		visible bool
	}{
		{"a lost COMMIT rolls back", faultstore.Fault{Kind: faultstore.FailBefore}, nil, false},
		{"a COMMIT whose reply is lost has committed", faultstore.Fault{Kind: faultstore.LoseReply}, nil, true},
		{"a late COMMIT commits later", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}, func() { late.Apply() }, true},
		{"a COMMIT that never arrives rolls back", faultstore.Fault{Kind: faultstore.Late, Late: func(m faultstore.Message) { late = m }}, func() { late.Drop() }, false},
		{"the process dies at COMMIT", faultstore.Fault{Kind: faultstore.Die}, nil, false},
	} {
		for _, raw := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				db, under := openDB(t, at("COMMIT", c.fault))
				conn, err := db.Conn(t.Context())
				require.NoError(t, err)
				defer conn.Close()
				exec := func(query string) error {
					_, err := conn.ExecContext(t.Context(), query)
					return err
				}
				end := func() error { return exec("COMMIT") }
				if raw { // as an application does that needs BEGIN IMMEDIATE
					require.NoError(t, exec("BEGIN"))
				} else {
					tx, err := conn.BeginTx(t.Context(), nil)
					require.NoError(t, err)
					end = tx.Commit
				}
				require.NoError(t, exec("INSERT"))
				require.Empty(t, under.applied())
				require.Error(t, end())
				if c.end != nil {
					require.Equal(t, 1, under.open(), "its locks went with its connection")
					c.end()
				}
				require.Equal(t, c.visible, len(under.applied()) == 1)
				require.Zero(t, under.open())
			})
		}
	}
}

func TestDeathClosesConnections(t *testing.T) {
	p := faultstore.NewProcess(t.Context(), &script{})
	db, under := openDB(t, p)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT")
	require.NoError(t, err)
	rows, err := db.QueryContext(t.Context(), "SELECT")
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.Equal(t, 2, under.open())

	p.Kill()
	require.Zero(t, under.open())
	require.False(t, rows.Next())
	require.ErrorIs(t, rows.Err(), faultstore.ErrDead)
	require.NoError(t, rows.Close())
	require.ErrorIs(t, tx.Commit(), faultstore.ErrDead)
	_, err = db.ExecContext(t.Context(), "INSERT")
	require.ErrorIs(t, err, faultstore.ErrDead)
	require.Empty(t, under.applied())
	require.Equal(t, 2, under.opened)
}

func TestWhatIsAWrite(t *testing.T) {
	s := &script{}
	db, _ := openDB(t, s)
	for _, query := range []string{"SELECT 1", " select 1", "INSERT INTO t RETURNING id", "SELECT 1 INTO t", "WITH x AS (SELECT 1) UPDATE t"} {
		rows, err := db.QueryContext(t.Context(), query)
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	}
	var writes []bool
	for _, op := range s.ops {
		writes = append(writes, op.Write)
	}
	require.Equal(t, []bool{false, false, true, true, true}, writes)
}

// An injector learns when the context of a transaction ends, and what the
// driver itself replied.
func TestWhatAnInjectorLearns(t *testing.T) {
	var ops []faultstore.Op
	var replies []any
	db, _ := openDB(t, faultstore.InjectorFunc(func(_ context.Context, op faultstore.Op) faultstore.Fault {
		ops = append(ops, op)
		return faultstore.Fault{Told: func(reply any, _ error) { replies = append(replies, reply) }}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT")
	require.NoError(t, err)
	rows, err := tx.QueryContext(t.Context(), "SELECT")
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.NoError(t, tx.Rollback())
	_, err = db.ExecContext(t.Context(), "INSERT")
	require.NoError(t, err)

	require.IsType(t, &fakeConn{}, replies[0])
	require.IsType(t, &fakeRows{}, replies[2])
	require.Len(t, ops, 5)
	require.Nil(t, ops[0].TxDone)
	require.Nil(t, ops[4].TxDone)
	cancel()
	for _, op := range ops[1:4] { // the statements and ROLLBACK
		<-op.TxDone
	}
}
