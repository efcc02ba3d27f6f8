package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// full is a workflow whose payloads are at the limit: its input, and the output of each
// of three steps.
var full = workflow.New("full", func(ctx workflow.Context, in string) (int, error) {
	for _, name := range []string{"one", "two", "three"} {
		if _, err := workflow.Step(ctx, name, func(context.Context) (string, error) { return atLimit(), nil }); err != nil {
			return 0, err
		}
	}
	return len(in), nil
})

// atLimit is a text that is encoded in as many bytes as a payload may have.
func atLimit() string { return strings.Repeat("x", store.DefaultPayloadLimit-2) }

// fullRuns go through a worker of default settings while its memory is watched.
const fullRuns = 200

// memory watches how much memory a worker process takes when every payload is at its
// limit.
func (b *bench) memory(ctx context.Context, at *site) error {
	place, leave, err := at.place()
	if err != nil {
		return err
	}
	defer leave()
	s, err := at.open(ctx, place)
	if err != nil {
		return err
	}
	defer s.close()
	var handles []workflow.Handle[int]
	for range fullRuns {
		h, err := full.Start(ctx, s.eng, atLimit())
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	from := time.Now()
	var out bytes.Buffer
	stop, err := startWorkerOf(at.where(place), &out, envFull+"=1")
	if err != nil {
		return err
	}
	_, err = workflow.Results(ctx, handles)
	took := time.Since(from)
	stop()
	if err != nil {
		return err
	}
	var kB float64
	if _, err := fmt.Sscan(out.String(), &kB); err != nil {
		return fmt.Errorf("the worker's memory is not known: %w", err)
	}
	b.add("memory: payloads at the limit, most that a worker process of 100 slots took", "MB", kB/1024)
	b.add("memory: payloads at the limit, runs", "/s", fullRuns/took.Seconds())
	return nil
}

// envFull makes the worker process one of default settings, which prints the most memory
// that it took, in kB, as it ends.
const envFull = "PAWL_BENCH_FULL"

func (s *subject) workFull(ctx context.Context) error {
	w := worker.New(s.eng)
	if err := w.Register(full); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx)
	}()
	s.stop = func() { cancel(); <-done }
	return nil
}

// mostMemory is the most memory that this process took, in kB, as the kernel tells it.
func mostMemory() (kB int, err error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kB); err == nil {
			return kB, nil
		}
	}
	return 0, fmt.Errorf("the kernel does not tell")
}

// startWorkerOf starts this program as a worker where the site says; stop waits until it
// has ended and written to out.
func startWorkerOf(where string, out *bytes.Buffer, env ...string) (stop func(), err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envWorker+"="+where), env...)
	cmd.Stderr = os.Stderr
	if out != nil {
		cmd.Stdout = out
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = in.Close(); _ = cmd.Wait() }, nil
}
