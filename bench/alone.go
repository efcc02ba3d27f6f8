package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// alone calls a store as the engine does under full load, in batches as large as the hand-written loop's, with no engine:
// no workflow functions, no callers that wait, and no batches that are not full. What it reaches is the bound for any
// engine on the same store.
type alone struct{ st store.Store }

func (at *site) alone(ctx context.Context, place string) (handwritten, error) {
	st, err := at.store(ctx, place)
	if err != nil {
		return nil, err
	}
	return &alone{st}, st.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: "default", Workflows: []store.Workflow{{Name: "alone", Queue: "alone"}}})
}

func (a *alone) close() { _ = a.st.Close() }

// start starts a batch, with leases of the worker if there is one.
func (a *alone) start(ctx context.Context, worker string, n int) ([]store.Lease, error) {
	runs := make([]store.NewRun, n)
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: "alone", Queue: "alone", Input: []byte("7")}
		if worker != "" {
			runs[i].Worker, runs[i].LeaseFor = worker, time.Minute
		}
	}
	results, err := a.st.Create(ctx, store.CreateParams{Namespace: "default", Runs: runs})
	if err != nil {
		return nil, err
	}
	leases := make([]store.Lease, n)
	for i, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
		leases[i] = r.Lease
	}
	return leases, nil
}

// finish records steps one after the other, the last one together with the runs' completion; without steps, the completion alone.
func (a *alone) finish(ctx context.Context, leases []store.Lease, steps []string) error {
	for i := range max(1, len(steps)) {
		commits := make([]store.Commit, len(leases))
		for k, lease := range leases {
			c := store.Commit{Lease: lease, Seq: int64(i + 1)}
			if i < len(steps) {
				c.Steps = []store.StepRecord{{
					StepKey: store.StepKey{Name: steps[i], Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
					Position: int64(i + 1), Index: i, Attempt: 1, Output: []byte("7"), StartedAt: time.Now(),
				}}
			}
			if i >= len(steps)-1 {
				c.Transition = &store.Transition{Kind: store.CompleteRun, Output: []byte("7")}
			}
			commits[k] = c
		}
		results, err := a.st.Commit(ctx, store.CommitParams{Namespace: "default", Commits: commits})
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

func (a *alone) starts(ctx context.Context, n int) error {
	return split(n, func(string) error {
		_, err := a.start(ctx, "", limitBatch)
		return err
	})
}

func (a *alone) one(ctx context.Context) error {
	_, err := a.start(ctx, "", 1)
	return err
}

func (a *alone) runs(ctx context.Context, n int, steps []string) error {
	return split(n, func(worker string) error {
		leases, err := a.start(ctx, worker, limitBatch)
		if err != nil {
			return err
		}
		return a.finish(ctx, leases, steps)
	})
}

func (a *alone) drain(ctx context.Context, n int) error {
	var mu sync.Mutex
	left := n
	err := split(2*n+10*limitBatch, func(worker string) error { // a claim may take fewer than it wants, so there are enough of them
		mu.Lock()
		done := left <= 0
		mu.Unlock()
		if done {
			return nil
		}
		c, err := a.st.Claim(ctx, store.ClaimParams{Namespace: "default", Worker: worker, LeaseFor: time.Minute,
			Demands: []store.Demand{{Queue: "alone", Workflows: []string{"alone"}, Max: limitBatch}}})
		if err != nil || len(c.Runs) == 0 {
			return err
		}
		leases := make([]store.Lease, len(c.Runs))
		for i, r := range c.Runs {
			leases[i] = r.Lease
		}
		mu.Lock()
		left -= len(leases)
		mu.Unlock()
		return a.finish(ctx, leases, nil)
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%d of %d runs were not claimed", left, n)
	}
	return err
}
