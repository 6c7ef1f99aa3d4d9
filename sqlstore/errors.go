package sqlstore

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// IsRetryable reports whether err, from any of the supported drivers and
// however wrapped, says that the transaction was rolled back through no fault
// of its own, so that the same transaction may simply run again: a deadlock, a
// serialization failure, a busy SQLite database. It needs no driver: it looks
// for the methods and fields by which their errors are known.
//
// PostgreSQL, "Serialization Failure Handling": 40001 and 40P01. MySQL, "InnoDB
// Error Handling": 1213, 1205, 3101 of group replication, and 1020 of MariaDB's
// innodb_snapshot_isolation. SQL Server: 1205, 3960 and 3961.
// SQLite, "Result and Error Codes": SQLITE_BUSY, SQLITE_LOCKED, and
// SQLITE_BUSY_SNAPSHOT, which is one of the former.
func IsRetryable(err error) bool { return classify(err)&retryable != 0 }

// class is what a driver's error means here.
type class uint8

const (
	retryable  class = 1 << iota
	locked           // a lock was not to be had within the bound; nothing else failed
	perConn          // and a database in memory is another one for each connection
	noTable          // the tables are not there
	duplicate        // a unique index has the key already
	constraint       // a constraint refused it, for good
)

// classify walks the tree of err, both forms of Unwrap.
func classify(err error) class {
	if err == nil {
		return 0
	}
	if c := classifyOne(err); c != 0 {
		return c
	}
	switch e := err.(type) { // this is the walk
	case interface{ Unwrap() error }:
		return classify(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all class
		for _, one := range e.Unwrap() {
			all |= classify(one)
		}
		return all
	}
	return 0
}

func classifyOne(err error) class {
	switch e := err.(type) { // one link of the chain
	case interface{ SQLState() string }: // pgx, pq
		return classifySQLState(e.SQLState())
	case interface{ SQLErrorNumber() int32 }: // go-mssqldb
		return classifySQLServer(e.SQLErrorNumber())
	}
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.IsValid() && strings.Contains(v.Type().PkgPath(), "sqlite") {
		return classifySQLite(err, v)
	}
	if v.Kind() != reflect.Struct {
		return 0
	}
	if f := v.FieldByName("Number"); f.IsValid() && f.Kind() == reflect.Uint16 { // go-sql-driver/mysql
		return classifyMySQL(f.Uint())
	}
	return 0
}

func classifySQLState(code string) class {
	switch code {
	case "23503", "23514", "23001", "23P01": // not 23505, which may be a race's
		return constraint
	case "40001", "40P01":
		return retryable
	case "55P03":
		return locked
	case "42P01", "3F000":
		return noTable
	}
	return 0
}

func classifySQLServer(number int32) class {
	switch number {
	case 1205, 3960, 3961:
		return retryable
	case 1222:
		return locked
	case 208:
		return noTable
	case 2601, 2627:
		return duplicate
	case 547:
		return constraint
	}
	return 0
}

func classifyMySQL(number uint64) class {
	switch number {
	case 1213, 1020, 3101:
		return retryable
	case 1205:
		return retryable | locked
	case 3572:
		return locked
	case 1146, 1049, 1046:
		return noTable
	case 1451, 1452, 3819, 4025:
		return constraint
	}
	return 0
}

func classifySQLite(err error, v reflect.Value) class {
	switch sqliteCode(err, v) & 0xff { // the rest refines
	case sqliteBusy, sqliteLocked:
		return retryable | locked
	case sqliteConstraint:
		return constraint
	case sqliteError:
		// SQLite has no code of its own for this: SQLITE_ERROR is for whatever is
		// wrong with a statement. A text that changed would cost the hint, and the
		// identity ErrSetup with which the core spares itself retries in vain.
		if strings.Contains(err.Error(), "no such table") {
			return noTable | perConn
		}
	}
	return 0
}

func sqliteCode(err error, v reflect.Value) int {
	if e, ok := err.(interface{ Code() int }); ok { // modernc
		return e.Code()
	}
	if v.CanUint() { // ncruces, which also returns bare codes
		return int(v.Uint())
	}
	if m := reflect.ValueOf(err).MethodByName("ExtendedCode"); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 { // ncruces
		if code := m.Call(nil)[0]; code.CanUint() {
			return int(code.Uint())
		}
	}
	if v.Kind() != reflect.Struct {
		return 0
	}
	if f := v.FieldByName("Code"); f.IsValid() && f.CanInt() { // mattn
		return int(f.Int())
	}
	return 0
}

const (
	sqliteError      = 1
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
)

// describe wraps a database's error once, as verb and noun, and adds what it
// means here. Errors that the contracts name pass as they are, with the same
// words in front.
func describe(what string, err error) error {
	c := classify(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrConflict):
		return err
	case c&perConn != 0 && !errors.Is(err, store.ErrSetup):
		return fmt.Errorf("%s: %w: the tables are not there; run Migrate (and look at Prefix, and at the file; \":memory:\" is a database of its own for each connection: db.SetMaxOpenConns(1)): %w", what, store.ErrSetup, err)
	case c&noTable != 0 && !errors.Is(err, store.ErrSetup):
		return fmt.Errorf("%s: %w: the tables are not there; run Migrate (and look at Prefix and Schema): %w", what, store.ErrSetup, err)
	case c&constraint != 0 && !errors.Is(err, store.ErrInvalid):
		return fmt.Errorf("%s: %w: a constraint of the database refuses it (does a row still refer to the object?): %w", what, store.ErrInvalid, err)
	case c&locked != 0 && !errors.Is(err, store.ErrBusy):
		return fmt.Errorf("%s: %w: another transaction kept a lock longer than the bound: %w", what, store.ErrBusy, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// clean reports whether err leaves a caller's transaction as it was.
func clean(err error) bool {
	if errors.Is(err, store.ErrTxUnusable) {
		return false
	}
	for _, one := range []error{
		store.ErrConflict, store.ErrIntentLost, store.ErrTakenOver, store.ErrHeld, store.ErrAlreadyCommitted,
		store.ErrNotFound, // no object to change
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
