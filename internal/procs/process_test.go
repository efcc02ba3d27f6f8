package procs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/pgtest"
)

// envRole says what a process that a test has started is to do. Everything else
// that it needs comes in variables of its role.
const envRole = "PAWL_PROCS_ROLE"

// roles are what this binary can be beside a test.
var roles = map[string]func(ctx context.Context) error{
	"share":   share,
	"worker":  workerRole,
	"starter": starterRole,
	"victim":  victimRole,
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(envRole)]; role != nil {
		go dieWithParent()
		if err := role(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, os.Getenv(envRole), "process:", err)
			os.Exit(1)
		}
		return
	}
	pgtest.Run(m)
}

// dieWithParent ends the process when the pipe on its standard input closes: the
// test has ended or was killed.
func dieWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

// process is a process that the test has started.
type process struct {
	role  string
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed when it has said that it is ready
	done  chan struct{} // closed when it has ended and all its output was read
	err   error         // of its end, once done is closed
	asked atomic.Bool   // its end was asked for
}

// spawn starts this binary again in a role. Its lines of output go to heard, but
// for "ready". It ends with the test.
func spawn(t *testing.T, role string, env []string, heard func(line string)) *process {
	t.Helper()
	p := &process{role: role, cmd: exec.Command(os.Args[0]), ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), envRole+"="+role), env...)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = ownGroup()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	t.Cleanup(func() {
		if !p.ended() {
			p.asked.Store(true)
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
	go func() {
		defer close(p.done)
		lines, ready := bufio.NewReader(stdout), false
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // what a killed process has left of a line was not said
			}
			if line = line[:len(line)-1]; line == "ready" && !ready {
				ready = true
				close(p.ready)
			} else if heard != nil {
				heard(line)
			}
		}
		p.err = p.cmd.Wait()
	}()
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// awaitReady waits until the process has said that it is about to work.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-p.ready:
	case <-p.done:
		t.Fatalf("%s process %d ended before it was ready: %v", p.role, p.pid(), p.err)
	case <-time.After(30 * time.Second):
		t.Fatalf("%s process %d was not ready within 30 s", p.role, p.pid())
	}
}

// awaitEnd waits for the end that was asked for and returns its error.
func (p *process) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s process %d did not end within 30 s", p.role, p.pid())
		return nil
	}
}
