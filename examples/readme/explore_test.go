package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

const schema = `CREATE TABLE invoices (id TEXT PRIMARY KEY, file TEXT NOT NULL REFERENCES blobtx_objects (object_key))`

func openSQLite(file string) (driver.Connector, error) {
	return sqlite.NewConnector("file:" + file + "?_pragma=foreign_keys(1)")
}

// README: begin
func TestInvoices(t *testing.T) {
	server := blobtxtest.Actor{Name: "server", Restarts: 1, Run: func(ctx context.Context, p *blobtxtest.Process) error {
		request := httptest.NewRequestWithContext(ctx, "PUT", "/invoices/7", strings.NewReader("invoice 7"))
		reply := httptest.NewRecorder()
		newHandler(p.Coordinator, p.SQL).ServeHTTP(reply, request) // your handler
		if version, err := store.ParseETag(reply.Header().Get("ETag")); err == nil {
			p.Acked("invoice/7", blobtx.Object{Key: "invoice/7", Version: version}) // must be true, whatever happens
		}
		return nil
	}}
	together := func(ctx context.Context, v *blobtxtest.View) error { // your invariant
		row, found := "", len(v.Objects) == 1
		if err := v.DB.QueryRowContext(ctx, `SELECT file FROM invoices`).Scan(&row); (err == nil) != found {
			return errors.New("a row without its file, or a file without its row")
		}
		return nil
	}
	world := blobtxtest.SQL(sqlstore.SQLite, openSQLite, schema) // your tables
	blobtxtest.Explore(t, blobtxtest.Scenario{World: world, Actors: []blobtxtest.Actor{server}, Always: together, Limits: blobtxtest.Limits{Faults: 1}})
}

// README: end
