package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// ErrUnanswered means that a run has ended without an answer to a signal. The error is an
// [*UnansweredError].
var ErrUnanswered = errors.New("run ended without an answer")

// UnansweredError is the error of a call that waits for the answer of a run that has ended. It
// matches [ErrUnanswered]. If the run is restarted, it may still answer.
type UnansweredError struct {
	Run    store.ID
	Signal store.SignalID
	Status store.Status // a final one
}

// Error returns a text with the run's ID and status.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("run %s is %s and has not answered the signal %s", e.Run, e.Status, e.Signal)
}

// Is reports whether target is [ErrUnanswered].
func (e *UnansweredError) Is(target error) bool { return target == ErrUnanswered }

// Asked is a signal that was sent to a run and that asks for an answer.
type Asked struct {
	Run    store.ID
	Signal store.SignalID
}

// Answer is what a run has answered.
type Answer struct {
	Output  []byte         // encoded
	Failure *store.Failure // nil: the answer is Output
	At      time.Time      // when it was committed, by the store's clock
}

// Send sends a signal as [Engine.Signal] does, and returns what [Engine.Answer] and
// [Engine.AwaitAnswer] need to read the answer to it.
func (e *Engine) Send(ctx context.Context, s store.NewSignal) (Asked, error) {
	if s.ID.IsZero() {
		s.ID = store.NewID()
	}
	run, err := e.signal(ctx, s)
	return Asked{Run: run, Signal: s.ID}, err
}

// Ask sends a signal and waits for the run's answer to it. A signal whose ID the run has received
// already is the same question: Ask returns the same answer. Errors are those of [Engine.Signal] and
// of [Engine.AwaitAnswer].
func (e *Engine) Ask(ctx context.Context, s store.NewSignal) (Answer, error) {
	if e.root != nil {
		return Answer{}, fmt.Errorf("signal %q: %w", s.Name, errAskInTx())
	}
	asked, err := e.Send(ctx, s)
	if err != nil {
		return Answer{}, err
	}
	return e.AwaitAnswer(ctx, asked)
}

func errAskInTx() error {
	return store.Invalid("ask", "a transaction is open, and nothing is sent before it commits; send in the transaction, and wait for the answer after it")
}

// Answer returns a run's answer to a signal, if there is one now. It fails with store.ErrNotFound if
// there is no such run, or if the run has not received the signal, and with an [*UnansweredError] if
// the run has ended without an answer.
func (e *Engine) Answer(ctx context.Context, a Asked) (answer Answer, ok bool, err error) {
	var res []store.AnswerResult
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		res, err = e.store.Answers(ctx, store.AnswersParams{Namespace: e.namespace, Asks: []store.Ask{store.Ask(a)}})
		return err
	})
	if err == nil {
		answer, ok, err = answerOf(a, &res[0])
	}
	if err != nil {
		return Answer{}, false, fmt.Errorf("the answer to signal %s of run %s: %w", a.Signal, a.Run, err)
	}
	return answer, ok, nil
}

// answerOf reads a result of the store; ok is false if the answer may come later.
func answerOf(a Asked, res *store.AnswerResult) (answer Answer, ok bool, err error) {
	switch given := res.Given; {
	case res.Err != nil:
		return answer, false, res.Err
	case given != nil:
		return Answer{given.Output, given.Failure, given.At}, true, nil
	case res.Status.Final():
		return answer, false, &UnansweredError{a.Run, a.Signal, res.Status}
	}
	return answer, false, nil
}

// AwaitAnswer waits until a run has answered a signal. It fails with store.ErrNotFound if there is no
// such run, or if the run has not received the signal; with an [*UnansweredError] if the run has ended
// without an answer; with [ErrClosed]; or with the context's error. The signal stays sent: to wait
// again, call AwaitAnswer again, also in another process.
//
// While the store cannot be reached, it continues to wait. All concurrent calls share one poll, and
// hints of the store report answers at once.
func (e *Engine) AwaitAnswer(ctx context.Context, a Asked) (Answer, error) {
	e = e.base()
	w := e.askers.add(a)
	defer e.askers.remove(w)
	select {
	case <-w.done:
		if w.err != nil {
			return Answer{}, fmt.Errorf("the answer to signal %s of run %s: %w", a.Signal, a.Run, w.err)
		}
		return w.answer, nil
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("waiting for the answer to signal %s of run %s: %w", a.Signal, a.Run, ctx.Err())
	case <-e.ctx.Done():
		return Answer{}, fmt.Errorf("waiting for the answer to signal %s of run %s: %w", a.Signal, a.Run, ErrClosed)
	}
}

// asker is a call that waits for an answer.
type asker struct {
	asked  Asked
	answer Answer
	err    error
	done   chan struct{} // closed once answer and err are set
}

