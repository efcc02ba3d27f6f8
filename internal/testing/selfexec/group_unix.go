//go:build unix

package selfexec

import "syscall"

// ownGroup puts a process into a process group of its own. When the test is
// killed while the process is stopped, the group is left without a parent, and
// the system ends it: a stopped process does not notice that its pipe has closed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
