package owntable_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/examples/owntable"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
)

func ExampleDatabaseSQL() {
	s := openSQLite()
	defer s.close()
	twoWriters(s.files, owntable.DatabaseSQL{Files: s.files, Rows: s.rows})
	// Output:
	// modified: true
	// the file: twelve euros
	// deleted: true
	// the file is gone: true
}

func ExampleSQLX() {
	s := openSQLite()
	defer s.close()
	db := sqlx.NewDb(s.db, "sqlite3")
	twoWriters(s.files, owntable.SQLX{Files: s.files, Rows: s.rows, DB: db})
	// Output:
	// modified: true
	// the file: twelve euros
	// deleted: true
	// the file is gone: true
}

func ExampleGORM() {
	s := openSQLite()
	defer s.close()
	db, err := gorm.Open(gormsqlite.Dialector{Conn: s.db}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		log.Fatal(err)
	}
	twoWriters(s.files, owntable.GORM{Files: s.files, Rows: s.rows, DB: db})
	// Output:
	// modified: true
	// the file: twelve euros
	// deleted: true
	// the file is gone: true
}

// twoWriters have read the same version of an invoice; one of them is late.
func twoWriters(c *blobtx.Coordinator, t owntable.Table) {
	ctx := context.Background()
	first := owntable.Invoice{ID: "7", Cents: 1000, Version: 1, File: "invoice/7"}
	if err := owntable.Create(ctx, c, t, first, strings.NewReader("ten euros")); err != nil {
		log.Fatal(err)
	}
	second := owntable.Invoice{ID: "7", Cents: 1200, Version: 1, File: "invoice/7"}
	if err := owntable.Change(ctx, c, t, second, strings.NewReader("twelve euros")); err != nil {
		log.Fatal(err)
	}
	late := owntable.Invoice{ID: "7", Cents: 900, Version: 1, File: "invoice/7"}
	err := owntable.Change(ctx, c, t, late, strings.NewReader("nine euros"))
	fmt.Println("modified:", errors.Is(err, owntable.ErrModified))
	fmt.Println("the file:", read(c, "invoice/7"))

	// The invoice is deleted while the next change is being uploaded.
	second.Version = 2
	up, err := c.Stage(ctx, "invoice/7", strings.NewReader("five euros"), &blobtx.PutOptions{If: blobtx.IfExists()})
	if err != nil {
		log.Fatal(err)
	}
	defer up.Release()
	if err := t.Delete(ctx, second); err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted:", errors.Is(t.Update(ctx, second, up), owntable.ErrDeleted))
	_, err = c.Get(ctx, "invoice/7")
	fmt.Println("the file is gone:", errors.Is(err, blobtx.ErrNotFound))
}

func read(c *blobtx.Coordinator, key string) string {
	r, err := c.Open(context.Background(), key, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		log.Fatal(err)
	}
	return string(b)
}

// sqliteFile is an Example's database.
type sqliteFile struct {
	folder string
	db     *sql.DB
	rows   *sqlstore.Store
	files  *blobtx.Coordinator
}

func openSQLite() sqliteFile {
	folder, err := os.MkdirTemp("", "owntable")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "app.db")+
		"?_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	rows, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := rows.Migrate(context.Background()); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(context.Background(), owntable.Schema); err != nil { // after blobtx's own tables
		log.Fatal(err)
	}
	client, err := azfake.New(nil).ContainerClient("invoices", nil) // yours: container.NewClient
	if err != nil {
		log.Fatal(err)
	}
	blobs, err := azstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	files, err := blobtx.New(rows, blobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	return sqliteFile{folder, db, rows, files}
}

func (s sqliteFile) close() {
	s.db.Close()
	os.RemoveAll(s.folder)
}
