//go:build unix

// Package soak runs blobtx in many operating-system processes that are killed
// at random moments, on real stores, and compares afterwards what the clients
// were told with what the stores hold.
//
// One process, the conductor, is never killed. It starts the servers and the
// clients (this program again, with a role), kills and restarts clients, stops
// some in their tracks and continues them, does the same with the blob service,
// and restarts PostgreSQL as after a crash. Every client writes down, outside both stores, what
// it is about to ask and what it was told. At the end the conductor lets all
// deadlines pass, sweeps, and judges.
package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/blobtx/blobtx"
)

// Options says how long to soak and on what.
type Options struct {
	Kills    int    // SIGKILLs to give
	Seed     uint64 // of every random choice; the scheduler makes its own
	Embedded bool   // SQLite and azfake in place of PostgreSQL and Azurite
	Ledger   string // folder that keeps the clients' ledgers; empty: a temporary one
}

// The clients' deadlines are short, so that what a kill leaves behind is met by
// others during the run. The quarantine is longer than any time for which a
// request of a dead client can lie in a stopped server.
var protocol = blobtx.Options{
	IntentTTL:  2 * time.Second,
	ReadGrace:  time.Second,
	Quarantine: 30 * time.Second,
}

const maxPause = 2500 * time.Millisecond // of the blob service

// roleEnv holds a client's Role and marks the process as one.
const roleEnv = "BLOBTX_SOAK_ROLE"

// Role is what the conductor tells a process that it starts.
type Role struct {
	Kind        string // of client, or "caretaker"
	Name        string // of the client; stays through its restarts
	Incarnation int    // counts its restarts
	Seed        uint64
	Ledger      string // folder
	Stores      Address
}

// Address is where both stores are.
type Address struct {
	Postgres  string // URL; empty: SQLite
	SQLite    string // path of the file
	Blobs     string // connection string
	Container string
}

// IsClient reports whether the conductor started this process.
func IsClient() bool { return os.Getenv(roleEnv) != "" }

func roleOfThisProcess() (Role, error) {
	var role Role
	if err := json.Unmarshal([]byte(os.Getenv(roleEnv)), &role); err != nil {
		return Role{}, fmt.Errorf("read the role: %w", err)
	}
	return role, nil
}

func (r Role) env() (string, error) {
	text, err := json.Marshal(r)
	return roleEnv + "=" + string(text), err
}
