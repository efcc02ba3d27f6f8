// Package selfexec lets a test start its own binary again, as a process that it may kill. The
// package's TestMain recognizes such a process by an environment variable.
package selfexec

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// DieWithParent ends the process when the pipe on its standard input closes: the
// test has ended or was killed.
func DieWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

// Process is a process that the test has started.
type Process struct {
	Role  string
	Cmd   *exec.Cmd
	stdin io.Closer
	Ready chan struct{} // closed when it has said that it is ready
	Done  chan struct{} // closed when it has ended and all its output was read
	Err   error         // of its end, once Done is closed
	Asked atomic.Bool   // its end was requested
}

// Spawn starts this binary again in a role, whose name is used in messages, with further arguments and environment
// variables. Its lines of output are sent to heard, except "ready". The process ends with the test.
func Spawn(t testing.TB, role string, args, env []string, heard func(line string)) *Process {
	t.Helper()
	p := &Process{Role: role, Cmd: exec.Command(os.Args[0], args...), Ready: make(chan struct{}), Done: make(chan struct{})}
	p.Cmd.Env = append(os.Environ(), env...)
	p.Cmd.Stderr = os.Stderr
	p.Cmd.SysProcAttr = ownGroup()
	stdin, err := p.Cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	t.Cleanup(func() {
		if !p.Ended() {
			p.Asked.Store(true)
			_ = p.Cmd.Process.Kill()
			<-p.Done
		}
	})
	go func() {
		defer close(p.Done)
		lines, ready := bufio.NewReader(stdout), false
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // an incomplete last line of a killed process does not count
			}
			if line = line[:len(line)-1]; line == "ready" && !ready {
				ready = true
				close(p.Ready)
			} else if heard != nil {
				heard(line)
			}
		}
		p.Err = p.Cmd.Wait()
	}()
	return p
}

// PID is the process's id.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// Ended reports whether it has ended and all its output was read.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// AwaitReady waits until the process has reported that it is ready.
func (p *Process) AwaitReady(t testing.TB) {
	t.Helper()
	select {
	case <-p.Ready:
	case <-p.Done:
		t.Fatalf("%s process %d ended before it was ready: %v", p.Role, p.PID(), p.Err)
	case <-time.After(30 * time.Second):
		t.Fatalf("%s process %d was not ready within 30 s", p.Role, p.PID())
	}
}

// AwaitEnd waits for the end that was requested and returns its error.
func (p *Process) AwaitEnd(t testing.TB) error {
	t.Helper()
	select {
	case <-p.Done:
		return p.Err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s process %d did not end within 30 s", p.Role, p.PID())
		return nil
	}
}
