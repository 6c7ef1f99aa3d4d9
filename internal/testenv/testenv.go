// Package testenv is the environment between the command that starts real
// services, integration/cmd/services, and the tests of every module.
package testenv

import (
	"fmt"
	"os"
	"testing"
)

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
	// TookPartEnv names the file to which tests append "name version" lines.
	TookPartEnv = "BLOBTX_TEST_TOOK_PART"
)

// Lookup returns what env says of the service, or ends the test as Missing does.
func Lookup(t testing.TB, service, env string) string {
	t.Helper()
	value := os.Getenv(env)
	if value == "" {
		Missing(t, fmt.Sprintf("needs %s, and %s is not set; run \"make test\", which installs and starts it", service, env))
	}
	return value
}

// Missing ends a test that lacks something of the machine: a failure in strict
// mode, else a skip that is loud, because a silent one looks like a pass. The
// message says what gives it.
func Missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv(StrictEnv) == "1" {
		t.Fatal(message)
	}
	fmt.Fprintf(os.Stderr, "\n*** SKIPPED: %s %s ***\n\n", t.Name(), message)
	t.Skip(message)
}
