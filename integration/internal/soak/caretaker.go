//go:build unix

package soak

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const caretaker = "caretaker"

// care starts the process that removes dir when this one is gone, however it
// ended; the function returned does it now.
func care(dir string) (func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := Role{Kind: caretaker, Ledger: dir}.env()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), env), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the terminal's reach
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(pipe.Close(), cmd.Wait()) }, nil
}

// takeCare waits for the end of the conductor, which is the end of the pipe,
// and removes dir. Servers that are still ending may write there meanwhile.
func takeCare(dir string) error {
	_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
	for try := 1; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil || try == 100 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
