//go:build !linux

package pgtest

import (
	"os"
	"syscall"
)

// Elsewhere servers end with Run or with their test alone, and not as root.

func sysProcAttr(*account, syscall.Signal) *syscall.SysProcAttr { return nil }

func ownedAlone(info os.FileInfo) bool { return info.IsDir() }
