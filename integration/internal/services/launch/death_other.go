//go:build unix && !linux

package launch

import "syscall"

// Only Linux offers this; elsewhere the services command's pipe does the work.
func signalOnDeath(*syscall.SysProcAttr, syscall.Signal) {}

// SignalSelfOnDeath does nothing here: only Linux offers it.
func SignalSelfOnDeath(syscall.Signal) error { return nil }
