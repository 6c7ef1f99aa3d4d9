// Package services hands real services to tests. The command in
// integration/cmd/services starts them and says through the environment where
// they are; "make test" runs every test under it.
//
// Each helper gives the test a database or container of its own and removes it
// when the test ends, so tests may run in parallel. Each also records that the
// service really answered, so that a run ends by saying what took part.
package services

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// The environment between the services command and the tests.
const (
	// PostgresEnv holds a PostgreSQL URL whose user may create databases.
	PostgresEnv = "BLOBTX_TEST_POSTGRES"
	// MariaDBEnv holds a DSN of go-sql-driver/mysql, without a database, whose
	// user may create them.
	MariaDBEnv = "BLOBTX_TEST_MARIADB"
	// AzuriteEnv holds a connection string of the Blob Storage emulator.
	AzuriteEnv = "BLOBTX_TEST_AZURITE"
	// StrictEnv set to 1 makes a missing service a failure instead of a skip.
	StrictEnv = "BLOBTX_TEST_STRICT"
	// TookPartEnv names the file to which helpers append "name version" lines.
	TookPartEnv = "BLOBTX_TEST_TOOK_PART"
)

// lookup returns what env says, or ends the test: a failure in strict mode, else
// a skip that is loud, because a silent one looks like a pass.
func lookup(t testing.TB, service, env string) string {
	t.Helper()
	if value := os.Getenv(env); value != "" {
		return value
	}
	message := fmt.Sprintf("needs %s, and %s is not set; run \"make test\", which installs and starts it", service, env)
	if os.Getenv(StrictEnv) == "1" {
		t.Fatal(message)
	}
	fmt.Fprintf(os.Stderr, "\n*** SKIPPED: %s %s ***\n\n", t.Name(), message)
	t.Skip(message)
	return ""
}

var recorded sync.Map // lines this process has written already

// tookPart records that a service answered this process.
func tookPart(t testing.TB, name, version string) {
	t.Helper()
	path := os.Getenv(TookPartEnv)
	line := name + " " + strings.TrimSpace(version) + "\n"
	if _, done := recorded.LoadOrStore(line, true); done || path == "" {
		return
	}
	// One short O_APPEND write: test binaries of several packages share the file.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(line)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatalf("record that %s took part: %v", name, err)
	}
}
