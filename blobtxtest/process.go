package blobtxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
)

// Process is one living process of an actor: its Coordinator and its handles on
// the stores, every call of which is a step.
type Process struct {
	*blobtx.Coordinator
	Rows  store.RowStore
	Blobs store.BlobStore
	DB    *sql.DB         // nil in Memory and Azure
	SQL   *sqlstore.Store // nil in Memory and Azure

	run *running
}

// ErrNoTransactions is what Begin returns in a world whose transactions are
// opened through Process.DB.
var ErrNoTransactions = errors.New("blobtxtest: this world's transactions are begun on Process.DB")

// Begin opens a transaction of the application's own in a Memory or an Azure
// world. Its statements, its COMMIT and its ROLLBACK are steps.
func (p *Process) Begin(ctx context.Context) (faultstore.Transaction, error) {
	m, ok := p.run.e.place.(beginner)
	if !ok {
		return nil, ErrNoTransactions
	}
	return m.begin(ctx, p.run)
}

// Acked records that the client was told: the object is stored, as o. That
// must be true, and of all versions of the key that this process makes visible
// each must be so acknowledged (or none reported at all).
func (p *Process) Acked(key string, o blobtx.Object) {
	p.run.report(report{kind: acked, key: key, object: o})
}

// Refused records that the client was told: not stored. Unless err says that
// the outcome is unknown (ErrOutcomeUnknown, ErrTakenOver), nothing that this
// process did for the key may be visible then or ever after, but what it
// acknowledges.
func (p *Process) Refused(key string, err error) {
	kind := refused
	if errors.Is(err, blobtx.ErrOutcomeUnknown) || errors.Is(err, blobtx.ErrTakenOver) {
		kind = unknown
	}
	p.run.report(report{kind: kind, key: key, err: err})
}

// Errorf fails the exploration: this process saw what must not be.
func (p *Process) Errorf(format string, args ...any) {
	p.run.report(report{kind: broken, err: fmt.Errorf(format, args...)})
}

// Moment is a step that touches nothing: the process goes on at a moment which
// the schedule chooses.
func (p *Process) Moment(ctx context.Context, what string) error {
	return p.moment(ctx, faultstore.Op{Store: moments, Name: what})
}

// Meanwhile starts a goroutine in which then happens, beside what the process
// does, at a moment which the schedule chooses: a client that leaves, a second
// request. It does not happen to a process that has ended.
func (p *Process) Meanwhile(what string, then func()) {
	go func() {
		if p.moment(p.run.faulty.Context(), faultstore.Op{Store: asides, Name: what}) == nil {
			then()
		}
	}()
}

func (p *Process) moment(ctx context.Context, op faultstore.Op) error {
	f := p.run.faulty.Step(ctx, op)
	var err error
	if f.Kind != faultstore.Proceed {
		err = faultstore.ErrDead
	}
	if f.Told != nil {
		f.Told(nil, err)
	}
	return err
}

// What the steps of Moment and Meanwhile are steps of.
const (
	moments = "moment"
	asides  = "meanwhile"
)

func isMoment(op *faultstore.Op) bool { return op.Store == moments || op.Store == asides }

// report is one thing a client was told.
type report struct {
	kind   reportKind
	key    string
	object blobtx.Object
	err    error
}

type reportKind byte

const (
	acked   reportKind = iota
	refused            // for good
	unknown
	broken
)

func (r *running) report(rep report) {
	if r.faulty.Dead() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, rep)
	var d digest
	d.word(uint64(rep.kind))
	d.text(rep.key)
	d.word(uint64(rep.object.Version))
	r.told.word(d.a)
	r.told.word(d.b)
}
