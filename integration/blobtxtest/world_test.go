package blobtxtest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/sqlstore"
)

const add = `UPDATE customers SET invoices = invoices + ? WHERE id = 1`

func count(ctx context.Context, v *blobtxtest.View) (n int, err error) {
	err = v.DB.QueryRowContext(ctx, `SELECT invoices FROM customers WHERE id = 1`).Scan(&n)
	return n, err
}

func act(name string, run func(ctx context.Context, p *blobtxtest.Process) error) blobtxtest.Actor {
	return blobtxtest.Actor{Name: name, Run: run}
}

// outcomes explores a scenario of the customer's counter alone and returns every
// value at which it ends.
func outcomes(t *testing.T, faults int, actors ...blobtxtest.Actor) []string {
	t.Helper()
	return outcomesAnd(t, faults, new(string), actors...)
}

// outcomesAnd adds what the actors noted.
func outcomesAnd(t *testing.T, faults int, noted *string, actors ...blobtxtest.Actor) []string {
	t.Helper()
	seen := make(map[string]bool)
	s := blobtxtest.Scenario{
		World:  world(),
		Actors: actors,
		AtRest: func(ctx context.Context, v *blobtxtest.View) error {
			n, err := count(ctx, v)
			seen[strings.TrimSpace(fmt.Sprint(n, " ", *noted))] = true
			*noted = ""
			return err
		},
		Limits: blobtxtest.Limits{Faults: faults},
	}
	if len(actors) > 1 {
		s.Passes = []time.Duration{} // time would tell states apart that must differ without it
	}
	blobtxtest.Explore(t, s)
	return slices.Sorted(maps.Keys(seen))
}

func inTx(ctx context.Context, p *blobtxtest.Process, statements ...func(tx *sql.Tx) error) error {
	tx, err := p.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit
	for _, statement := range statements {
		if err := statement(tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func adding(ctx context.Context, n int) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, add, n)
		return err
	}
}

// Of two transactions the second waits for the first, for as long as
// busy_timeout(5000) would.
func TestASecondWriterWaits(t *testing.T) {
	var writing atomic.Value // the name of who has written and not committed
	writing.Store("")
	var met, refused atomic.Bool
	writer := func(name string, n int) blobtxtest.Actor {
		return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
			began, meets := time.Now(), false
			err := inTx(ctx, p, func(*sql.Tx) error {
				meets = writing.Load() != ""
				return nil
			}, adding(ctx, n), func(tx *sql.Tx) error {
				writing.Store(name)
				return adding(ctx, n)(tx)
			})
			writing.CompareAndSwap(name, "")
			if ctx.Err() != nil { // this way was taken before
				return err
			}
			if meets && err == nil {
				met.Store(true)
			}
			if err != nil {
				refused.Store(true)
				if !sqlstore.IsRetryable(err) || time.Since(began) != 5*time.Second {
					p.Errorf("after %v: %v", time.Since(began), err)
				}
			}
			return err
		})
	}
	require.Equal(t, []string{"10", "12", "2"}, outcomes(t, 0, writer("one", 1), writer("five", 5)))
	require.True(t, met.Load(), "nobody waited and then wrote")
	require.True(t, refused.Load(), "nobody waited in vain")
}

// A statement has effect once, or not at all, whatever its caller is told; a
// transaction as a whole.
func TestFaultsOfStatementsAndTransactions(t *testing.T) {
	var told string
	telling := func(run func(ctx context.Context, p *blobtxtest.Process) error) blobtxtest.Actor {
		return act("actor", func(ctx context.Context, p *blobtxtest.Process) error {
			err := run(ctx, p)
			told = map[bool]string{true: "done", false: "lost"}[err == nil]
			return err
		})
	}
	once := telling(func(ctx context.Context, p *blobtxtest.Process) error {
		_, err := p.DB.ExecContext(ctx, add, 1)
		return err
	})
	require.Equal(t, []string{"0 lost", "1 done", "1 lost"}, outcomesAnd(t, 1, &told, once))
	whole := telling(func(ctx context.Context, p *blobtxtest.Process) error {
		return inTx(ctx, p, adding(ctx, 1), adding(ctx, 1))
	})
	require.Equal(t, []string{"0 lost", "2 done", "2 lost"}, outcomesAnd(t, 1, &told, whole))
}

