package worker_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// hinting is a store whose hints are the test's. It counts renewals.
type hinting struct {
	store.Store
	hints   chan []store.Hint
	extends atomic.Int64
	looks   atomic.Int64
	claims  chan struct{} // gets a value after each claim, if set
}

func (h *hinting) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	claimed, err := h.Store.Claim(ctx, p)
	if h.claims != nil {
		select {
		case h.claims <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return claimed, err
}

func (h *hinting) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	out := make(chan []store.Hint)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case batch := <-h.hints:
				select {
				case <-ctx.Done():
					return
				case out <- batch:
				}
			}
		}
	}()
	return out, nil
}

func (h *hinting) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	h.extends.Add(1)
	return h.Store.Extend(ctx, p)
}

func (h *hinting) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	h.looks.Add(1)
	return h.Store.Get(ctx, p)
}

// Where each write of one process makes the others look again, a look that writes
// would make each process wake the others for ever.
func TestLooksAgainWithoutWriting(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s := &hinting{Store: db, hints: make(chan []store.Hint)}
	eng := engine.New(s, engine.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	defer eng.Close()
	w := worker.New(eng, worker.Lease(time.Hour), worker.Grace(time.Millisecond), worker.Poll(10*time.Millisecond))
	began := make(chan struct{})
	canceled := workflow.New("waits", func(ctx workflow.Context, _ int) (int, error) {
		return workflow.Step(ctx, "wait", func(ctx context.Context) (int, error) {
			close(began)
			<-ctx.Done()
			return 0, ctx.Err()
		})
	})
	require.NoError(t, w.Register(canceled))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	rescan := []store.Hint{{Kind: store.HintRescan}}
	again := func(n int) {
		for range n {
			s.hints <- rescan
		}
	}
	again(50) // nothing is held
	require.Zero(t, s.looks.Load(), "nothing to look at")
	h, err := canceled.Start(t.Context(), eng, 1)
	require.NoError(t, err)
	<-began
	before := s.looks.Load()
	again(52) // two are on their way, and the others have been dealt with
	require.GreaterOrEqual(t, s.looks.Load()-before, int64(50))

	// What a look finds is heard.
	_, err = db.Cancel(t.Context(), store.CancelParams{Namespace: "default", IDs: []store.ID{h.ID()}})
	require.NoError(t, err)
	again(1)
	for {
		runs, err := db.Get(t.Context(), store.GetParams{Namespace: "default", IDs: []store.ID{h.ID()}})
		require.NoError(t, err)
		if runs[0].Status == store.Canceled {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	require.NoError(t, <-done)
	require.Zero(t, s.extends.Load(), "a look has written")
}

// tardy is a store of which nobody hears before the test says so.
type tardy struct {
	*hinting
	subscribe chan struct{}
}

func (t *tardy) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	select {
	case <-t.subscribe:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return t.hinting.Hints(ctx, topics...)
}

// A run that is started after the worker's first look and before it hears hints is
// not left to the poll.
func TestLooksAgainOnceItHears(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s := &tardy{hinting: &hinting{Store: db, hints: make(chan []store.Hint), claims: make(chan struct{})}, subscribe: make(chan struct{})}
	quiet := engine.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	here, elsewhere := engine.New(s, quiet), engine.New(db, quiet)
	defer here.Close()
	defer elsewhere.Close()
	w := worker.New(here, worker.Poll(time.Hour))
	wf := workflow.New("echo", func(_ workflow.Context, n int) (int, error) { return n, nil })
	require.NoError(t, w.Register(wf))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	<-s.claims
	h, err := wf.Start(t.Context(), elsewhere, 7)
	require.NoError(t, err)
	close(s.subscribe)
	<-s.claims
	out, err := h.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, out)
	stop()
	require.NoError(t, <-done)
}

// A worker that is stopped while it subscribes to hints has nothing to warn of.
func TestStopsQuietlyBeforeItHears(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s := &tardy{hinting: &hinting{Store: db, hints: make(chan []store.Hint), claims: make(chan struct{})}, subscribe: make(chan struct{})}
	var log strings.Builder
	eng := engine.New(s, engine.Logger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	w := worker.New(eng, worker.Poll(time.Hour))
	require.NoError(t, w.Register(workflow.New("echo", func(_ workflow.Context, n int) (int, error) { return n, nil })))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	<-s.claims
	stop()
	require.NoError(t, <-done)
	eng.Close()
	require.Empty(t, log.String())
}
