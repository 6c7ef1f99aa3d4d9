package azstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobtx/blobtx/store"
)

// stager sends the blocks of one upload, several at a time.
type stager struct {
	u    *upload
	run  context.Context // the caller's, but ends at the first error too
	stop context.CancelFunc

	// free holds Concurrency buffers at rest, nil for those not yet made. Who
	// fills or sends a block has taken one out, so that no more than
	// Concurrency blocks are ever in memory.
	free chan []byte
	wg   sync.WaitGroup

	mu  sync.Mutex
	ids []string
	err error // the first
}

// stage uploads the body in blocks; head is the first of them. When it returns,
// nothing reads the body and no request is under way. The block list goes out
// only after every block has arrived and the body has ended as declared: up to
// then nothing is readable, whatever happens.
func (u *upload) stage(ctx context.Context, head []byte) (store.Blob, error) {
	st := &stager{u: u, free: make(chan []byte, u.s.concurrency)}
	st.run, st.stop = context.WithCancel(ctx)
	defer st.stop()
	for range u.s.concurrency - 1 {
		st.free <- nil
	}
	st.send(0, head)
	st.readAndSend()
	st.wg.Wait()
	for range u.s.concurrency {
		if b := <-st.free; b != nil {
			u.s.release(b)
		}
	}
	if st.err != nil {
		return store.Blob{}, st.err
	}
	return u.putList(ctx, st.ids)
}

// readAndSend reads the rest of the body, block by block.
func (st *stager) readAndSend() {
	for i := 1; !st.u.src.done(); i++ {
		size := st.u.plan.size(i)
		if size == 0 {
			if err := st.full(); err != nil {
				st.fail(err)
			}
			return
		}
		var buf []byte
		select {
		case buf = <-st.free:
		case <-st.run.Done():
			st.fail(opPutBlock.ended(st.run)) // the first error stays
			return
		}
		if int64(cap(buf)) < size {
			if buf != nil {
				st.u.s.release(buf)
			}
			buf = st.u.s.buffer(size)
		}
		n, err := st.u.src.fill(st.run, buf[:size])
		if errors.Is(err, errStopped) {
			err = opPutBlock.ended(st.run)
		}
		switch {
		case err != nil:
			st.free <- buf
			st.fail(err)
			return
		case n == 0: // the body ended with the block before
			st.free <- buf
		default:
			st.send(i, buf[:n])
		}
	}
}

// full is the error of a body for whose next block there is no room. Only one
// more read tells a body that has just filled the list from one that goes on.
func (st *stager) full() error {
	err := st.u.src.look(st.run)
	switch {
	case errors.Is(err, errStopped):
		return opPutBlock.ended(st.run)
	case err != nil:
		return err
	case st.u.src.done():
		return nil
	}
	return fmt.Errorf("the body is longer than %d blocks can hold; declare its size: %w", st.u.plan.limit, store.ErrInvalid)
}

// send stages one block in a goroutine of its own and gives the buffer back.
func (st *stager) send(i int, data []byte) {
	st.wg.Add(1)
	go func() {
		defer st.wg.Done()
		defer func() { st.free <- data[:cap(data)] }()
		id := blockID(i, data)
		body := &blockBody{data: data}
		_, err := st.u.bb.StageBlock(st.run, id, body, nil)
		body.detach()
		if err != nil {
			st.fail(st.u.blockError(st.run, err))
			return
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		for len(st.ids) <= i {
			st.ids = append(st.ids, "")
		}
		st.ids[i] = id
	}()
}

// fail keeps the first error, and ends what is under way.
func (st *stager) fail(err error) {
	st.mu.Lock()
	if st.err == nil {
		st.err = err
	}
	st.mu.Unlock()
	st.stop()
}
