package blobtxtest

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
)

// run executes the schedule to its end, or to a state that was met before.
func (e *execution) run() (merged bool, err error) {
	if err := e.start(); err != nil {
		return false, err
	}
	defer e.finish()
	fresh := e.schedule.beyond()
	for n := 0; ; n++ {
		e.settleDown()
		e.afterStep(fresh)
		if e.violated() {
			return false, nil
		}
		if n == maxSteps {
			e.violate(fmt.Sprintf("no end after %d steps", maxSteps))
			return false, nil
		}
		options := e.next()
		if len(options) == 0 {
			if e.stillRunning() {
				if !e.idle() {
					e.violate(stuck)
				}
				continue
			}
			if e.atRest() {
				return false, nil
			}
			continue
		}
		fresh = e.schedule.beyond()
		if fresh && e.x.met(e) {
			return true, nil
		}
		one, err := e.schedule.choose(options)
		if err != nil {
			return false, err
		}
		// The last given choice leads to where nobody was before.
		fresh = e.schedule.beyond()
		if err := e.take(options[one]); err != nil || e.pointless {
			return e.pointless, err
		}
	}
}

const stuck = "nothing moves any more: a process waits for something that no step brings about"

func (e *execution) stillRunning() bool {
	for _, r := range e.procs {
		if !r.crashed && !r.buried {
			return true
		}
	}
	return false
}

// take does what was chosen.
func (e *execution) take(o option) error {
	e.last, e.wrote = nil, false
	switch o.kind {
	case step:
		e.last, e.wrote = o.call.r, o.call.op.Write
		e.log.call(o.call, faultstore.Proceed)
		e.release(o.call, faultstore.Proceed)
	case deliver:
		l := e.late[o.late]
		e.late = append(e.late[:o.late:o.late], e.late[o.late+1:]...)
		e.last, e.wrote = l.r, true
		e.log.add(l.r.name, "the delayed request arrives: "+l.Op.Name, l.Op.Subject)
		go l.Apply()
	case pass:
		e.log.add("", "time passes", e.passes[0].String())
		e.place.pass(e.passes[0])
		e.passes = e.passes[1:]
	case wait:
		e.log.add("", "the others wait until somebody wakes", "")
		if !e.idle() {
			if len(e.calls()) == 0 && len(e.late) == 0 {
				e.violate(stuck)
			}
			e.pointless = true // what it waits for is another's step
		}
	case rest:
		e.log.add("", "what is on its way stays there", "")
		return e.settleRest()
	case copyRows:
		return e.copyRows()
	case putBack:
		return e.putBack()
	case inject:
		e.faults--
		e.injected++
		e.log.call(o.call, o.fault)
		e.last = o.call.r
		if o.fault == faultstore.Die {
			e.surfaced++
			return e.crash(o.call.r)
		}
		o.call.fault = true
		o.call.midway = o.fault == faultstore.Midway
		if o.call.midway {
			e.surfaced++ // a reader that stops early never meets it
		}
		e.wrote = o.call.op.Write
		e.release(o.call, o.fault)
	}
	return nil
}

// afterStep looks and checks. On the way to where the schedule leaves known
// ground everything was checked before.
func (e *execution) afterStep(fresh bool) {
	if e.wrote {
		e.observe(e.last, fresh)
		e.wrote = false
	}
	e.listen()
	for _, r := range e.procs {
		if r.buried && !r.judged {
			r.judged = true
			e.judge(r)
		}
	}
	if e.ledger.changed {
		e.ledger.changed = false
		if fresh {
			e.ask("Always", e.s.Always)
		}
	}
}

// digest is the state of the whole execution: what is equal here goes on
// equally.
func (e *execution) digest() digest {
	var d digest
	d.word(uint64(e.faults)<<32 | uint64(len(e.passes))<<8 | uint64(e.phase))
	d.time(time.Now())
	d.word(uint64(e.place.clock()))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hash.rows(&d, &e.ledger.now)
	for i := range e.ledger.now.blobs {
		e.hash.info(&d, &e.ledger.now.blobs[i])
	}
	if p, ok := e.place.(hider); ok {
		p.hidden(&d)
	}
	var sum digest
	for _, l := range e.late {
		one := l.id
		one.word(uint64(l.r.index)<<32 | uint64(l.r.life))
		sum.plus(one)
	}
	d.sub(sum)
	for _, r := range e.procs {
		e.process(&d, r)
	}
	e.history(&d)
	e.restoring.history(&d)
	return d
}

// process digests what one process will do: of one that has ended, only what
// its clients were told still counts, and of one that died, nothing.
func (e *execution) process(d *digest, r *running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.crashed:
		d.word(1)
	case r.buried:
		d.word(2)
		d.sub(r.told)
	default:
		d.word(3)
		d.sub(r.told)
		d.sub(r.replies)
		d.sub(r.pending)
	}
}

// history digests what the checks remember.
func (e *execution) history(d *digest) {
	var sum digest
	for key, r := range e.ledger.seen {
		var one digest
		one.text(key.key)
		one.word(uint64(key.version))
		if r != nil && !r.crashed {
			one.word(uint64(r.index+2)<<32 | uint64(r.life))
		}
		sum.plus(one)
	}
	for key, o := range e.ledger.acked {
		var one digest
		one.word(8)
		one.text(key)
		one.word(uint64(o.Version))
		sum.plus(one)
	}
	for name, sum256 := range e.ledger.named {
		var one digest
		one.text(name)
		one.text(sum256)
		sum.plus(one)
	}
	for name := range e.ledger.retired {
		var one digest
		one.word(7)
		one.text(name)
		sum.plus(one)
	}
	d.sub(sum)
}

