package protocol

import "fmt"

// world is both stores, everybody at work on them, and what is on its way.
// Ghosts are what no process can see; the rules need them.
type world struct {
	db       database
	copy     database // the backup
	hasCopy  bool
	restored bool
	keep     [names]bool // ghost: committed and not given up in the copy; must survive a restore
	blobs    [names]blob
	procs    [4]proc
	late     [2]op // sent, given up by their senders, and not there yet
	faults   uint8 // still to come
	wrong    wrong // ghost: a rule broken inside a step
}

const names = 3 // intents, each with one write-once blob name

type database struct {
	object  object
	intents [names]intent
	retired [names]retired
}

type object struct {
	exists  bool
	version uint8
	blob    uint8
	content uint8
}

type intent struct {
	state     intentState
	version   uint8
	holder    int8  // who inserted it or took it over last
	watched   bool  // abandoned: a sweeper has looked, the quarantine runs or is over
	claims    uint8 // abandoned: since the last settlement; many is more than one
	committed bool  // ghost: survives the state, not a restore
}

type intentState uint8

const (
	none intentState = iota
	uploading
	sealing
	done
	abandoned
	held
	gone // no row is left
)

var stateNames = [...]string{"none", "uploading", "sealing", "done", "abandoned", "held", "gone"}

func (s intentState) String() string { return stateNames[s] }

const many = 2 // claims

// retired is a blob that the object has given up.
type retired uint8

const (
	due     retired = 1 + iota // to be deleted; 0: not retired
	watched                    // deleted; the quarantine runs
	looking                    // the quarantine is over, somebody has claimed it since
)

type blob struct {
	exists, sealed bool
	content        uint8 // 0: empty, where staged blocks were cleared
}

type proc struct {
	role    role
	at      opKind // the next request; noOp: idle or finished
	over    bool
	id      uint8
	version uint8 // of the intent, as last seen
	expect  uint8 // the object's version that the commit requires; 0: absent
	content uint8
	last    uint8 // the claim that makes this a sweeper's last round on the name; 0: it is not
	retries uint8
	budget  uint8 // claims that a sweeper has left
	told    told
}

type role uint8

const (
	writer role = iota
	sweeper
	deleter
)

// told is what a client was told.
type told uint8

const (
	nothing told = iota
	saidYes
	saidNo
	saidUnknown
)

// op is a request to either store. It is atomic, and it can land late.
type op struct {
	kind    opKind
	id      uint8
	version uint8
	expect  uint8
	content uint8
	last    uint8
	proc    int8
}

type opKind uint8

const (
	noOp opKind = iota
	opInsert
	opCreate
	opStat
	opCommit
	opTakeOver
	opFlip
	opFinish
	opAbandon
	opClear
	opDeletePending
	opWatch
	opForgetIntent
	opFailedIsWatched // a mutant's
	opDeleteRetired
	opWatchRetired
	opForgetRetired
	opDeleteObject
)

var opNames = [...]string{
	"", "insert intent", "create blob", "stat", "commit", "settle (take over)", "flip tag", "finish intent",
	"abandon (fence)", "clear staged blocks", "delete if pending", "watch on", "forget intent", "note failure as a look",
	"delete retired", "watch retired on", "forget retired", "delete object",
}

// String is the request in a trace.
func (o op) String() string {
	if o.kind == opDeleteObject {
		return fmt.Sprintf("%s, version %d", opNames[o.kind], o.expect)
	}
	return fmt.Sprintf("%s %d", opNames[o.kind], o.id)
}

type result uint8

const (
	ok result = iota
	taken
	already
	conflict
	fenced
	lost
	exists
	missing
	different
	refused
	failed
)

var resultNames = [...]string{
	"ok", "taken over", "already committed", "conflict", "another holder", "abandoned", "exists", "missing", "different", "refused", "error",
}

func (r result) String() string { return resultNames[r] }

// wrong is a rule broken inside a step.
type wrong uint8

const (
	lostUpdate wrong = 1 + iota
	fencedHolderCommitted
	fencedHolderAborted
	deletedKept
)
