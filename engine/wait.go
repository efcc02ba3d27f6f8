package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Wait returns the run of that ID once it is final, without its input. It fails
// with store.ErrNotFound, [ErrClosed], or the context's error; while the store is
// out of reach it goes on waiting.
//
// Any number of waiting calls share one poll, which hints of the store make
// prompt.
func (e *Engine) Wait(ctx context.Context, id store.ID) (store.Run, error) {
	w := e.waiters.add(id)
	defer e.waiters.remove(w)
	select {
	case <-w.done:
		return w.run, w.err
	case <-ctx.Done():
		return store.Run{}, fmt.Errorf("waiting for run %s: %w", id, ctx.Err())
	case <-e.ctx.Done():
		return store.Run{}, fmt.Errorf("waiting for run %s: %w", id, ErrClosed)
	}
}

// Outcome gives the error of a final run that did not complete, a [*RunError].
func Outcome(run store.Run) error {
	if run.Status == store.Completed {
		return nil
	}
	return &RunError{Run: run.ID, Workflow: run.Workflow, Status: run.Status, Failure: run.Failure}
}

// Polling of waited-for runs where hints stay away: it begins at the first and
// grows to the second.
const (
	waitPollMin = 20 * time.Millisecond
	waitPollMax = time.Second
)

type waiter struct {
	id      store.ID
	checked bool // a look at the store has been under way for it
	run     store.Run
	err     error
	done    chan struct{}
}

type waiters struct {
	engine *Engine
	mu     sync.Mutex
	byID   map[store.ID][]*waiter
	hinted []store.ID // runs that are said to be final
	rescan bool
	wake   chan struct{} // nil: the loop does not run
}

func (ws *waiters) add(id store.ID) *waiter {
	w := &waiter{id: id, done: make(chan struct{})}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byID == nil {
		ws.byID = make(map[store.ID][]*waiter)
	}
	ws.byID[id] = append(ws.byID[id], w)
	ws.hinted = append(ws.hinted, id) // the first look
	if ws.wake == nil {
		ws.wake = make(chan struct{}, 1)
		go ws.loop(ws.wake)
	}
	ws.notify()
	return w
}

func (ws *waiters) notify() {
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}

func (ws *waiters) remove(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	line := ws.byID[w.id]
	for i := range line {
		if line[i] == w {
			line = append(line[:i], line[i+1:]...)
			break
		}
	}
	if len(line) == 0 {
		delete(ws.byID, w.id)
		if len(ws.byID) == 0 && ws.wake != nil {
			ws.notify() // lets the loop end
		}
	} else {
		ws.byID[w.id] = line
	}
}

// loop asks the store for waited-for runs until none is left.
func (ws *waiters) loop(wake chan struct{}) {
	ctx, cancel := context.WithCancel(ws.engine.ctx)
	defer cancel()
	var hints <-chan []store.Hint
	if h, ok := ws.engine.store.(store.Hinter); ok {
		if ch, err := h.Hints(ctx); err == nil {
			hints = ch
		}
	}
	poll := waitPollMin
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case batch, ok := <-hints:
			if !ok {
				hints = nil
				continue
			}
			ws.take(batch)
		case <-timer.C:
			all = true
			poll = min(2*poll, waitPollMax)
			timer.Reset(poll)
		}
		ids, more := ws.next(all)
		if !more {
			return
		}
		if ws.ask(ctx, ids) > 0 {
			poll = waitPollMin
			timer.Reset(poll)
		}
	}
}

// take notes what hints say.
func (ws *waiters) take(batch []store.Hint) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, h := range batch {
		switch h.Kind {
		case store.HintRescan:
			ws.rescan = true
		case store.HintFinal:
			if _, ok := ws.byID[h.Run]; ok {
				ws.hinted = append(ws.hinted, h.Run)
			}
		}
	}
}

// next gives the runs to ask for now; more is false, and the loop is to end,
// when nobody waits any more.
func (ws *waiters) next(all bool) (ids []store.ID, more bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byID) == 0 {
		ws.wake, ws.hinted, ws.rescan = nil, nil, false
		return nil, false
	}
	if all || ws.rescan {
		ids = make([]store.ID, 0, len(ws.byID))
		for id := range ws.byID {
			ids = append(ids, id)
		}
	} else {
		ids = ws.hinted
	}
	ws.hinted, ws.rescan = nil, false
	return ids, true
}

// ask reads runs and serves those who wait for the final ones. It returns how
// many runs were final. The first look at a run also tells one that is not final
// from one that does not exist.
func (ws *waiters) ask(ctx context.Context, ids []store.ID) (final int) {
	st, ns := ws.engine.store, ws.engine.namespace
	for ; len(ids) > 0; ids = ids[min(len(ids), store.MaxPage):] {
		part := ids[:min(len(ids), store.MaxPage)]
		fresh := ws.firstLooks(part)
		runs, err := st.Get(ctx, store.GetParams{Namespace: ns, IDs: part, FinalOnly: len(fresh) == 0, NoInput: true})
		if err != nil {
			return final // the poll asks again
		}
		for _, run := range runs {
			delete(fresh, run.ID)
			if run.Status.Final() {
				ws.serve(run.ID, run, nil)
				final++
			}
		}
		for id := range fresh {
			ws.serve(id, store.Run{}, fmt.Errorf("waiting for run %s in namespace %q: %w", id, ns, store.ErrNotFound))
		}
	}
	return final
}

// firstLooks returns those of the runs that some waiter has not been told about.
func (ws *waiters) firstLooks(ids []store.ID) map[store.ID]bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var fresh map[store.ID]bool
	for _, id := range ids {
		for _, w := range ws.byID[id] {
			if !w.checked {
				w.checked = true
				if fresh == nil {
					fresh = make(map[store.ID]bool)
				}
				fresh[id] = true
			}
		}
	}
	return fresh
}

func (ws *waiters) serve(id store.ID, run store.Run, err error) {
	ws.mu.Lock()
	line := ws.byID[id]
	delete(ws.byID, id)
	ws.mu.Unlock()
	for _, w := range line {
		w.run, w.err = run, err
		close(w.done)
	}
}
