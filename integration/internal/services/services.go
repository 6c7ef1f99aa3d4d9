// Package services hands real services to tests. The command in
// integration/cmd/services starts them and says through the environment where
// they are; "make test" runs every test under it.
//
// Each helper gives the test a database or container of its own and removes it
// when the test ends, so tests may run in parallel. Each also records that the
// service really answered, so that a run ends by saying what took part.
package services

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/blobtx/blobtx/internal/testenv"
)

// What is in package testenv, for those who have this one.
const (
	PostgresEnv = testenv.PostgresEnv
	MariaDBEnv  = testenv.MariaDBEnv
	AzuriteEnv  = testenv.AzuriteEnv
	StrictEnv   = testenv.StrictEnv
	TookPartEnv = testenv.TookPartEnv
)

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
