package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// pause is the time between two looks at something that gives no sign.
const pause = 20 * time.Millisecond

// process is a process that runs until it is stopped.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// spawn starts cmd as another user (nil: as this one). What it prints is appended
// to the log. It gets the signal onDeath when this process ends, where the
// system can do that.
func spawn(cmd *exec.Cmd, who *account, onDeath syscall.Signal, log string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = sysProcAttr(who, onDeath)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the signal when the thread ends that has started the
		// process. It must not end before the process does.
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

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// awaitReady calls try until it succeeds. It gives up when the process has ended
// and at the deadline.
func (p *process) awaitReady(deadline time.Time, try func() error) error {
	for {
		err := try()
		if err == nil && !p.ended() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended before it was ready (%v)", p.cmd.ProcessState)
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready within %v: %w", startTimeout, err)
		}
	}
}

// stop sends a signal and waits for the end. A process that does not heed it is
// killed; that is an error.
func (p *process) stop(sig syscall.Signal) error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.kill()
		return fmt.Errorf("pgtest: %s: %w", filepath.Base(p.cmd.Path), err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("pgtest: %s did not end within %v of %v", filepath.Base(p.cmd.Path), stopTimeout, sig)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// account is a user of the system.
type account struct{ uid, gid int }

// unprivileged returns the user that servers run as when this process is root:
// PostgreSQL and PgBouncer refuse to run as root. It is nil if this process is
// not.
func unprivileged() (*account, error) {
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
		return &account{uid, gid}, nil
	}
	return nil, errors.New("pgtest: PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
}

// makeDir makes a directory for temporary files that who can write.
func makeDir(who *account, prefix string) (string, error) {
	parent := os.TempDir()
	if who != nil && !open(parent) {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil || who == nil {
		return dir, err
	}
	return dir, errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, who.uid, who.gid))
}

// open tells whether every user may pass through a directory. It need not exist
// as far as its parents do.
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

func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail returns the last lines of a file, but nothing before an offset.
func tail(file string, from int64) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	from = max(from, size(file)-4096)
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
