package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// silence is a server that accepts no connection and refuses none, as one
// behind a firewall does.
type silence struct{ nowhere }

var errDial = errors.New("dial gave up")

func (silence) Connect(ctx context.Context) (driver.Conn, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %v", errDial, ctx.Err()) // some drivers drop the identity
}

func TestWhyThereIsNoConnection(t *testing.T) {
	for name, c := range map[string]struct {
		db     driver.Connector
		caller time.Duration // the caller's own bound
		leaves bool          // by cancelling
		open   int           // MaxOpenConns
		is     []error
		not    error
		asks   bool
	}{
		"the dial outlasts the bound":       {silence{}, time.Hour, false, 0, []error{store.ErrBusy, errDial}, context.DeadlineExceeded, false},
		"a bounded pool dials as long":      {silence{}, time.Hour, false, 1, []error{store.ErrBusy, errDial}, context.DeadlineExceeded, false},
		"the caller's deadline comes first": {silence{}, time.Second, false, 0, []error{context.DeadlineExceeded, errDial}, store.ErrBusy, false},
		"the caller cancels":                {silence{}, time.Second, true, 0, []error{context.Canceled, errDial}, store.ErrBusy, false},
		"the pool is used up":               {idle{}, time.Hour, false, 1, []error{store.ErrBusy}, context.Canceled, true},
		"used up, and the caller cancels":   {idle{}, time.Second, true, 1, []error{context.Canceled}, store.ErrBusy, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := sql.OpenDB(c.db)
				defer db.Close()
				db.SetMaxOpenConns(c.open)
				s, err := New(db, SQLite, &Options{ConnWait: 5 * time.Second})
				require.NoError(t, err)
				if _, ok := c.db.(idle); ok {
					other, err := db.Conn(t.Context())
					require.NoError(t, err)
					defer other.Close()
				}
				ctx, cancel := context.WithCancel(t.Context())
				if !c.leaves {
					ctx, cancel = context.WithTimeout(t.Context(), c.caller)
				}
				defer cancel()
				if c.leaves {
					time.AfterFunc(c.caller, cancel)
				}
				err = s.Check(ctx)
				for _, is := range c.is {
					require.ErrorIs(t, err, is)
				}
				require.NotErrorIs(t, err, c.not)
				if c.asks {
					require.ErrorContains(t, err, "is a transaction open")
				} else {
					require.NotContains(t, err.Error(), "transaction")
				}
			})
		})
	}
}

// idle is a database whose connections take no statement.
type idle struct{ nowhere }

func (idle) Connect(context.Context) (driver.Conn, error) { return idleConn{}, nil }

type idleConn struct{}

func (idleConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (idleConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (idleConn) Close() error                        { return nil }

// slow is a transaction whose statements take a second.
type slow struct{ running, most *int }

func (q slow) Exec(context.Context, string, ...any) (int64, error) { return 0, errors.ErrUnsupported }

func (q slow) Query(context.Context, string, []any, func(func(...any) error) error) error {
	*q.running++
	*q.most = max(*q.most, *q.running)
	time.Sleep(time.Second)
	*q.running--
	return nil
}

// In a testing/synctest bubble time goes on only while nobody waits for a
// mutex: this test hangs if a step holds one across its statement.
func TestStepsOfOneTransactionTakeTurnsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(nowhere{})
		defer db.Close()
		s, err := New(db, Postgres, nil)
		require.NoError(t, err)
		s.ready.Store(true)
		var running, most int
		tx := s.TxOf(slow{&running, &most})
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := tx.DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
				require.ErrorIs(t, err, store.ErrNotFound)
			})
		}
		wg.Wait()
		require.Equal(t, 1, most)
		require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
	})
}

func TestStepsOfNoTransaction(t *testing.T) {
	s, err := New(sql.OpenDB(nowhere{}), Postgres, nil)
	require.NoError(t, err)
	for _, tx := range []store.RowTx{s.Tx(nil), s.TxOf(nil)} {
		for range 2 {
			_, err := tx.DeleteObject(t.Context(), store.DeleteParams{Key: "k", If: store.Always()})
			require.ErrorIs(t, err, store.ErrTxUnusable)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
	}
}
