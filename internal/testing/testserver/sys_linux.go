package testserver

import (
	"os"
	"syscall"
)

// SysProcAttr makes a process run as who and get a signal when its parent ends.
func SysProcAttr(who *Account, onDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: onDeath}
	if who != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}
	}
	return attr
}

// ownedAlone tells whether nobody but this user and root can change a directory.
func ownedAlone(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
