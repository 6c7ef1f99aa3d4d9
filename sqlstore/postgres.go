package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/blobtx/blobtx/store"
)

var postgres = dialect{
	name:    "postgres",
	schemas: true,
	// Statement time: now() stands still inside a transaction (PostgreSQL,
	// "Date/Time Functions").
	now:    `((extract(epoch FROM clock_timestamp()) * 1000000)::bigint{offset})`,
	engine: func(names *strings.Replacer) engine { return newPostgresEngine(names.Replace) },
}

type postgresEngine struct {
	returning
	commitText, deleteText  text
	claimIntentsText        string
	claimRetiredText        string
	settleIntentsText       string
	settleRetiredText       string
	tableCount, schemaCount string
}

func newPostgresEngine(x func(string) string) *postgresEngine                   { panic("todo") }
func (e *postgresEngine) begin(ctx context.Context, c *sql.Conn) (ownTx, error) { panic("todo") }
func (e *postgresEngine) detach(ctx context.Context) context.Context            { return ctx }
func (e *postgresEngine) savepoint() (set, back, release string)                { panic("todo") }
func (e *postgresEngine) migrate(ctx context.Context, s session, schema, meta string) (bool, error) {
	panic("todo")
}
func (e *postgresEngine) commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error) {
	panic("todo")
}
func (e *postgresEngine) deleteObject(ctx context.Context, s session, p store.DeleteParams) (store.Object, bool, error) {
	panic("todo")
}
func (e *postgresEngine) claimIntents(ctx context.Context, s session, limit int, lease, until int64) (int64, []store.Intent, error) {
	panic("todo")
}
func (e *postgresEngine) claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error) {
	panic("todo")
}
func (e *postgresEngine) settlesAtOnce() bool { return true }
func (e *postgresEngine) settleIntents(ctx context.Context, s session, gone, kept string) (int, error) {
	panic("todo")
}
func (e *postgresEngine) settleRetired(ctx context.Context, s session, gone, kept string) (int, error) {
	panic("todo")
}

var _ = fmt.Sprint
