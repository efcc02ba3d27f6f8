package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Outcome is how a run ended.
type Outcome struct {
	Run      store.ID
	Workflow string
	Status   store.Status   // Completed, Failed or Canceled
	Output   []byte         // of a completed run, encoded
	Failure  *store.Failure // of a run that did not complete; otherwise nil
}

// Err returns nil for a completed run, and otherwise a [*RunError].
func (o Outcome) Err() error {
	if o.Status == store.Completed {
		return nil
	}
	return &RunError{Run: o.Run, Workflow: o.Workflow, Status: o.Status, Failure: o.Failure}
}

// Wait waits until the run is final and returns how it ended. It fails with
// store.ErrNotFound, [ErrClosed] or the context's error. While the store cannot be reached
// it continues to wait. If a run is deleted before Wait has seen its end, Wait fails with
// store.ErrNotFound within one poll (see [Poll]). How the run ended is not an error of Wait: see
// [Outcome.Err].
//
// If a worker on the same engine has executed the run, Wait may return the end that the worker has
// recorded without asking the store. A database may lose recorded ends because it fails over or is
// restored. Wait asks the store again after a claim, a renewal or a commit of the worker has failed,
// after its hints were interrupted, and after the worker has ended.
//
// All concurrent calls share one poll. Hints of the store report ends at once, and so does a
// worker on the same engine for the runs that it executes.
func (e *Engine) Wait(ctx context.Context, id store.ID) (Outcome, error) {
	e = e.base()
	w := e.waiters.add(id)
	defer e.waiters.remove(w)
	select {
	case <-w.done:
		return w.outcome, w.err
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("waiting for run %s: %w", id, ctx.Err())
	case <-e.ctx.Done():
		return Outcome{}, fmt.Errorf("waiting for run %s: %w", id, ErrClosed)
	}
}

// Polling of waited-for runs: it begins at the first interval and grows to the
// second; where the store gives hints it is only a safety net.
const (
	waitPollMin   = 20 * time.Millisecond
	waitPollMax   = time.Second
	hintedPollMin = 500 * time.Millisecond
	hintedPollMax = 5 * time.Second
)

// lookTimeout bounds a look, so that one connection that hangs does not hold up
// everybody who waits.
const lookTimeout = 30 * time.Second

// Outcomes of this process's own runs are kept for those who ask later: so many, and
// of so many bytes, the latest of them.
const (
	settledRuns  = 1 << 16
	settledBytes = 16 << 20
)

type waiter struct {
	id      store.ID
	checked bool // a look at the store has been under way for it
	outcome Outcome
	err     error
	done    chan struct{}
}

type waiters struct {
	engine *Engine
	mu     sync.Mutex
	byID   map[store.ID][]*waiter
	hinted []store.ID // runs to look at now: they are new here, or said to be final
	rescan bool
	wake   chan struct{} // nil: the loop does not run

	settled map[store.ID]Outcome
	order   []store.ID // of settled, oldest first
	bytes   int        // of their outputs
}

func (ws *waiters) add(id store.ID) *waiter {
	w := &waiter{id: id, done: make(chan struct{})}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if o, ok := ws.settled[id]; ok {
		w.outcome = o
		close(w.done)
		return w
	}
	if ws.byID == nil {
		ws.byID = make(map[store.ID][]*waiter)
	}
	ws.byID[id] = append(ws.byID[id], w)
	if ws.wake == nil {
		ws.wake = make(chan struct{}, 1)
		go ws.loop(ws.wake)
	}
	if ws.engine.local.holds(id) {
		w.checked = true // it exists, and its end will be told by settle
	} else {
		ws.hinted = append(ws.hinted, id)
		ws.notify()
	}
	return w
}

// settle tells those who wait for a run how it ended.
func (e *Engine) settle(o Outcome) {
	ws := &e.waiters
	ws.mu.Lock()
	if _, known := ws.settled[o.Run]; o.Status == store.Completed && !known {
		if ws.settled == nil {
			ws.settled = make(map[store.ID]Outcome)
		}
		ws.settled[o.Run] = o
		ws.order = append(ws.order, o.Run)
		ws.bytes += len(o.Output)
		for len(ws.order) > settledRuns || ws.bytes > settledBytes {
			ws.bytes -= len(ws.settled[ws.order[0]].Output)
			delete(ws.settled, ws.order[0])
			ws.order = ws.order[1:]
		}
	}
	ws.mu.Unlock()
	ws.serve(o, nil)
}

// unsettle forgets the outcomes that settle has kept.
func (e *Engine) unsettle() {
	ws := &e.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.settled, ws.order, ws.bytes = nil, nil, 0
}

// recheck asks the store for a run again, if anybody waits for it.
func (e *Engine) recheck(id store.ID) {
	ws := &e.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, ok := ws.byID[id]; ok {
		ws.hinted = append(ws.hinted, id)
		ws.notify()
	}
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
	if len(line) > 0 {
		ws.byID[w.id] = line
		return
	}
	delete(ws.byID, w.id)
	if len(ws.byID) == 0 && ws.wake != nil {
		ws.notify() // lets the loop end
	}
}

