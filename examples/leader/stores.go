package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/sqlstore"
)

type stores struct {
	db    *sql.DB
	c     *blobtx.Coordinator
	blobs *azstore.Store
}

func openStores(ctx context.Context, dsn, azure string) (_ *stores, err error) {
	dialect, driver := sqlstore.Postgres, "pgx"
	if !strings.HasPrefix(dsn, "postgres://") {
		dialect, driver = sqlstore.SQLite, "sqlite"
		dsn = "file:" + dsn + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	}
	s := &stores{}
	if s.db, err = sql.Open(driver, dsn); err != nil {
		return nil, errors.New("-db is not a postgres:// URL or a file")
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if driver == "sqlite" {
		s.db.SetMaxOpenConns(1) // SQLite has one writer
	}
	rows, err := sqlstore.New(s.db, dialect, &sqlstore.Options{Prefix: "leader_"})
	if err != nil {
		return nil, err
	}
	if err := rows.Migrate(ctx); err != nil {
		return nil, err
	}
	client, err := container.NewClientWithNoCredential(azure, nil)
	if err != nil {
		return nil, errors.New("-azure is not a container URL")
	}
	if s.blobs, err = azstore.New(client, &azstore.Options{Prefix: "leader/"}); err != nil {
		return nil, err
	}
	// Seals are left to the sweeper, so that there is something to see.
	s.c, err = blobtx.New(rows, s.blobs, &blobtx.Options{SealLater: true})
	return s, err
}

func (s *stores) close() { s.db.Close() }
