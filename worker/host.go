package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// host is the worker as its invocations see it.
type host struct{ w *Worker }

// Ready implements [exec.Host].
func (h host) Ready(inv *exec.Invocation) bool {
	h.w.memory.settle(h.w.stop, inv.Closing())
	for !h.w.ledger.sound(time.Now()) {
		renewed := h.w.ledger.wait()
		if h.w.ledger.sound(time.Now()) {
			break
		}
		signal(h.w.renew)
		select {
		case <-renewed:
		case <-inv.Closing():
			return true // the caller finds out why
		case <-h.w.stop.Done():
			return false
		}
	}
	return true
}

// State implements [exec.Host].
func (h host) State(ctx context.Context, inv *exec.Invocation, keys ...string) ([]store.StateEntry, error) {
	timeout := h.w.callTimeout()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var entries []store.StateEntry
		began := time.Now()
		err := limited(ctx, timeout, func(ctx context.Context) (err error) {
			entries, err = h.w.store.GetState(ctx, store.GetStateParams{Namespace: h.w.namespace, Run: inv.Lease().Run, Keys: keys})
			return err
		})
		if err == nil {
			return entries, nil
		}
		took := time.Since(began)
		if !store.Retryable(err) && took < timeout || !h.pause(ctx, inv, wait) {
			return nil, fmt.Errorf("state of run %s: %w", inv.Lease().Run, err)
		}
		timeout = h.w.longer(took)
	}
}

// SetState implements [exec.Host].
func (h host) SetState(ctx context.Context, inv *exec.Invocation, write store.StateWrite) (store.StateEntry, error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		entries, err := h.w.eng.SetState(ctx, inv.Lease().Run, write)
		switch {
		case err == nil:
			return entries[0], nil
		case !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || !h.pause(ctx, inv, wait):
			return store.StateEntry{}, err
		}
	}
}

// pause waits before a call is made again; false: it is not to be.
func (h host) pause(ctx context.Context, inv *exec.Invocation, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-inv.Closing():
	case <-h.w.stop.Done():
	}
	return false
}

// Inbox implements [exec.Host].
func (h host) Inbox(inv *exec.Invocation, look exec.Look) (box store.Inbox, ok bool) {
	err := h.Ask(inv, "the run's inbox", func(ctx context.Context, st store.Store, namespace string) (err error) {
		box, err = exec.ReadInbox(ctx, st, namespace, inv.Lease().Run, look)
		return err
	})
	if err != nil && err != exec.ErrShutdown {
		inv.SetAside(err)
	}
	return box, err == nil
}

// Callee implements [exec.Host].
func (h host) Callee(inv *exec.Invocation, workflow string) (found exec.Callee, ok bool) {
	err := h.Ask(inv, "the registration of workflow "+workflow, func(ctx context.Context, _ store.Store, _ string) (err error) {
		found, err = h.w.inside.CalleeOf(ctx, workflow)
		return err
	})
	if err != nil && err != exec.ErrShutdown {
		inv.SetAside(err)
	}
	return found, err == nil
}

// Declare implements [exec.Host].
func (h host) Declare(inv *exec.Invocation, limits []store.Limit) (ok bool) {
	err := h.Ask(inv, "the limits of a step", func(ctx context.Context, _ store.Store, _ string) error {
		return h.w.declare(ctx, limits)
	})
	if err != nil && err != exec.ErrShutdown {
		inv.SetAside(err)
	}
	return err == nil
}

// maxAsk bounds how far the timeout of what is asked page by page grows.
const maxAsk = 16

// Ask implements [exec.Host].
func (h host) Ask(inv *exec.Invocation, what string, call func(ctx context.Context, st store.Store, namespace string) error) error {
	timeout := h.w.callTimeout() // of all the pages that are to be read
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(h.w.stop, timeout)
		err := call(ctx, h.w.store, h.w.namespace)
		timedOut := ctx.Err() != nil
		if timedOut {
			timeout = min(2*timeout, maxAsk*h.w.callTimeout())
		}
		cancel()
		if err == nil {
			return nil
		}
		if h.w.stop.Err() != nil {
			return exec.ErrShutdown
		}
		if !store.Retryable(err) && !timedOut {
			return fmt.Errorf("the store refused %s: %w", what, err)
		}
		inv.Logger().Warn("failed to read or write "+what+"; retrying", "in", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-inv.Closing():
			timer.Stop()
			return exec.ErrShutdown
		}
	}
}

// try makes a call a few times.
func (h host) try(inv *exec.Invocation, call func(ctx context.Context) error) (err error) {
	for wait := 10 * time.Millisecond; wait <= time.Second; wait *= 4 {
		ctx, cancel := context.WithTimeout(h.w.stop, h.w.callTimeout())
		err = call(ctx)
		cancel()
		if err == nil || !h.pause(h.w.stop, inv, wait) {
			return err
		}
	}
	return err
}

