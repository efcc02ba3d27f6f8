package pgtest

import (
	"os"
	"syscall"
)

func sysProcAttr(who *account, onDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: onDeath}
	if who != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
	}
	return attr
}

// ownedAlone tells whether nobody but this user and root can change a directory.
func ownedAlone(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
