package blobtxtest_test

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
	"github.com/blobtx/blobtx/sqlstore"
)

const schema = `
CREATE TABLE customers (id INTEGER PRIMARY KEY, invoices INTEGER NOT NULL);
CREATE TABLE invoices (
	id       TEXT    NOT NULL PRIMARY KEY,
	customer INTEGER NOT NULL REFERENCES customers (id),
	file     TEXT    NOT NULL REFERENCES blobtx_objects (object_key)
);
INSERT INTO customers (id, invoices) VALUES (1, 0)`

type invoice struct {
	ID       string
	Customer int
	File     string
}

// A library writes the application's own rows, and the object, in one
// transaction of its own kind.
type library func(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error

var libraries = map[string]library{"database-sql": databaseSQL, "sqlx": throughSQLX, "gorm": throughGORM}

const (
	insertRow = `INSERT INTO invoices (id, customer, file) VALUES (?, ?, ?)`
	countRow  = `UPDATE customers SET invoices = invoices + 1 WHERE id = ?`
)

func databaseSQL(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error {
	tx, err := p.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit
	if _, err := commit(p.SQL.Tx(tx)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertRow, row.ID, row.Customer, row.File); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, countRow, row.Customer); err != nil {
		return err
	}
	return tx.Commit()
}

func throughSQLX(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error {
	tx, err := sqlx.NewDb(p.DB, "sqlite3").BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after a commit
	if _, err := commit(p.SQL.Tx(tx)); err != nil {
		return err
	}
	if _, err := tx.NamedExecContext(ctx, `INSERT INTO invoices (id, customer, file) VALUES (:id, :customer, :file)`, row); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, countRow, row.Customer); err != nil {
		return err
	}
	return tx.Commit()
}

func throughGORM(ctx context.Context, p *blobtxtest.Process, commit blobtx.CommitFunc, row invoice) error {
	db, err := gorm.Open(gormsqlite.Dialector{Conn: p.DB}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return err
	}
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := commit(p.SQL.Tx(tx.Statement.ConnPool.(sqlstore.Tx))); err != nil {
			return err
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return tx.Exec(countRow, row.Customer).Error
	})
}

// server is a process that takes one request. Started again, it meets its
// client's retry.
func server(name, id string, with library) blobtxtest.Actor {
	return blobtxtest.Actor{Name: name, Run: func(ctx context.Context, p *blobtxtest.Process) error {
		key := "invoice/" + id
		o, err := create(ctx, p, key, invoice{ID: id, Customer: 1, File: key}, with)
		if err != nil {
			p.Refused(key, err)
			return err
		}
		p.Acked(key, o)
		return nil
	}}
}

func create(ctx context.Context, p *blobtxtest.Process, key string, row invoice, with library) (blobtx.Object, error) {
	up, err := p.Stage(ctx, key, strings.NewReader("the bytes of "+row.ID), &blobtx.PutOptions{IdempotencyKey: "request " + row.ID})
	if err != nil {
		return blobtx.Object{}, err
	}
	defer up.Release()
	objects, err := p.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return with(ctx, p, commit, row)
	}, up)
	if err != nil {
		return blobtx.Object{}, err
	}
	return objects[0], nil
}

func sweeper() blobtxtest.Actor {
	return blobtxtest.Actor{Name: "sweeper", Run: func(ctx context.Context, p *blobtxtest.Process) error {
		_, err := p.Sweep(ctx, nil)
		return err
	}}
}
