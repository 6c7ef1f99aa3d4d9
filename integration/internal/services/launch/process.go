//go:build unix

package launch

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a started command that leads a process group of its own. Whatever
// it started and left in the group ends with it.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // what Wait returned; read after done
}

// Start starts cmd. On Linux the kernel sends it onDeath when we die without
// having stopped it.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	signalOnDeath(cmd.SysProcAttr, onDeath)

	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// "When we die" means, to the kernel, when the starting thread ends:
		// keep it until the child is gone.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			// At once, while the group's number cannot have been given to others.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails when nobody is left
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Run starts cmd, tells started its process group unless started is nil, and
// waits for it. When ctx ends first, the whole group is ended and the context's
// cause returned.
func Run(ctx context.Context, cmd *exec.Cmd, started func(group int) error) error {
	p, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if started != nil {
		if err := started(cmd.Process.Pid); err != nil {
			p.Stop(syscall.SIGKILL, stopGrace)
			return err
		}
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.Stop(syscall.SIGTERM, stopGrace)
		return context.Cause(ctx)
	}
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the command ended; call it after Done.
func (p *Process) Err() error { return p.err }

// Pause stops the whole group in its tracks, until Resume. os.ErrProcessDone: it
// has ended.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused group go on. os.ErrProcessDone: it has ended.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// Stop sends sig to the whole group, and SIGKILL when the leader is not gone
// after grace.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, sig) // fails only when the group is gone already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-p.done
	}
}
