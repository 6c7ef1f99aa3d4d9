//go:build unix

package soak

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the clients
	_ "modernc.org/sqlite"             // the same, embedded

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/sqlstore"
)

// stores is both stores as one process sees them.
type stores struct {
	*blobtx.Coordinator
	db        *sql.DB
	rows      *sqlstore.Store
	blobs     *azstore.Store
	container *container.Client
	insert    string // an order of the application's
}

// open connects nothing yet. Offset moves the database's clock, nil: not.
func open(a Address, offset func() time.Duration) (*stores, error) {
	driver, dsn, dialect, insert := "pgx", a.Postgres, sqlstore.Postgres, "INSERT INTO soak_orders (ask) VALUES ($1)"
	if a.Postgres == "" {
		driver, dialect, insert = "sqlite", sqlstore.SQLite, "INSERT INTO soak_orders (ask) VALUES (?1)"
		dsn = "file:" + a.SQLite + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	rows, err := sqlstore.New(db, dialect, &sqlstore.Options{TestClockOffset: offset})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	client, err := container.NewClientFromConnectionString(a.Blobs, a.Container, &container.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{RetryDelay: 100 * time.Millisecond}},
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	blobs, err := azstore.New(client, &azstore.Options{BlockSize: blockSize})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	options := protocol
	c, err := blobtx.New(rows, blobs, &options)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &stores{c, db, rows, blobs, client, insert}, nil
}

// inTx runs fn beside an order of the application's, in one transaction.
func (s *stores) inTx(ctx context.Context, ask string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return s.rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.insert, ask); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// prepare makes the schema, the container, the application's table, and a
// history that the database itself keeps of the objects: written by triggers,
// in whatever transaction changes an object, it is the truth that the ledgers
// are held against.
func (s *stores) prepare(ctx context.Context, embedded bool) error {
	if err := s.rows.Migrate(ctx); err != nil {
		return err
	}
	statements := postgresHistory
	if embedded {
		statements = sqliteHistory
	}
	for _, statement := range statements {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := s.container.Create(ctx, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return err
	}
	return s.Check(ctx)
}

// An order that comes twice is not refused: it is to be found. In the history a
// put has a version, a removal has none; both have the version that went, or 0.
var postgresHistory = []string{
	`CREATE TABLE soak_orders (ask TEXT)`,
	`CREATE TABLE soak_history (object_key TEXT, version BIGINT, old_version BIGINT, blob_name TEXT, sha256 TEXT, metadata TEXT)`,
	`CREATE FUNCTION soak_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'DELETE' THEN
			INSERT INTO soak_history VALUES (OLD.object_key, 0, OLD.version, '', '', '{}');
		ELSIF TG_OP = 'UPDATE' THEN
			INSERT INTO soak_history VALUES (NEW.object_key, NEW.version, OLD.version, NEW.blob_name, NEW.sha256, NEW.metadata);
		ELSE
			INSERT INTO soak_history VALUES (NEW.object_key, NEW.version, 0, NEW.blob_name, NEW.sha256, NEW.metadata);
		END IF;
		RETURN NULL;
	END $$`,
	`CREATE TRIGGER soak_note AFTER INSERT OR UPDATE OR DELETE ON blobtx_objects FOR EACH ROW EXECUTE FUNCTION soak_note()`,
}

var sqliteHistory = []string{
	`CREATE TABLE soak_orders (ask TEXT)`,
	`CREATE TABLE soak_history (object_key TEXT, version INTEGER, old_version INTEGER, blob_name TEXT, sha256 TEXT, metadata TEXT)`,
	`CREATE TRIGGER soak_insert AFTER INSERT ON blobtx_objects BEGIN
		INSERT INTO soak_history VALUES (NEW.object_key, NEW.version, 0, NEW.blob_name, NEW.sha256, NEW.metadata); END`,
	`CREATE TRIGGER soak_update AFTER UPDATE ON blobtx_objects BEGIN
		INSERT INTO soak_history VALUES (NEW.object_key, NEW.version, OLD.version, NEW.blob_name, NEW.sha256, NEW.metadata); END`,
	`CREATE TRIGGER soak_delete AFTER DELETE ON blobtx_objects BEGIN
		INSERT INTO soak_history VALUES (OLD.object_key, 0, OLD.version, '', '', '{}'); END`,
}