// loop asks the store for waited-for runs until none is left.
func (ws *waiters) loop(wake chan struct{}) {
	ctx, cancel := context.WithCancel(ws.engine.ctx)
	defer cancel()
	least, most := waitPollMin, waitPollMax
	var hints <-chan []store.Hint
	if h, ok := ws.engine.store.(store.Hinter); ok {
		if ch, err := h.Hints(ctx, store.HintsOfRuns); err == nil {
			hints = ch
			if ws.engine.store.Features().Hints { // otherwise they may be this process's own alone
				least, most = hintedPollMin, hintedPollMax
			}
		}
	}
	if ws.engine.poll > 0 {
		most = ws.engine.poll
	}
	poll := least
	timer := time.NewTimer(poll)
	defer timer.Stop()
	due := time.Now().Add(poll) // of timer
	// sooner never puts the poll off, or runs that end all the time would do so for ever.
	sooner := func(d time.Duration) {
		if at := time.Now().Add(d); at.Before(due) {
			due = at
			timer.Reset(d)
		}
	}
	var rest time.Time // no look at everything before
	missed := time.Now()
	for {
		all, gone := false, false
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case batch, ok := <-hints:
			if !ok {
				hints, least, most = nil, waitPollMin, min(most, waitPollMax)
				continue
			}
			ws.take(batch)
		case <-timer.C:
			// What was purged is looked for less often than what is final, because
			// such a look returns every run.
			all, gone = true, poll == most || time.Since(missed) >= most
			poll = min(2*poll, most)
			due = time.Now().Add(poll)
			timer.Reset(poll)
		}
		resting := time.Until(rest)
		ids, whole, more := ws.next(all, resting <= 0)
		if !more {
			return
		}
		from := time.Now()
		if gone {
			missed = from
		}
		if ws.ask(ctx, ids, whole && !gone) > 0 {
			poll = least
			sooner(poll)
		}
		switch {
		case whole: // with many who wait, one look at all of them takes its time
			rest = time.Now().Add(4 * time.Since(from))
		case resting > 0:
			sooner(min(resting, poll))
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
			// Of those that this process executes, its worker tells as soon.
			if _, ok := ws.byID[h.Run]; ok && !ws.engine.local.holds(h.Run) {
				ws.hinted = append(ws.hinted, h.Run)
			}
		}
	}
}

// next gives the runs to ask for now, and says whether they are all there are;
// more is false, and the loop is to end, when nobody waits any more. Runs that
// this process itself executes are left out of a look at everything.
func (ws *waiters) next(all, mayRescan bool) (ids []store.ID, whole, more bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byID) == 0 {
		ws.wake, ws.hinted, ws.rescan = nil, nil, false
		return nil, false, false
	}
	ids, whole = ws.hinted, all || ws.rescan && mayRescan
	if whole {
		ids = make([]store.ID, 0, len(ws.byID))
		for id := range ws.byID {
			if !ws.engine.local.holds(id) {
				ids = append(ids, id)
			}
		}
		ws.rescan = false
	}
	ws.hinted = nil
	return ids, whole, true
}

// ask reads runs and serves those who wait for the final ones. It returns how
// many runs were final. Only a look that is not finalOnly, or the first one at a run,
// tells a run that is not final from one that does not exist.
func (ws *waiters) ask(ctx context.Context, ids []store.ID, finalOnly bool) (final int) {
	st, ns := ws.engine.store, ws.engine.namespace
	most := store.MaxPage
	for len(ids) > 0 {
		part := ids[:min(len(ids), most)]
		ids = ids[len(part):]
		missing := ws.firstLooks(part)
		if !finalOnly {
			missing = set(part)
		}
		callCtx, cancel := context.WithTimeout(ctx, lookTimeout)
		runs, err := st.Get(callCtx, store.GetParams{Namespace: ns, IDs: part, FinalOnly: len(missing) == 0, NoInput: true, MaxBytes: store.DefaultClaimBytes})
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				ws.engine.log.Warn("failed to read the results of runs; retrying", "runs", len(part), "error", err)
			}
			return final
		}
		whole := 0
		for _, run := range runs {
			delete(missing, run.ID)
			switch {
			case run.Omitted && run.Status.Final():
				ids = append(ids, run.ID) // its result is read with the next ones
				most = max(1, 2*whole)
			case run.Status.Final():
				whole++
				ws.serve(Outcome{run.ID, run.Workflow, run.Status, run.Output, run.Failure}, nil)
				final++
			}
		}
		for id := range missing {
			ws.serve(Outcome{Run: id}, fmt.Errorf("waiting for run %s in namespace %q: %w", id, ns, store.ErrNotFound))
		}
	}
	return final
}

func set(ids []store.ID) map[store.ID]bool {
	s := make(map[store.ID]bool, len(ids))
	for _, id := range ids {
		s[id] = true
	}
	return s
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

func (ws *waiters) serve(o Outcome, err error) {
	ws.mu.Lock()
	line := ws.byID[o.Run]
	delete(ws.byID, o.Run)
	ws.mu.Unlock()
	for _, w := range line {
		w.outcome, w.err = o, err
		close(w.done)
	}
}
