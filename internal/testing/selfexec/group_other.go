//go:build !unix

package selfexec

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
