package wire

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/wire"
	"github.com/blobtx/blobtx/sqlstore"
)

// The facts that the library is built around, as the drivers show them. One that
// fails here has changed for the better or the worse: look at what was built.

// pools are the drivers as applications use them, over the wire that fails.
var pools = map[string]struct {
	database func(t *testing.T) *database
	open     func(t testing.TB, p *database) *sql.DB
	twice    bool // db.Exec applies a write again whose reply was lost
}{
	"pgx stdlib":           {newPostgres, pgxSQL, true},
	"pq":                   {newPostgres, func(t testing.TB, p *database) *sql.DB { return openSQL(t, "postgres", p.through) }, true},
	"mysql":                {newMariaDB, mysqlPool(false), false},
	"mysql, interpolating": {newMariaDB, mysqlPool(true), false},
}

func onEachPool(t *testing.T, fn func(t *testing.T, p *database, db *sql.DB, twice bool)) {
	for name, c := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.database(t)
			db := c.open(t, p)
			db.SetMaxOpenConns(1)
			require.NoError(t, db.PingContext(t.Context())) // the requests that follow are not a connection's first
			fn(t, p, db, c.twice)
		})
	}
}

// FACTS C1: a statement on the pool whose reply is lost may be applied twice and
// reported as a success. On a connection of its own it is applied once.
func TestAWriteOnThePoolMayBeAppliedTwice(t *testing.T) {
	onEachPool(t, func(t *testing.T, p *database, db *sql.DB, twice bool) {
		applied := func() (n int) {
			require.NoError(t, p.direct.QueryRowContext(t.Context(), "SELECT count(*) FROM applied").Scan(&n))
			_, err := p.direct.ExecContext(t.Context(), "DELETE FROM applied")
			require.NoError(t, err)
			return n
		}
		lose := func(exec func(ctx context.Context, query string, args ...any) (sql.Result, error)) error {
			p.proxy.Fail(1, wire.ReplyLost)
			_, err := exec(t.Context(), "INSERT INTO applied VALUES (1)")
			_, met := p.proxy.Heal()
			require.True(t, met)
			return err
		}
		_, err := p.direct.ExecContext(t.Context(), "CREATE TABLE applied (n INTEGER)")
		require.NoError(t, err)

		err = lose(db.ExecContext)
		if twice {
			require.NoError(t, err)
			require.Equal(t, 2, applied())
		} else {
			require.Error(t, err)
			require.Equal(t, 1, applied())
		}
		require.NoError(t, db.PingContext(t.Context()))
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer c.Close() // it only gives the connection back
		require.Error(t, lose(c.ExecContext))
		require.Equal(t, 1, applied())
	})
}

// FACTS C3: the error of a COMMIT says nothing about whether it took effect.
func TestACommitThatIsLostLooksTheSameEitherWay(t *testing.T) {
	onEachPool(t, func(t *testing.T, p *database, db *sql.DB, _ bool) {
		var said []string
		for _, fault := range []wire.Fault{wire.RequestLost, wire.ReplyLost} {
			tx := begun(t, db)
			p.proxy.Fail(1, fault)
			err := tx.Commit()
			sent, met := p.proxy.Heal()
			require.True(t, met)
			require.Equal(t, "commit", strings.ToLower(sent[0]))
			require.Error(t, err)
			said = append(said, err.Error())
			require.NoError(t, db.PingContext(t.Context()))
			w := &world{t: t, direct: p.direct, barrier: p.barrier}
			w.ended()
			require.Equal(t, fault == wire.ReplyLost, w.notes() == 1)
		}
		require.Equal(t, said[0], said[1])
	})
}

// FACTS C3: what a SELECT says of a COMMIT whose end is unknown may be untrue a
// moment later. A write that is in conflict with it waits, and then tells.
func TestASelectDoesNotSettleAnUnknownCommitAndAWriteDoes(t *testing.T) {
	waiting := map[sqlstore.Dialect]string{
		sqlstore.Postgres: "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		sqlstore.MySQL:    "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT INTO notes%' AND time_ms > 100",
	}
	onEachPool(t, func(t *testing.T, p *database, db *sql.DB, _ bool) {
		tx := begun(t, db)
		p.proxy.Fail(1, wire.RequestLate)
		require.Error(t, tx.Commit())
		p.proxy.Heal()
		w := &world{t: t, direct: p.direct, barrier: p.barrier}
		require.Zero(t, w.notes(), "not committed, says the SELECT")

		told := make(chan error, 1)
		go func() {
			_, err := p.direct.ExecContext(t.Context(), note)
			told <- err
		}()
		for n := 0; n == 0; {
			require.NoError(t, p.direct.QueryRowContext(t.Context(), waiting[p.dialect]).Scan(&n))
		}
		require.Zero(t, w.notes())
		require.Empty(t, told, "the write has an answer before there is one")
		p.proxy.Land()
		require.ErrorContains(t, <-told, "uplicate", "committed, says the write")
		require.Equal(t, 1, w.notes())
	})
}

func begun(t *testing.T, db *sql.DB) *sql.Tx {
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // an error where the case has ended it
	_, err = tx.ExecContext(t.Context(), note)
	require.NoError(t, err)
	return tx
}
