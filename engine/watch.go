package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// WaitState waits until holds returns true for a run's flow state. Holds is called with all
// entries as they are at one moment, in the order of their keys. WaitState returns false if
// the timeout passes first. A negative timeout means none; 0 means to look once. Most
// programs use the typed WaitForState of package workflow.
//
// A change wakes the call at once if the store gives hints. In any case it looks every
// poll. It fails with the error of holds; with store.ErrNotFound; with store.ErrFinished if
// the run is final; with [ErrCanceled] if it is canceling or canceled; with [ErrClosed] or
// the context's error. While the store cannot be reached it continues to wait. On a view
// inside a transaction it fails with store.ErrInvalid.
func (e *Engine) WaitState(ctx context.Context, run store.ID, holds func([]store.StateEntry) (bool, error), timeout, poll time.Duration) (held bool, err error) {
	if e.fault != nil {
		return false, e.fault
	}
	if e.root != nil {
		return false, store.Invalid("waiting for state", "it is not possible inside a transaction; wait after the transaction has committed")
	}
	if poll <= 0 {
		return false, store.Invalid("poll", fmt.Sprintf("%v is not positive", poll))
	}
	w := e.watches.add(run)
	defer e.watches.remove(w)
	var timeIsUp <-chan time.Time
	if timeout >= 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		timeIsUp = timer.C
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for last := timeout == 0; ; {
		looked, held, err := e.lookAtState(ctx, run, holds)
		if held || err != nil || last && looked {
			return held, err
		}
		select {
		case <-timeIsUp:
			last = true
		case <-w.news:
		case <-ticker.C:
		case <-ctx.Done():
			return false, fmt.Errorf("waiting for state of run %s: %w", run, ctx.Err())
		case <-e.ctx.Done():
			return false, fmt.Errorf("waiting for state of run %s: %w", run, ErrClosed)
		}
	}
}

// lookAtState reads a run's state and asks whether it is what is waited for; looked:
// the store has answered.
func (e *Engine) lookAtState(ctx context.Context, run store.ID, holds func([]store.StateEntry) (bool, error)) (looked, held bool, err error) {
	callCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	box, err := exec.ReadInbox(callCtx, e.store, e.namespace, run, exec.Look{State: true})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false, false, nil
	case store.Retryable(err) || callCtx.Err() != nil:
		e.log.Warn("failed to read a run's state; retrying", "run", run.String(), "error", err)
		return false, false, nil
	default:
		return false, false, fmt.Errorf("waiting for state of run %s in namespace %q: %w", run, e.namespace, err)
	}
	if held, err = holds(box.State); held || err != nil {
		return true, held, err
	}
	switch {
	case box.Status == store.Canceled:
		err = fmt.Errorf("%w: %w", ErrCanceled, store.ErrFinished)
	case box.Status == store.Canceling:
		err = ErrCanceled
	case box.Status.Final():
		err = fmt.Errorf("the run is %s: %w", box.Status, store.ErrFinished)
	}
	if err != nil {
		err = fmt.Errorf("waiting for state of run %s: %w", run, err)
	}
	return true, false, err
}

// watches are calls that wait for something of a run that hints may tell. They share
// one subscription.
type watches struct {
	engine *Engine
	mu     sync.Mutex
	byRun  map[store.ID]map[*watch]struct{}
	stop   context.CancelFunc // of the subscription
}

// anyRun in a watch stands for the ends of all runs.
var anyRun store.ID

type watch struct {
	run  store.ID
	news chan struct{} // holds a token when there is something to look at
}

func (ws *watches) add(run store.ID) *watch {
	w := &watch{run: run, news: make(chan struct{}, 1)}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byRun == nil {
		ws.byRun = make(map[store.ID]map[*watch]struct{})
	}
	if ws.byRun[run] == nil {
		ws.byRun[run] = make(map[*watch]struct{})
	}
	ws.byRun[run][w] = struct{}{}
	if ws.stop == nil {
		ctx, stop := context.WithCancel(ws.engine.ctx)
		ws.stop = stop
		go ws.listen(ctx)
	}
	return w
}

func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if delete(ws.byRun[w.run], w); len(ws.byRun[w.run]) == 0 {
		delete(ws.byRun, w.run)
	}
	if len(ws.byRun) == 0 {
		ws.stop()
		ws.stop = nil
	}
}

func (ws *watches) listen(ctx context.Context) {
	h, ok := ws.engine.store.(store.Hinter)
	if !ok {
		return
	}
	hints, err := h.Hints(ctx, store.HintsOfRuns)
	if err != nil {
		return // polling alone finds what comes
	}
	ws.tell(store.Hint{Kind: store.HintRescan}) // what came before was hinted to nobody
	for batch := range hints {
		for _, hint := range batch {
			ws.tell(hint)
		}
	}
}

func (ws *watches) tell(hint store.Hint) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch hint.Kind {
	case store.HintEvent, store.HintState, store.HintFinal, store.HintStream:
		for w := range ws.byRun[hint.Run] {
			w.tell()
		}
		if hint.Kind == store.HintFinal {
			for w := range ws.byRun[anyRun] {
				w.tell()
			}
		}
	case store.HintRescan:
		for _, line := range ws.byRun {
			for w := range line {
				w.tell()
			}
		}
	}
}

func (w *watch) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}
