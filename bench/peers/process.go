package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A process is one that was started to work.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed when it works
	done  chan struct{} // closed when it has ended
}

// spawn starts this program again, to work.
func spawn(s settings) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(os.Args[0]), ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), envWorker+"="+string(text))
	p.cmd.Stderr = os.Stderr
	// If this process ends while that one is stopped, the system ends that one: its group has no parent.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		lines, ready := bufio.NewScanner(out), false
		for lines.Scan() {
			if lines.Text() == "ready" && !ready {
				ready = true
				close(p.ready)
			}
		}
		_ = p.cmd.Wait()
	}()
	return p, nil
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

// await waits until the process works.
func (p *process) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("a process has ended before it worked: %v", p.cmd.ProcessState)
	case <-time.After(time.Minute):
		return fmt.Errorf("a process does not work after a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the process with -9 and returns when that was.
func (p *process) kill() int64 {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	return now()
}

// stop has the process end as in a deploy, and kills it if it does not.
func (p *process) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.kill()
	}
}