// States that differ in what only a database knows are not taken for one.
func TestWhatTellsStatesApart(t *testing.T) {
	change := func(name, how string) blobtxtest.Actor {
		return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
			if _, err := p.DB.ExecContext(ctx, `UPDATE customers SET invoices = `+how); err != nil {
				return err
			}
			return p.Moment(ctx, "later")
		})
	}
	t.Run("the application's tables", func(t *testing.T) {
		require.Equal(t, []string{"1", "2"}, outcomes(t, 0, change("one more", "invoices + 1"), change("twice", "invoices * 2")))
	})
	t.Run("what was read", func(t *testing.T) {
		from := func(name string, n int) blobtxtest.Actor {
			return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
				var was int
				if err := p.DB.QueryRowContext(ctx, `SELECT invoices FROM customers WHERE id = 1`).Scan(&was); err != nil {
					return err
				}
				_, err := p.DB.ExecContext(ctx, `UPDATE customers SET invoices = ?`, was+n)
				return err
			})
		}
		require.Equal(t, []string{"1", "10", "11"}, outcomes(t, 0, from("ten", 10), from("one", 1)))
	})
	t.Run("a transaction's snapshot", func(t *testing.T) {
		seen := make(map[int]bool)
		reader := act("reader", func(ctx context.Context, p *blobtxtest.Process) error {
			var none, n int
			return inTx(ctx, p, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, `SELECT count(*) FROM invoices`).Scan(&none)
			}, func(tx *sql.Tx) error {
				err := tx.QueryRowContext(ctx, `SELECT invoices FROM customers WHERE id = 1`).Scan(&n)
				if err == nil {
					seen[n] = true
				}
				return err
			})
		})
		outcomes(t, 0, reader, change("one more", "invoices + 1"))
		require.Equal(t, map[int]bool{0: true, 1: true}, seen)
	})
	t.Run("the time at a statement of a transaction", func(t *testing.T) {
		require.Equal(t, []string{"0", "901"}, outcomes(t, 0, act("actor", func(ctx context.Context, p *blobtxtest.Process) error {
			return inTx(ctx, p, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE customers SET invoices = unixepoch('now') - 946684800`)
				return err
			}, func(*sql.Tx) error { return p.Moment(ctx, "later") })
		})))
	})
}

// Read, then write, in deferred transactions: SQLite refuses the one whose
// snapshot is old (SQLITE_BUSY_SNAPSHOT), so no update is lost; without a
// transaction one is. Both only if the order of the reads is explored, and no
// state is taken for another that a transaction's snapshot tells apart.
func TestSnapshotsAreExplored(t *testing.T) {
	read := func(ctx context.Context, q interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}, n *int,
	) error {
		return q.QueryRowContext(ctx, `SELECT invoices FROM customers WHERE id = 1`).Scan(n)
	}
	const set = `UPDATE customers SET invoices = ? WHERE id = 1`
	loses := func(name string) blobtxtest.Actor {
		return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
			var n int
			if err := read(ctx, p.DB, &n); err != nil {
				return err
			}
			_, err := p.DB.ExecContext(ctx, set, n+1)
			return err
		})
	}
	require.Equal(t, []string{"1", "2"}, outcomes(t, 0, loses("one"), loses("two")))

	var refused atomic.Bool
	keeps := func(name string) blobtxtest.Actor {
		return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
			var n int
			err := inTx(ctx, p,
				func(tx *sql.Tx) error { return read(ctx, tx, &n) },
				func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, set, n+1)
					return err
				})
			if sqlstore.IsRetryable(err) {
				refused.Store(true)
			}
			return err
		})
	}
	require.Equal(t, []string{"1", "2"}, outcomes(t, 0, keeps("one"), keeps("two")))
	require.True(t, refused.Load())
}

// A client that leaves takes its request's transaction with it, also while a
// statement of another context waits for its turn: database/sql waits for that
// with a mutex, which no bubble would get past.
func TestAClientThatLeaves(t *testing.T) {
	left, stayed := false, false
	require.Equal(t, []string{"0", "2"}, outcomes(t, 0, act("server", func(ctx context.Context, p *blobtxtest.Process) error {
		request, leave := context.WithCancel(ctx)
		defer leave()
		p.Meanwhile("the client leaves", leave)
		err := inTx(request, p, adding(request, 1), adding(context.WithoutCancel(request), 1))
		left, stayed = left || err != nil, stayed || err == nil
		return err
	})))
	require.True(t, left && stayed)
}

// A process that has died changes nothing more, whatever its code goes on to
// do, and its locks are free.
func TestADeadProcessHasNoEffect(t *testing.T) {
	require.Equal(t, []string{"0", "10"}, outcomes(t, 1, blobtxtest.Actor{Name: "deaf", Run: func(ctx context.Context, p *blobtxtest.Process) error {
		err := inTx(ctx, p, adding(ctx, 10))
		if ctx.Err() == nil {
			return err
		}
		if _, err := p.DB.ExecContext(context.WithoutCancel(ctx), add, 100); err == nil {
			p.Errorf("a dead process wrote")
			return nil
		}
		return err
	}}))
}

// The database's clock is the bubble's, as the scenario moves it.
func TestTheClockIsTheBubbles(t *testing.T) {
	seen := make(map[string]bool)
	blobtxtest.Explore(t, blobtxtest.Scenario{
		World: world(),
		Actors: []blobtxtest.Actor{act("clock", func(ctx context.Context, p *blobtxtest.Process) error {
			var now string
			if err := p.DB.QueryRowContext(ctx, `SELECT datetime('now')`).Scan(&now); err != nil {
				return err
			}
			seen[now] = true
			return nil
		})},
	})
	require.Equal(t, []string{"2000-01-01 00:00:00", "2000-01-01 00:15:01"}, slices.Sorted(maps.Keys(seen)))
}

// What an execution leaves, rows, counters, settings and tables, is gone in the
// next.
func TestExecutionsStartAlike(t *testing.T) {
	const schema = `CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER);
		INSERT INTO numbered (n) VALUES (0);
		CREATE TABLE log (n INTEGER);
		CREATE TRIGGER logged AFTER INSERT ON numbered BEGIN INSERT INTO log VALUES (new.n); END`
	for name, schema := range map[string]string{"rows": strings.Split(schema, "CREATE TRIGGER")[0], "a trigger": schema} {
		t.Run(name, func(t *testing.T) {
			insert := func(name string) blobtxtest.Actor {
				return act(name, func(ctx context.Context, p *blobtxtest.Process) error {
					var keys int
					if err := p.DB.QueryRowContext(ctx, `SELECT foreign_keys FROM pragma_foreign_keys`).Scan(&keys); err != nil || keys != 1 {
						p.Errorf("foreign_keys=%d %v", keys, err)
					}
					var rows, logged int
					if err := p.DB.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM numbered), (SELECT count(*) FROM log)`).Scan(&rows, &logged); err != nil || logged > rows-1 {
						p.Errorf("%d rows of which %d were logged: %v", rows, logged, err)
					}
					result, err := p.DB.ExecContext(ctx, `INSERT INTO numbered (n) VALUES (1)`)
					if err != nil {
						return err
					}
					if id, err := result.LastInsertId(); err != nil || id != 2 && id != 3 {
						p.Errorf("id %d %v", id, err)
					}
					for _, statement := range []string{`CREATE TABLE IF NOT EXISTS more (n INTEGER)`, `PRAGMA foreign_keys = OFF`} {
						if _, err := p.DB.ExecContext(ctx, statement); err != nil {
							return err
						}
					}
					return nil
				})
			}
			blobtxtest.Explore(t, blobtxtest.Scenario{
				World: blobtxtest.SQL(sqlstore.SQLite, open, schema), Actors: []blobtxtest.Actor{insert("one"), insert("two")},
				Passes: []time.Duration{},
			})
		})
	}
}

