package exec_test

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// host is a worker with one run and an endless number of slots. It accepts every commit at
// once, unless refuse is set. The methods that it does not have are not called: they read
// from the store.
type host struct {
	exec.Host
	refuse  error
	told    func(c store.Commit)
	end     exec.End
	closed  chan struct{}
	parkFor time.Duration
}

func (h *host) Commit(c *store.Commit) store.CommitResult {
	if h.told != nil {
		h.told(*c)
	}
	if h.refuse != nil {
		return store.CommitResult{Err: h.refuse}
	}
	return store.CommitResult{Status: store.Running}
}

func (h *host) Ready(*exec.Invocation) bool  { return true }
func (h *host) ReleaseSlot(*exec.Invocation) {}
func (h *host) AcquireSlot(*exec.Invocation) {}

func (h *host) Closed(_ *exec.Invocation, end exec.End) {
	h.end = end
	close(h.closed)
}

// execute runs a workflow function on a run with this history, and returns when its lease
// has ended.
func (h *host) execute(history []store.Step, fn func(b *exec.Branch) error) {
	h.closed = make(chan struct{})
	cfg := exec.Config{
		Park: h.parkFor, Linger: time.Hour, ShowAfter: time.Hour, PayloadLimit: 1 << 20,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	def := &exec.Definition{Name: "test", Invoke: func(b *exec.Branch, _ []byte) ([]byte, error) { return nil, fn(b) }}
	run := store.Run{ID: store.NewID(), Workflow: "test", Status: store.Running, Attempt: 1}
	now := time.Now()
	cr := store.ClaimedRun{Run: run, Lease: store.Lease{Run: run.ID, Epoch: 1}, Steps: history}
	inv := exec.New(context.Background(), cfg, h, def, cr, now, now)
	go inv.Execute() // the run's code may end its goroutine
	<-h.closed
}