// Begin implements [exec.Host].
func (h host) Begin(ctx context.Context, inv *exec.Invocation, target any) (store.Transaction, error) {
	t, ok := h.w.store.(store.Transactor)
	if !ok {
		return nil, &exec.Coded{Permanent: true, Err: fmt.Errorf("the %s backend does not support transactional steps: %w", h.w.store.Features().Name, store.ErrUnsupported)}
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		tx, err := t.Begin(ctx, target)
		switch {
		case err == nil:
			return tx, nil
		case errors.Is(err, store.ErrUnsupported):
			return nil, &exec.Coded{Permanent: true, Err: err}
		case ctx.Err() != nil || !store.Retryable(err):
			return nil, err
		}
		inv.Logger().Error("failed to begin a step's transaction; retrying", "in", wait, "error", err)
		sleep(ctx, wait)
	}
}

// CommitTx implements [exec.Host].
func (h host) CommitTx(inv *exec.Invocation, tx store.Transaction, c store.Commit) (store.CommitResult, error) {
	defer h.w.lost.end(h.w.lost.begin(c.Lease))
	ctx, cancel := context.WithTimeout(h.w.stop, h.w.callTimeout())
	res, err := tx.Commit(ctx, h.w.namespace, c)
	timedOut := ctx.Err() != nil
	cancel()
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown):
	case err != nil && timedOut && !store.Retryable(err):
		return res, fmt.Errorf("%w: it was not applied: %w", err, store.ErrUnavailable) // not the step's fault
	default:
		if err == nil && res.Err == nil {
			h.w.suspects.applied(&c)
		}
		return res, err
	}
	// Its effects are the user's own: to send it again would do them without it.
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(h.w.stop, h.w.callTimeout())
		h.w.callFailed()
		recorded, asked := h.w.store.(store.Transactor).Recorded(ctx, h.w.namespace, c.Lease, c.Seq)
		timedOut := ctx.Err() != nil
		cancel()
		switch {
		case asked == nil && recorded:
			h.w.suspects.applied(&c)
			return store.CommitResult{Status: store.Running}, nil
		case asked == nil:
			return res, fmt.Errorf("%v: it was not applied: %w", err, store.ErrUnavailable)
		case h.w.stop.Err() != nil || !store.Retryable(asked) && !timedOut:
			return store.CommitResult{Err: asked}, nil
		}
		inv.Logger().Error("failed to learn whether a step's transaction was committed; retrying", "in", wait, "error", asked)
		select {
		case <-inv.Closing():
			return store.CommitResult{Err: store.ErrLeaseLost}, nil
		default:
			sleep(h.w.stop, wait)
		}
	}
}

// ReleaseSlot implements [exec.Host].
func (h host) ReleaseSlot(inv *exec.Invocation) { h.w.slots.release(inv.Run().Workflow) }

// AcquireSlot implements [exec.Host].
func (h host) AcquireSlot(inv *exec.Invocation) { h.w.slots.acquire(inv.Run().Workflow) }

// Closed implements [exec.Host].
func (h host) Closed(inv *exec.Invocation, end exec.End) {
	w, id := h.w, inv.Lease().Run
	told := end.Err == nil && end.Status.Final() && end.Status != store.Canceled // of a canceled run the store has the reason
	if told {
		w.inside.Settle(bridge.Outcome{Run: id, Workflow: inv.Run().Workflow, Status: end.Status, Output: end.Transition.Output, Failure: end.Transition.Failure})
	}
	w.mu.Lock()
	if w.held[id] == inv {
		delete(w.held, id)
		w.worked = time.Now()
	}
	empty := len(w.held) == 0
	w.mu.Unlock()
	w.suspects.hasEnded(inv)
	w.memory.giveClaimed(inv.Weight())
	if empty && w.emptied != nil {
		signal(w.emptied)
	}
	if !told {
		w.inside.Recheck(id)
	}
	w.tel.Executed(inv.Context(), inv.Run(), end.Status, end.Transition.Failure, inv.Now(), end.Err)
	w.leases.Done() // last: a worker that has shut down has counted what it did
	switch {
	case end.Err != nil:
		inv.Logger().Warn("the run's lease is lost; unrecorded steps will run again elsewhere", "error", end.Err)
	case end.Pin != nil:
		w.misfits.log(inv, end.Pin)
	case end.Status == store.Failed:
		inv.Logger().Warn("run failed", "code", end.Transition.Failure.Code, "error", end.Transition.Failure.Message)
	case end.Transition.Kind == store.Retry:
		inv.Logger().Warn("run failed; retrying", "attempt", inv.Run().Attempt, "in", end.Transition.After, "error", end.Transition.Failure.Message)
	case end.Status == store.Canceled:
		inv.Logger().Info("run canceled")
	}
}
