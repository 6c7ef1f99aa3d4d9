package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Dialect names the database. It is given and never guessed, because wrapped
// drivers hide what they are. The zero Dialect is refused with ErrInvalid.
type Dialect struct{ d *dialect }

// The databases. Needed are SQLite 3.35 (RETURNING), PostgreSQL 12
// (MATERIALIZED), MySQL 8.0.1 or MariaDB 10.6 (SKIP LOCKED), which are one
// dialect, and SQL Server 2016 (OPENJSON), which is experimental: its statements
// were never run on a server.
var (
	SQLite    = Dialect{&sqlite}
	Postgres  = Dialect{&postgres}
	MySQL     = Dialect{&mysql}
	SQLServer = Dialect{&sqlServer}
)

// String returns the name, "" for the zero Dialect.
func (d Dialect) String() string {
	if d.d == nil {
		return ""
	}
	return d.d.name
}

// dialect is what New needs to know of one database.
type dialect struct {
	name    string
	quote   string // around names; "" is the standard's
	schemas bool   // tables live in schemas
	now     string
	engine  func(names *strings.Replacer) engine
}

// engine takes the steps on one database. A conditional write that met no row
// returns false; what that means is decided by the code that all databases
// share. Every method runs on the session alone and holds no rows open after
// it returns.
type engine interface {
	// begin starts a transaction of our own, at READ COMMITTED or better, in
	// which no wait for a lock is longer than the bound.
	begin(ctx context.Context, c *sql.Conn) (ownTx, error)
	// detach returns the context for a statement inside a transaction.
	detach(ctx context.Context) context.Context
	savepoint() (set, back, release string)

	schemaVersion(ctx context.Context, s session) (string, error)
	migrate(ctx context.Context, s session, schema, meta string) (migrated bool, err error)

	commitObject(ctx context.Context, s session, p store.CommitParams, facts string) (store.Object, bool, error)
	deleteObject(ctx context.Context, s session, p store.DeleteParams) (store.Object, bool, error)
	setMetadata(ctx context.Context, s session, p store.MetadataParams, metadata string) (store.Object, bool, error)
	// lockIntent and lockObject return the newest row and keep it until the
	// transaction ends.
	lockIntent(ctx context.Context, s session, id string) (in store.Intent, expired, found bool, err error)
	lockObject(ctx context.Context, s session, key string) (store.Object, bool, error)

	insertIntent(ctx context.Context, s session, p store.InsertParams, metadata string) (store.Intent, bool, error)
	findIntent(ctx context.Context, s session, idempotencyKey, id string) (store.Intent, bool, error)
	blobNameTaken(ctx context.Context, s session, name string) (bool, error)
	takeOver(ctx context.Context, s session, p store.TakeOverParams) (store.Intent, bool, error)
	heartbeat(ctx context.Context, s session, p store.HeartbeatParams) (store.Intent, bool, error)
	abandon(ctx context.Context, s session, p store.AbandonParams) (store.Intent, bool, error)
	getIntents(ctx context.Context, s session, ids string) ([]store.Intent, error)

	getObject(ctx context.Context, s session, key string) (store.Object, bool, error)
	listObjects(ctx context.Context, s session, from, after, below string, limit int) ([]store.Object, error)

	claimIntents(ctx context.Context, s session, limit int, lease, until int64) (now int64, in []store.Intent, err error)
	claimRetired(ctx context.Context, s session, limit int, due, until int64) ([]store.Retired, error)
	settleIntents(ctx context.Context, s session, batch []settlement) (int, error)
	settleRetired(ctx context.Context, s session, batch []settlement) (int, error)
	settlesAtOnce() bool // a batch is one statement, whatever the verdicts
	forget(ctx context.Context, s session, limit int) (int, error)
}

// session is where a step runs. In a transaction of the caller's nothing may
// be set that outlives the step.
type session struct {
	Querier
	own bool
	// alone is the connection where no transaction is open, for a step that
	// takes several statements on this database and must begin one.
	alone *sql.Conn
}

// within is the session in a transaction begun on its connection.
func (s session) within(q Querier) session {
	if c, ok := s.Querier.(clockQuerier); ok {
		q = clockQuerier{q, c.offset}
	}
	return session{Querier: q, own: s.own}
}

// ownTx is a transaction of our own.
type ownTx interface {
	Querier
	commit() error
	rollback()
}

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,19}$`)

const offsetToken = "{offset}"

// names makes the replacer that turns the texts of a dialect into statements.
// They are the same for the life of a store, so that drivers can keep them
// prepared.
func (d *dialect) names(o *Options) (*strings.Replacer, error) {
	if !identifier.MatchString(o.Prefix) || strings.HasPrefix(o.Prefix, "sqlite_") {
		return nil, fmt.Errorf("table prefix %.40q: must be at most 20 of a-z, 0-9 and _, and not begin with a digit or sqlite_: %w", o.Prefix, store.ErrInvalid)
	}
	quote := cmp.Or(d.quote, `"`)
	schema := ""
	if o.Schema != "" {
		if !d.schemas {
			return nil, fmt.Errorf("schema %.40q: %s has none: %w", o.Schema, d.name, store.ErrInvalid)
		}
		if !identifier.MatchString(o.Schema) {
			return nil, fmt.Errorf("schema %.40q: must be at most 20 of a-z, 0-9 and _, and not begin with a digit: %w", o.Schema, store.ErrInvalid)
		}
		schema = quote + o.Schema + quote + "."
	}
	table := func(name string) string { return schema + quote + o.Prefix + name + quote }
	now := strings.ReplaceAll(d.now, offsetToken, "")
	if o.TestClockOffset != nil {
		now = d.now
	}
	return strings.NewReplacer(
		"{objects}", table("objects"),
		"{intents}", table("intents"),
		"{retired}", table("retired"),
		"{meta}", table("meta"),
		"{intent}", intentColumns,
		"{object}", objectColumns,
		"{now}", now,
		"{bound}", fmt.Sprintf(", set_config('lock_timeout', '%d', true) AS bound", max(1, o.LockWait.Milliseconds())),
		"{milliseconds}", strconv.FormatInt(max(1, o.LockWait.Milliseconds()), 10),
		"{seconds}", strconv.FormatInt(int64((o.LockWait+time.Second-1)/time.Second), 10),
	), nil
}

// micros is the form in which times and durations are kept: every native type
// of some driver disagrees with that of another.
func micros(d time.Duration) int64 { return d.Microseconds() }