// askers are the calls that wait for answers, and the loop that serves them.
type askers struct {
	engine *Engine
	mu     sync.Mutex
	byRun  map[store.ID][]*asker
	look   map[store.ID]bool // the runs whose answers are to be read now
	wake   chan struct{}     // nil: the loop does not run
}

func (as *askers) add(a Asked) *asker {
	w := &asker{asked: a, done: make(chan struct{})}
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.byRun == nil {
		as.byRun, as.look = map[store.ID][]*asker{}, map[store.ID]bool{}
	}
	as.byRun[a.Run] = append(as.byRun[a.Run], w)
	as.look[a.Run] = true
	if as.wake == nil {
		as.wake = make(chan struct{}, 1)
		go as.loop(as.wake)
	}
	as.notify()
	return w
}

func (as *askers) notify() {
	select {
	case as.wake <- struct{}{}:
	default:
	}
}

func (as *askers) remove(w *asker) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.removeLocked(w)
	if len(as.byRun) == 0 && as.wake != nil {
		as.notify() // lets the loop end
	}
}

func (as *askers) removeLocked(w *asker) {
	run := w.asked.Run
	line := slices.DeleteFunc(slices.Clone(as.byRun[run]), func(o *asker) bool { return o == w })
	if len(line) == 0 {
		delete(as.byRun, run)
		return
	}
	as.byRun[run] = line
}

// loop reads answers until nobody waits for one.
func (as *askers) loop(wake chan struct{}) {
	ctx, cancel := context.WithCancel(as.engine.ctx)
	defer cancel()
	least, most := waitPollMin, waitPollMax
	var hints <-chan []store.Hint
	if h, ok := as.engine.store.(store.Hinter); ok {
		if ch, err := h.Hints(ctx, store.HintsOfRuns); err == nil {
			hints = ch
			if as.engine.store.Features().Hints { // otherwise they may be this process's own alone
				least, most = hintedPollMin, hintedPollMax
			}
		}
	}
	if as.engine.poll > 0 {
		most = as.engine.poll
	}
	poll := least
	timer := time.NewTimer(poll)
	defer timer.Stop()
	var rest time.Time // no look at everything before
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case batch, ok := <-hints:
			if !ok {
				hints, least, most = nil, waitPollMin, min(most, waitPollMax)
				continue
			}
			if all = as.take(batch); all && time.Now().Before(rest) {
				all, poll = false, least
				timer.Reset(min(time.Until(rest), poll))
			}
		case <-timer.C:
			all, poll = true, min(2*poll, most)
			timer.Reset(poll)
		}
		asks, more := as.next(all)
		if !more {
			return
		}
		from := time.Now()
		if as.ask(ctx, asks) && poll > least {
			poll = least
			timer.Reset(poll)
		}
		if all { // with many who wait, a look at all of them takes its time
			rest = time.Now().Add(4 * time.Since(from))
		}
	}
}

// take notes what hints say, and reports whether every answer is to be read.
func (as *askers) take(batch []store.Hint) (all bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, h := range batch {
		switch h.Kind {
		case store.HintRescan:
			all = true
		case store.HintAnswer, store.HintFinal:
			if as.byRun[h.Run] != nil {
				as.look[h.Run] = true
			}
		}
	}
	return all
}

// next returns the calls whose answers are to be read now. more is false, and the loop is to end, if
// nobody waits.
func (as *askers) next(all bool) (list []*asker, more bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.byRun) == 0 {
		as.wake = nil
		clear(as.look)
		return nil, false
	}
	for run, line := range as.byRun {
		if all || as.look[run] {
			list = append(list, line...)
		}
	}
	clear(as.look)
	return list, true
}

// ask reads answers and serves the calls that wait for them. It reports whether there were any.
func (as *askers) ask(ctx context.Context, list []*asker) (some bool) {
	for len(list) > 0 {
		part := list[:min(len(list), store.MaxPage)]
		list = list[len(part):]
		p := store.AnswersParams{Namespace: as.engine.namespace, Asks: make([]store.Ask, len(part)), MaxBytes: store.DefaultClaimBytes}
		for i, w := range part {
			p.Asks[i] = store.Ask(w.asked)
		}
		callCtx, cancel := context.WithTimeout(ctx, lookTimeout)
		res, err := as.engine.store.Answers(callCtx, p)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				as.engine.log.Warn("failed to read the answers of runs; retrying", "asks", len(part), "error", err)
			}
			return some
		}
		for i, w := range part {
			if res[i].Omitted {
				list = append(list, w) // it is read with the next ones
				continue
			}
			if answer, ok, err := answerOf(w.asked, &res[i]); ok || err != nil {
				as.serve(w, answer, err)
				some = true
			}
		}
	}
	return some
}

func (as *askers) serve(w *asker, answer Answer, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	select {
	case <-w.done:
		return
	default:
	}
	as.removeLocked(w)
	w.answer, w.err = answer, err
	close(w.done)
}
