// Package wire loses requests and replies between the whole library and real
// services: PostgreSQL and MariaDB through a proxy, for each driver, and Azurite through a
// transport.
package wire

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The SDK's default transport keeps idle connections; they are not leaks.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
