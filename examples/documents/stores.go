package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
)

// service is what the handlers share.
type service struct {
	*blobtx.Coordinator
	db      *sql.DB
	rows    *sqlstore.Store
	log     *slog.Logger
	maxSize int64  // of a document, in bytes
	folder  string // to remove at the end; empty: none
}

// open makes the service's tables and container where they are missing, and
// checks that both can do what is needed.
func open(ctx context.Context, dsn, azure string, log *slog.Logger) (_ *service, err error) {
	s := &service{log: log, maxSize: 64 << 20}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dialect, err := s.openDB(dsn)
	if err != nil {
		return nil, err
	}
	client, err := openContainer(ctx, azure)
	if err != nil {
		return nil, err
	}
	return s, s.join(ctx, dialect, &sqlstore.Options{Prefix: "documents_"}, client)
}

// join makes one coordinator of a database and a container.
func (s *service) join(ctx context.Context, dialect sqlstore.Dialect, opts *sqlstore.Options, client *container.Client) (err error) {
	if s.rows, err = sqlstore.New(s.db, dialect, opts); err != nil {
		return err
	}
	if err := s.rows.Migrate(ctx); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, createTable); err != nil {
		return fmt.Errorf("create the table of documents: %w", err)
	}
	blobs, err := azstore.New(client, &azstore.Options{Prefix: "documents/"})
	if err != nil {
		return err
	}
	if s.Coordinator, err = blobtx.New(s.rows, blobs, &blobtx.Options{Logger: s.log}); err != nil {
		return err
	}
	return s.Check(ctx)
}

func (s *service) openDB(dsn string) (d sqlstore.Dialect, err error) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		if s.db, err = sql.Open("pgx", dsn); err != nil {
			return d, errors.New("-db is not a postgres:// URL") // the driver's error may quote the password
		}
		return sqlstore.Postgres, nil
	}
	if dsn == "" {
		if s.folder, err = os.MkdirTemp("", "documents"); err != nil {
			return d, err
		}
		dsn = filepath.Join(s.folder, "documents.db")
	}
	s.db, err = sql.Open("sqlite", "file:"+dsn+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return d, err
	}
	s.db.SetMaxOpenConns(1) // SQLite has one writer
	return sqlstore.SQLite, nil
}

func openContainer(ctx context.Context, azure string) (*container.Client, error) {
	switch {
	case azure == "":
		return azfake.New(nil).ContainerClient("documents", nil)
	case strings.HasPrefix(azure, "http://"), strings.HasPrefix(azure, "https://"):
		return container.NewClientWithNoCredential(azure, nil)
	}
	client, err := container.NewClientFromConnectionString(azure, "documents", nil)
	if err != nil {
		return nil, errors.New("-azure is neither a URL nor a connection string")
	}
	if _, err := client.Create(ctx, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil, withoutSAS(err)
	}
	return client, nil
}

// withoutSAS leaves out the SDK's text, which has the URL and so the signature
// of a SAS. The errors of azstore are without it already.
func withoutSAS(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return fmt.Errorf("create the container: %d %s", answer.StatusCode, answer.ErrorCode)
	}
	return errors.New("create the container: no answer from the address in -azure")
}

func (s *service) close() {
	if s.db != nil {
		s.db.Close()
	}
	if s.folder != "" {
		os.RemoveAll(s.folder)
	}
}
