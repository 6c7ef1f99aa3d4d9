package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/blobtx/blobtx/store"
)

//go:embed migrations
var migrations embed.FS

const (
	// defaultPrefix is also the token that Migrate rewrites in the files, which
	// are valid SQL as they are.
	defaultPrefix = "blobtx_"
	schemaVersion = 1
)

// Migrations returns the SQL that Migrate runs, as numbered files in the root
// of the returned file system, with the default prefix: for goose,
// golang-migrate or a review. Each sets the schema version itself, so Check
// and Migrate know what another tool has done. Nil for the zero Dialect.
func Migrations(d Dialect) fs.FS {
	if d.d == nil {
		return nil
	}
	files, err := fs.Sub(migrations, "migrations/"+d.d.name)
	if err != nil { // embedded: cannot be
		return nil
	}
	return files
}

// Migrate brings the tables to the version that this code speaks. It is
// idempotent, and safe when several processes start at once: one migrates
// under a lock while the others wait ("CREATE TABLE IF NOT EXISTS" is not: on
// PostgreSQL concurrent ones fail on a catalog's unique index).
// ErrNewerSchema: a later release has migrated this database.
func (s *Store) Migrate(ctx context.Context) error {
	return s.onConn(ctx, "migrate", func(ctx context.Context, c *sql.Conn) error {
		if e, ok := s.engine.(selfCommitting); ok {
			return e.alone(ctx, c, func() error { return s.migrate(ctx, s.session(sqlQuerier{c}, true)) })
		}
		return s.inOwnTx(ctx, c, s.migrate)
	})
}

// selfCommitting is an engine whose DDL commits by itself. Its files can be run
// again after a crash half-way.
type selfCommitting interface {
	engine
	// alone runs fn while no other process does.
	alone(ctx context.Context, c *sql.Conn, fn func() error) error
}

// qualifying is an engine without a search path for unqualified names.
type qualifying interface {
	engine
	// tables returns what takes the default prefix's place in the files.
	tables(schema, prefix string) string
}

func (s *Store) migrate(ctx context.Context, q session) error {
	version := 0
	migrated, err := s.engine.migrate(ctx, q, s.opts.Schema, s.opts.Prefix+"meta")
	if err != nil {
		return err
	}
	if migrated {
		if version, err = s.readVersion(ctx, q); err != nil {
			return err
		}
	}
	if version > schemaVersion {
		return newer(version)
	}
	prefix := s.opts.Prefix
	if e, ok := s.engine.(qualifying); ok {
		prefix = e.tables(s.opts.Schema, prefix)
	}
	files := Migrations(Dialect{s.dialect})
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		return err
	}
	for _, name := range names { // in order: the numbers have one width
		number, err := strconv.Atoi(name[:strings.IndexByte(name, '_')])
		if err != nil {
			return err
		}
		if number <= version {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		for _, statement := range statements(string(text), prefix) {
			if _, err := q.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// statements splits a file at the semicolons that end a line, and puts the
// prefix in its place.
func statements(text, prefix string) []string {
	var all []string
	for part := range strings.SplitSeq(text, ";\n") {
		var lines []string
		for line := range strings.SplitSeq(part, "\n") {
			if line != "" && !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			all = append(all, strings.ReplaceAll(strings.Join(lines, "\n"), defaultPrefix, prefix))
		}
	}
	return all
}

// checkOnce is checkSchema until it has succeeded once.
func (s *Store) checkOnce(ctx context.Context, q session) error {
	if s.ready.Load() {
		return nil
	}
	return s.checkSchema(ctx, q)
}

func (s *Store) checkSchema(ctx context.Context, q session) error {
	version, err := s.readVersion(ctx, q)
	if err != nil {
		return err
	}
	switch {
	case version > schemaVersion:
		return newer(version)
	case version < schemaVersion:
		return fmt.Errorf("%w: the schema has version %d, this code needs %d: run Migrate", store.ErrSetup, version, schemaVersion)
	}
	s.ready.Store(true)
	return nil
}

func newer(version int) error {
	return fmt.Errorf("%w: the schema has version %d, this code speaks %d: upgrade the library", store.ErrNewerSchema, version, schemaVersion)
}

func (s *Store) readVersion(ctx context.Context, q session) (int, error) {
	text, err := s.engine.schemaVersion(ctx, q)
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: schema_version is %.40q; run Migrate on an empty schema", store.ErrSetup, text)
	}
	return version, nil
}
