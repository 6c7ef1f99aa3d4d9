package publish

import "fmt"

// world is an object's row, the debt, the blob under the published name, and
// everybody at work on them.
type world struct {
	row      row  // as committed
	debt     debt // likewise
	txs      [2]tx
	versions uint8 // given out; a version never repeats
	stamps   uint8 // likewise
	alias    uint8 // the version of the blob under the published name; 0: there is none
	newest   uint8 // ghost: the newest version that the alias has shown since it was last taken away
	pubs     [2]publisher
	late     [2]request // sent, given up by their senders, and not there yet
	faults   uint8      // still to come
	back     bool       // ghost: the alias went back to an older version
}

// row is the object's: version 0 is no object.
type row struct {
	version uint8
	named   bool // published_name is set
}

// debt is the name's row in the table of published names.
type debt struct {
	state debtState
	stamp uint8 // another with everything that changes the object
}

type debtState uint8

const (
	noDebt   debtState = iota // no row
	paid                      // the row stays, and so does its stamp
	owed                      // anybody may claim it
	watching                  // the alias was taken away; the quarantine runs
	looking                   // the quarantine is over, somebody has claimed it since
)

// tx is somebody who runs one transaction after another, and may stop between
// two of them for good.
type tx struct {
	script   [5]change // what is left to do
	inFlight bool      // it has done the first; the locks are held, nobody sees it yet
	owes     bool      // it records the debt
	waits    bool      // a mutant's: its statement has begun and waits for the lock
	saw      bool      // a mutant's: the name's row was there when it began
}

type change uint8

const (
	create change = 1 + iota // 0: the end
	replace
	remove
	publish
	unpublish
)

func (c change) String() string { return changeNames[c] }

var changeNames = [...]string{"", "create", "replace", "delete", "publish", "unpublish"}

// publisher pays the debt. ETags never repeat, so all that matters of one that
// it remembers is whether it is still the alias's.
type publisher struct {
	at      step
	budget  uint8 // claims left
	stamp   uint8 // as claimed
	last    bool  // the quarantine was over when it claimed
	current bool  // the ETag it looked at is still the alias's
	shown   uint8 // the version it looked at; 0: there was none
	version uint8 // the object's, read after that; 0: no object, or it has no such name
	found   bool  // it took an alias away
}

type step uint8

const (
	idle step = iota
	toLook
	toRead
	toWrite
	toSettle
)

// request is what can be lost, land late or land twice.
type request struct {
	kind    kind
	version uint8
	current bool // its ETag is still the alias's
	stamp   uint8
}

type kind uint8

const (
	putNew kind = 1 + iota // create-only
	putOver
	takeAway
	clearDebt
	watchOn
	forget
)

// String is the request in a trace.
func (r request) String() string {
	switch r.kind {
	case putNew:
		return fmt.Sprintf("create the name, version %d", r.version)
	case putOver:
		return fmt.Sprintf("replace the name, version %d", r.version)
	case takeAway:
		return "delete the name"
	case clearDebt:
		return fmt.Sprintf("clear the debt, stamp %d", r.stamp)
	case watchOn:
		return fmt.Sprintf("watch on, stamp %d", r.stamp)
	}
	return fmt.Sprintf("forget the name, stamp %d", r.stamp)
}
