package testserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	// Pause is the time between two checks of something that cannot be waited for.
	Pause = 20 * time.Millisecond

	StartTimeout = 30 * time.Second // from start to the first answer
	StopTimeout  = 30 * time.Second // for each signal
)

// Process is a process that runs until it is stopped.
type Process struct {
	Cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Spawn starts cmd as another user (nil: as this one). Its output is appended to the log. If the
// system supports it, it gets the signal onDeath when this process ends.
func Spawn(cmd *exec.Cmd, who *Account, onDeath syscall.Signal, log string) (*Process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = SysProcAttr(who, onDeath)
	p := &Process{Cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the signal when the thread that started the process ends. The thread must not
		// end before the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// AwaitReady calls try until it succeeds. It gives up when the process has ended
// and at the deadline.
func (p *Process) AwaitReady(deadline time.Time, try func() error) error {
	for {
		err := try()
		if err == nil && !p.Ended() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended before it was ready (%v)", p.Cmd.ProcessState)
		case <-time.After(Pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready within %v: %w", StartTimeout, err)
		}
	}
}

// Stop sends a signal and waits for the end. If the process does not obey, Stop kills it and
// returns an error.
func (p *Process) Stop(sig syscall.Signal) error {
	if p.Ended() {
		return nil
	}
	if err := p.Cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill()
		return fmt.Errorf("testserver: %s: %w", filepath.Base(p.Cmd.Path), err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(StopTimeout):
		p.Kill()
		return fmt.Errorf("testserver: %s did not end within %v of %v", filepath.Base(p.Cmd.Path), StopTimeout, sig)
	}
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.done
}

// Account is a user of the system.
type Account struct{ UID, GID int }

// Unprivileged returns the user that servers run as when this process is root:
// PostgreSQL and PgBouncer refuse to run as root. It is nil if this process is
// not.
func Unprivileged() (*Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &Account{uid, gid}, nil
	}
	return nil, errors.New("testserver: PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
}

// MakeDir makes a directory for temporary files that who can write.
func MakeDir(who *Account, prefix string) (string, error) {
	parent := os.TempDir()
	if who != nil && !open(parent) {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil || who == nil {
		return dir, err
	}
	return dir, errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, who.UID, who.GID))
}

// open reports whether every user may pass through a directory. The directory need not exist if its
// existing parents allow it.
func open(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// Size returns the size of a file, 0 if there is none.
func Size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Tail returns the last lines of a file, but nothing before an offset.
func Tail(file string, from int64) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	from = max(from, Size(file)-4096)
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// FreePort returns a port on which nothing listens. It avoids the ports that systems commonly use
// for outgoing connections (which net.Listen would choose, too): while its server is down, an
// outgoing connection could take such a port, or a client could connect to itself.
func FreePort() (int, error) {
	var failed error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("testserver: no free port: %w", failed)
}
