//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import "syscall"

// writable reports why this process may not read and write the file, without opening it:
// closing it again would release the locks that SQLite holds on it for other connections
// of this process.
func writable(path string) error { return syscall.Access(path, 0o6) }
