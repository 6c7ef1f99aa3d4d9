package blobtxtest_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
)

func open(file string) (driver.Connector, error) {
	return sqlite.NewConnector("file:" + file + "?_pragma=foreign_keys(1)")
}

func world() blobtxtest.World { return blobtxtest.SQL(sqlstore.SQLite, open, schema) }

// together: a row of the application's exists if and only if its object does,
// and what the same transaction counted is right.
func together(ctx context.Context, v *blobtxtest.View) error {
	var alone, without, off int
	err := v.DB.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM invoices WHERE file NOT IN (SELECT object_key FROM blobtx_objects)),
		(SELECT count(*) FROM blobtx_objects WHERE object_key NOT IN (SELECT file FROM invoices)),
		(SELECT invoices FROM customers WHERE id = 1) - (SELECT count(*) FROM invoices)`).Scan(&alone, &without, &off)
	if err == nil && (alone != 0 || without != 0 || off != 0) {
		err = fmt.Errorf("%d rows without their object, %d objects without their row, the count is off by %d", alone, without, off)
	}
	return err
}

// Handlers with tables of their own, whole: every statement of the libraries
// they use is a step. BLOBTX_EXPLORE=full takes every schedule; what a test run
// takes otherwise is a slice where a scenario is large.
func TestScenarios(t *testing.T) {
	for name, library := range libraries {
		explore(t, name+": a request, its process, and a retry", 0, blobtxtest.Scenario{
			Actors: []blobtxtest.Actor{restarted(server("server", "7", library))},
			Limits: blobtxtest.Limits{Faults: 1},
		})
		explore(t, name+": a request against a sweeper", 800, blobtxtest.Scenario{
			Actors: []blobtxtest.Actor{server("server", "7", library), sweeper()},
			Limits: blobtxtest.Limits{Faults: 1},
		})
		explore(t, name+": two requests for one invoice", 800, blobtxtest.Scenario{
			Actors: []blobtxtest.Actor{server("first", "7", library), server("second", "7", library)},
			Limits: blobtxtest.Limits{Faults: 1},
		})
	}
}

// Of the schedules of one request, some lose the reply to COMMIT, and some the
// COMMIT itself: CommitWith tells the truth about both, and to Setup's row and
// file nothing happens.
func TestALostCommit(t *testing.T) {
	stored, refused := 0, 0
	blobtxtest.Explore(t, blobtxtest.Scenario{
		World: world(),
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			_, err := create(ctx, p, "invoice/6", invoice{ID: "6", Customer: 1, File: "invoice/6"}, databaseSQL)
			return err
		},
		Actors: []blobtxtest.Actor{act("server", func(ctx context.Context, p *blobtxtest.Process) error {
			lost := false
			o, err := create(ctx, p, "invoice/7", invoice{ID: "7", Customer: 1, File: "invoice/7"},
				func(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error {
					err := databaseSQL(ctx, p, func(tx store.RowTx) ([]blobtx.Object, error) {
						objects, err := commit(tx)
						lost = err == nil // from here on; what is lost before needs no settling
						return objects, err
					}, row)
					lost = lost && errors.Is(err, faultstore.ErrLost)
					return err
				})
			switch {
			case ctx.Err() != nil:
			case err != nil:
				p.Refused("invoice/7", err)
				if lost {
					refused++
				}
			default:
				p.Acked("invoice/7", o)
				if lost {
					stored++
				}
			}
			return err
		})},
		Always: together,
		AtRest: func(_ context.Context, v *blobtxtest.View) error {
			if len(v.Objects) == 0 || v.Objects[0].Key != "invoice/6" {
				return fmt.Errorf("Setup's object is gone: %+v", v.Objects)
			}
			return nil
		},
		Limits: blobtxtest.Limits{Faults: 1},
	})
	require.Positive(t, stored, "no COMMIT was applied whose reply was lost")
	require.Positive(t, refused, "no COMMIT was lost")
}

func restarted(a blobtxtest.Actor) blobtxtest.Actor {
	a.Restarts = 1
	return a
}

func explore(t *testing.T, name string, slice int, s blobtxtest.Scenario) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		s.World, s.Always = world(), together
		switch {
		case os.Getenv("BLOBTX_EXPLORE") == "full":
		case raceEnabled || testing.Short():
			s.Limits.Executions = 100
		default:
			s.Limits.Executions = slice
		}
		blobtxtest.Explore(t, s)
	})
}
