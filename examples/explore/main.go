// Explore takes handlers that keep a row and a blob without blobtx, and one that
// uses it, through every order of their steps with a fault anywhere, on a real
// SQLite database. Of each it prints the shortest way to lose data, or that there
// is none.
//
//	go run ./examples/explore
package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"modernc.org/sqlite"

	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/sqlstore"
)

const schema = `CREATE TABLE files (name TEXT NOT NULL PRIMARY KEY, blob TEXT NOT NULL)`

func openSQLite(file string) (driver.Connector, error) { return sqlite.NewConnector("file:" + file) }

func main() {
	if !run(os.Stdout, subjects) {
		os.Exit(1)
	}
}

type subject struct {
	title   string
	actors  []blobtxtest.Actor
	faults  int  // anywhere, at most
	orphans bool // a blob that no row names is a loss too
	loses   bool // what is expected
}

var subjects = []subject{
	{"upload, then insert", handled(uploadThenInsert), 1, true, true},
	{"upload, then insert; a job removes orphans", append(handled(uploadThenInsert), blobtxtest.Actor{Name: "job", Run: removeOrphans}), 1, false, true},
	{"upload, then insert; delete the blob if that fails", handled(catchAndDelete), 1, false, true},
	{"blobtx", handled(withBlobtx), 1, true, false},
	{"blobtx; a sweeper removes orphans", append(handled(withBlobtx), blobtxtest.Actor{Name: "sweeper", Run: sweep}), 0, true, false},
}

func handled(run func(ctx context.Context, p *blobtxtest.Process) error) []blobtxtest.Actor {
	return []blobtxtest.Actor{{Name: "handler", Run: run}}
}

// run reports whether all went as expected.
func run(out io.Writer, subjects []subject) bool {
	for _, s := range subjects {
		if find(out, s) != s.loses {
			return false
		}
	}
	return true
}

func find(out io.Writer, s subject) (loses bool) {
	scenario := blobtxtest.Scenario{
		World:  blobtxtest.SQL(sqlstore.SQLite, openSQLite, schema),
		Actors: s.actors,
		Always: everyRowHasItsBlob,
		Named:  namedBlobs,
		Limits: blobtxtest.Limits{Faults: s.faults},
	}
	if !s.orphans {
		scenario.Named = allBlobs
	}
	stats, v := blobtxtest.Find(scenario)
	fmt.Fprintf(out, "== %s\nexecutions=%d faults=%d violations=%d complete=%t\n", s.title, stats.Executions, stats.Injected, stats.Violations, stats.Complete)
	if v == nil {
		fmt.Fprintf(out, "No order of steps loses data, with at most %d faults in each.\n\n", s.faults)
		return false
	}
	fmt.Fprintf(out, "The shortest way to lose data, trace %q:\n%s   => %s\n\n", v.Trace, v.Steps, v.What)
	return true
}

// everyRowHasItsBlob holds at every instant, or data is lost.
func everyRowHasItsBlob(ctx context.Context, v *blobtxtest.View) error {
	names, err := namedBlobs(ctx, v)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := v.Blobs[name]; !ok {
			return fmt.Errorf("a row names blob %q, which is not there", name)
		}
	}
	return nil
}

// namedBlobs are the blobs that rows name. Of any other blob nobody knows.
func namedBlobs(ctx context.Context, v *blobtxtest.View) ([]string, error) {
	rows, err := v.DB.QueryContext(ctx, `SELECT blob FROM files ORDER BY blob`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func allBlobs(_ context.Context, v *blobtxtest.View) ([]string, error) {
	return slices.Collect(maps.Keys(v.Blobs)), nil
}
