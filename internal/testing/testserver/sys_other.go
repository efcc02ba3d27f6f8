//go:build !linux

package testserver

import (
	"os"
	"syscall"
)

// Elsewhere servers end with Run or with their test alone, and not as root.

// SysProcAttr makes a process run as who and get a signal when its parent ends.
func SysProcAttr(*Account, syscall.Signal) *syscall.SysProcAttr { return nil }

func ownedAlone(info os.FileInfo) bool { return info.IsDir() }
