package launch

import "syscall"

func signalOnDeath(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// SignalSelfOnDeath asks the kernel for sig when the process that started us
// ends, however it ends.
func SignalSelfOnDeath(sig syscall.Signal) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(sig), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