// restRounds is how often deadlines pass and a sweeper runs at the end.
const restRounds = 12

// atRest lets deadlines pass and sweeps, round by round, until nothing is left
// to do, and checks what must hold then. It reports whether that is the end:
// after the first sweep, requests that are still on their way may arrive.
func (e *execution) atRest() (end bool) {
	if e.phase == 0 {
		if err := e.settleRest(); err != nil {
			e.violate(err.Error())
		}
		return e.violated()
	}
	for round := 1; ; round++ {
		e.place.pass(e.x.longest)
		e.sweep(fmt.Sprintf("all deadlines pass, sweep %d", round+1))
		if e.violated() {
			return true
		}
		if e.quiet() {
			break
		}
		if round == restRounds {
			e.violate(fmt.Sprintf("not at rest after %d sweeps: %s", round+1, e.unrest()))
			return true
		}
	}
	e.clean()
	e.ask("AtRest", e.s.AtRest)
	return true
}

// settleRest goes into the next phase: from the last process's end to the first
// sweep, and from there to the others, before which what is still on its way
// is lost for good.
func (e *execution) settleRest() error {
	e.phase++
	if e.phase == 1 {
		e.place.pass(e.x.first)
		if p, ok := e.place.(locker); ok && p.locked() {
			e.log.add("", "the first deadlines pass, and a transaction on its way locks the database", "")
			return nil
		}
		e.sweep("the first deadlines pass, sweep 1")
		return nil
	}
	for _, l := range e.late {
		l.Drop()
	}
	e.late = nil
	return nil
}

// locker is a place that one transaction may lock as a whole.
type locker interface{ locked() bool }

func (e *execution) sweep(what string) {
	line := e.log.add("", what, "")
	result, err := e.calm.Sweep(context.Background(), nil)
	if err != nil {
		e.violate(fmt.Sprintf("sweep at rest: %v", err))
	}
	line.say(result)
	e.observe(nil, true)
}

// quiet reports whether a further sweep has nothing to do.
func (e *execution) quiet() bool {
	for i := range e.ledger.now.intents {
		if e.ledger.now.intents[i].State != store.Held {
			return false
		}
	}
	return len(e.ledger.now.retired) == 0
}

func (e *execution) unrest() string {
	for _, in := range e.ledger.now.intents {
		if in.State != store.Held {
			return fmt.Sprintf("intent %s of %q is %s: %s", in.ID, in.Key, in.State, in.LastError)
		}
	}
	return fmt.Sprintf("retired: %+v", e.ledger.now.retired)
}

// clean: the container holds exactly what objects and held intents name, and
// what objects name is sealed.
func (e *execution) clean() {
	needed := make(map[string]bool)
	for i := range e.ledger.now.objects {
		name := e.ledger.now.objects[i].Blob.Name
		needed[name] = true
		if info := e.ledger.now.blob(name); info != nil && !info.Sealed {
			e.violate(fmt.Sprintf("at rest, the blob of object %q still says pending", e.ledger.now.objects[i].Key))
		}
	}
	e.addNamed(needed)
	for i := range e.ledger.now.intents {
		in := &e.ledger.now.intents[i]
		needed[in.BlobName] = true
		if !e.s.Held {
			e.violate(fmt.Sprintf("held: at rest, intent %s of %q waits for a person: %s", in.ID, in.Key, in.LastError))
		}
	}
	for i := range e.ledger.now.blobs {
		b := &e.ledger.now.blobs[i]
		if !needed[b.Name] && !e.restoring.strays[b.Name] {
			e.violate(fmt.Sprintf("orphan: at rest, nothing names blob %q (of object %q)", b.Name, b.Key))
		}
	}
}

// addNamed adds the blobs that the application's own rows name.
func (e *execution) addNamed(needed map[string]bool) {
	e.ask("Named", func(ctx context.Context, v *View) error {
		if e.s.Named == nil {
			return nil
		}
		names, err := e.s.Named(ctx, v)
		for _, name := range names {
			needed[name] = true
		}
		return err
	})
}

// finish ends every process and waits for their goroutines.
func (e *execution) finish() {
	for _, r := range e.procs {
		e.kill(r)
	}
	for _, l := range e.late {
		l.Drop()
	}
	for {
		synctest.Wait()
		for _, c := range e.calls() {
			e.release(c, faultstore.Die)
		}
		synctest.Wait()
		left := 0
		for _, r := range e.procs {
			if !r.isDone() {
				left++
			}
		}
		if left == 0 {
			break
		}
		time.Sleep(time.Second)
		if e.endless++; e.endless == 1e6 {
			panic("blobtxtest: a process does not end although its context did and every call fails: " + e.schedule.String())
		}
	}
	if e.injected != e.surfaced && e.violation == "" && e.phase > 0 {
		e.violate(fmt.Sprintf("%d faults were injected and %d surfaced", e.injected, e.surfaced))
	}
	e.place.close()
}