// A handler that is wrong is found, by the row it leaves behind, and its trace
// replays.
func TestAHandlerThatIsWrongIsFound(t *testing.T) {
	s := blobtxtest.Scenario{
		World: world(),
		Actors: []blobtxtest.Actor{act("server", func(ctx context.Context, p *blobtxtest.Process) error {
			_, err := create(ctx, p, "invoice/7", invoice{ID: "7", Customer: 1, File: "invoice/7"},
				func(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error {
					err := inTx(ctx, p, func(tx *sql.Tx) error {
						_, err := commit(p.SQL.Tx(tx))
						return err
					})
					if err != nil {
						return err
					}
					return inTx(ctx, p, func(tx *sql.Tx) error { // too late
						_, err := tx.ExecContext(ctx, insertRow, row.ID, row.Customer, row.File)
						return err
					}, adding(ctx, 1))
				})
			return err
		})},
		Always: together,
	}
	stats, v := blobtxtest.Find(s)
	require.NotNil(t, v)
	require.Equal(t, "Always: 0 rows without their object, 1 objects without their row, the count is off by 0", v.What)
	require.True(t, strings.HasSuffix(v.Steps, "server: COMMIT: ok\n"), v.Steps)
	require.True(t, stats.Complete)
	require.Positive(t, stats.Violations)

	s.Limits.Trace = v.Trace
	_, again := blobtxtest.Find(s)
	require.Equal(t, v, again)
}

// mattn is a connector for a driver that has none.
type mattn struct {
	sqlite3.SQLiteDriver
	dsn string
}

func (m *mattn) Connect(context.Context) (driver.Conn, error) { return m.Open(m.dsn) }
func (m *mattn) Driver() driver.Driver                        { return m }

// Another driver's world has the same states.
func TestAnotherDriver(t *testing.T) {
	explore := func(open func(file string) (driver.Connector, error)) blobtxtest.Stats {
		stats, v := blobtxtest.Find(blobtxtest.Scenario{
			World:  blobtxtest.SQL(sqlstore.SQLite, open, schema),
			Actors: []blobtxtest.Actor{server("first", "7", databaseSQL), server("second", "7", databaseSQL)},
			Always: together,
			Passes: []time.Duration{},
			Limits: blobtxtest.Limits{Executions: 100},
		})
		require.Nil(t, v)
		stats.Seconds = 0
		return stats
	}
	require.Equal(t, explore(open), explore(func(file string) (driver.Connector, error) {
		return &mattn{dsn: "file:" + file + "?_foreign_keys=1"}, nil
	}))
}

func TestOtherDialectsAreRefused(t *testing.T) {
	_, v := blobtxtest.Find(blobtxtest.Scenario{
		World:  blobtxtest.SQL(sqlstore.Postgres, open, ""),
		Actors: []blobtxtest.Actor{{Name: "idle", Run: func(context.Context, *blobtxtest.Process) error { return nil }}},
	})
	require.NotNil(t, v)
	require.Contains(t, v.What, "only SQLite runs inside a bubble")
}
