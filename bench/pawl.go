package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var noop = workflow.New("noop", func(_ workflow.Context, in int) (int, error) { return in, nil })

var threeStep = workflow.New("three-step", steps3)

func steps3(ctx workflow.Context, in int) (int, error) {
	for _, name := range []string{"one", "two", "three"} {
		var err error
		in, err = workflow.Step(ctx, name, func(context.Context) (int, error) { return in, nil })
		if err != nil {
			return 0, err
		}
	}
	return in, nil
}

// subject is Pawl on a fresh database.
type subject struct {
	st   store.Store
	eng  *engine.Engine
	stop func()
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func (at *site) open(ctx context.Context, place string) (*subject, error) {
	st, err := at.store(ctx, place)
	if err != nil {
		return nil, err
	}
	return newSubject(st), nil
}

func newSubject(st store.Store) *subject {
	return &subject{st: st, eng: engine.New(st, engine.Logger(quiet), engine.Require(engine.RequireNothing)), stop: func() {}}
}

// work starts a worker.
func (s *subject) work(ctx context.Context, slots int, defs ...workflow.Definition) error {
	w := worker.New(s.eng, worker.Concurrency(slots))
	if err := w.Register(defs...); err != nil {
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

func (s *subject) close() {
	s.stop()
	s.eng.Close()
	_ = s.st.Close()
}

// know registers a workflow, as some worker has done before in any program that runs.
func (s *subject) know(ctx context.Context, w workflow.Definition) error {
	return s.st.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: "default", Workflows: []store.Workflow{{Name: w.Name(), Queue: w.Queue()}}})
}

// drain works off a backlog of no-op runs and tells how long that took, until all are
// recorded.
func (s *subject) drain(ctx context.Context, n int) (time.Duration, error) {
	var done atomic.Int64
	all := make(chan struct{})
	w := workflow.New("drained", func(_ workflow.Context, in int) (int, error) {
		if done.Add(1) == int64(n) {
			close(all)
		}
		return in, nil
	})
	if _, err := w.StartMany(ctx, s.eng, make([]workflow.Each[int], n)); err != nil {
		return 0, err
	}
	from := time.Now()
	if err := s.work(ctx, 1000, w); err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s.stop() // a worker leaves when all that it holds is recorded
	took := time.Since(from)
	s.stop = func() {}
	counts, err := s.eng.Count(ctx, store.RunFilter{Statuses: []store.Status{store.Pending, store.Running}})
	if err == nil && len(counts) > 0 {
		err = fmt.Errorf("runs that are not recorded: %v", counts)
	}
	return took, err
}

// starts starts n runs by so many callers and waits for the runs when asked to.
func (s *subject) starts(ctx context.Context, w *workflow.Workflow[int, int], n, callers int, await bool) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range callers {
		wg.Go(func() {
			var handles []workflow.Handle[int]
			for int(next.Add(1)) <= n {
				h, err := w.Start(ctx, s.eng, 7)
				if err != nil {
					failed.Store(&err)
					return
				}
				if await {
					handles = append(handles, h)
				}
			}
			for _, h := range handles {
				if _, err := h.Result(ctx); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// bulk starts n runs with few calls and waits for them when asked to.
func (s *subject) bulk(ctx context.Context, w *workflow.Workflow[int, int], n int, await bool) error {
	each := make([]workflow.Each[int], n)
	handles, err := w.StartMany(ctx, s.eng, each)
	if err != nil || !await {
		return err
	}
	_, err = workflow.Results(ctx, handles)
	return err
}

// latency samples, on an idle worker, the time from the call of Start to the
// handler's first line, and to the result in the caller's hands.
func (s *subject) latency(ctx context.Context, samples int) (toHandler, toResult []time.Duration, err error) {
	began := make(chan time.Time, 1)
	w := workflow.New("latency", func(_ workflow.Context, in int) (int, error) {
		began <- time.Now()
		return in, nil
	})
	if err := s.work(ctx, 1000, w); err != nil {
		return nil, nil, err
	}
	for i := range samples + 10 {
		if err := rest(ctx, 5*time.Millisecond); err != nil { // idle again
			return nil, nil, err
		}
		from := time.Now()
		h, err := w.Start(ctx, s.eng, i)
		if err != nil {
			return nil, nil, err
		}
		if _, err := h.Result(ctx); err != nil {
			return nil, nil, err
		}
		if i < 10 {
			<-began
			continue // warming up
		}
		toResult = append(toResult, time.Since(from))
		toHandler = append(toHandler, (<-began).Sub(from))
	}
	if len(toHandler) == 0 {
		return nil, nil, fmt.Errorf("no samples")
	}
	return toHandler, toResult, nil
}
