package enginetier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/pawlhq/pawl/conformance/internal/relay"
	"github.com/pawlhq/pawl/store"
)

// A wire connects a process under test with its store. It can be cut, which is how a process dies
// in these tests: nothing that it still does reaches the store. It can be down for a while, and it
// can lose answers.
type wire struct {
	relay.Relay
	mu      sync.Mutex
	state   wireState
	up      chan struct{} // closed when a hanging wire is up again
	lose    int           // every lose-th write is applied and its answer lost; 0: none
	calls   int
	under   int            // calls that the store is executing
	silent  chan struct{}  // closed when there are none; nil: nobody waits
	loses   map[string]int // by verb: the number of next calls whose answers are lost
	cutNext bool           // the wire is cut after the next call
	late    time.Duration  // the delay of each answer
	// before, if set, is called with each verb's name before it is sent.
	before func(verb string)
	after  func(verb string) // likewise, after the call
	// forgets, if set, decides for each commit whether it is answered as applied and then lost: as
	// by a store that has lost it.
	forgets     func(c *store.Commit) bool
	subscribers []chan<- []store.Hint
}

type wireState uint8

const (
	wireUp wireState = iota
	wireDown
	wireHangs
	wireCut
)

var errCut = errors.New("conformance: this process is dead to its store")

// Hints subscribes, after it has called w.before: a subscription is no call of the store otherwise.
// A subscriber also gets what rescan sends.
func (w *wire) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	w.mu.Lock()
	before := w.before
	w.mu.Unlock()
	if before != nil {
		before("hints")
	}
	hints, err := w.Relay.Hints(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out, more := make(chan []store.Hint), make(chan []store.Hint)
	w.mu.Lock()
	w.subscribers = append(w.subscribers, more)
	w.mu.Unlock()
	go func() {
		defer close(out)
		for {
			var batch []store.Hint
			var ok bool
			select {
			case batch, ok = <-hints:
				if !ok {
					return
				}
			case batch = <-more:
			}
			select {
			case out <- batch:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// rescan tells the subscribers of hints, except those that are busy, that anything may have happened:
// as a store does that has connected again.
func (w *wire) rescan() {
	w.mu.Lock()
	to := slices.Clone(w.subscribers)
	w.mu.Unlock()
	for _, more := range to {
		select {
		case more <- []store.Hint{{Kind: store.HintRescan}}:
		default: // it is busy, or has ended
		}
	}
}

func newWire(s store.Store) *wire {
	w := &wire{up: make(chan struct{})}
	w.Relay = relay.Relay{Store: s, Pass: func(ctx context.Context, verb string, params any, call func() error) error {
		return w.pass(ctx, wireName(verb), relay.Writes(verb, params), call)
	}}
	return w
}

// wireName is the name of a verb in these tests: put-worker for PutWorker, and commit-tx for the commit of a
// transaction.
func wireName(verb string) string {
	if verb == "Transaction.Commit" {
		return "commit-tx"
	}
	var b strings.Builder
	for i, r := range verb {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (w *wire) set(s wireState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == wireHangs && s != wireHangs {
		close(w.up)
		w.up = make(chan struct{})
	}
	if w.state != wireCut {
		w.state = s
	}
}

// dieAt cuts the wire at the n-th call of a verb from now on: before it is sent, or after it is
// done and before its answer arrives. It reports when that has happened.
func (w *wire) dieAt(verb string, n int, done bool) <-chan struct{} {
	died := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	hook := func(v string) {
		if v != verb {
			return
		}
		w.mu.Lock()
		n--
		last := n == 0
		w.mu.Unlock()
		if last {
			w.set(wireCut)
			close(died)
		}
	}
	if done {
		w.after = hook
	} else {
		w.before = hook
	}
	return died
}

// loseEvery loses the answer to every n-th write.
func (w *wire) loseEvery(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

// loseNext loses the answers to the next n calls of a verb.
func (w *wire) loseNext(verb string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses = map[string]int{verb: n}
}

// leftToLose is how many answers loseNext has yet to lose.
func (w *wire) leftToLose(verb string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loses[verb]
}

// cutBehind lets the present call through and then cuts the wire: the caller does not get the
// answer.
func (w *wire) cutBehind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutNext = true
}

// hook sets a function that is called with the name of each verb before it is sent.
func (w *wire) hook(fn func(verb string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = fn
}

// answerLate delays the answers of calls from now on. A caller that gives up before that does not
// get its answer.
func (w *wire) answerLate(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = by
}

func (w *wire) executed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.executingLocked(-1)
}

func (w *wire) executingLocked(n int) {
	w.under += n
	if w.under == 0 && w.silent != nil {
		close(w.silent)
		w.silent = nil
	}
}

// silence returns a channel that closes as soon as the store executes no call of this
// process.
func (w *wire) silence() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent == nil {
		w.silent = make(chan struct{})
	}
	silent := w.silent
	w.executingLocked(0)
	return silent
}

// pass lets a call through if the wire is up.
func (w *wire) pass(ctx context.Context, verb string, write bool, call func() error) error {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		before(verb)
	}
	for {
		w.mu.Lock()
		state, up, late := w.state, w.up, w.late
		lost, last := false, write && w.cutNext && state == wireUp
		if last {
			w.state, w.cutNext = wireCut, false
		}
		if write && state == wireUp && w.lose > 0 {
			w.calls++
			lost = w.calls%w.lose == 0
		}
		if write && state == wireUp && w.loses[verb] > 0 {
			w.loses[verb]--
			lost = true
		}
		if state == wireUp {
			w.executingLocked(1)
		}
		w.mu.Unlock()
		switch state {
		case wireCut:
			return errCut
		case wireDown:
			return store.ErrUnavailable
		case wireHangs:
			select {
			case <-up:
				continue
			case <-ctx.Done():
				return errors.Join(ctx.Err(), store.ErrOutcomeUnknown)
			}
		}
		err := call()
		w.executed()
		if after != nil {
			after(verb)
		}
		if late > 0 {
			timer := time.NewTimer(late)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		if last {
			return errCut
		}
		switch {
		case err != nil:
		case lost:
			return store.ErrOutcomeUnknown
		case ctx.Err() != nil: // nobody waits for the answer
			return errors.Join(ctx.Err(), store.ErrOutcomeUnknown)
		}
		return err
	}
}

// Commit passes over the wire, and may be forgotten behind it.
func (w *wire) Commit(ctx context.Context, p store.CommitParams) (res []store.CommitResult, err error) {
	err = w.pass(ctx, "commit", true, func() (err error) {
		res, err = w.commit(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// forget makes the store lose commits.
func (w *wire) forget(which func(c *store.Commit) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgets = which
}

func (w *wire) commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	w.mu.Lock()
	forgets := w.forgets
	w.mu.Unlock()
	if forgets == nil {
		return w.Store.Commit(ctx, p)
	}
	out := make([]store.CommitResult, len(p.Commits))
	var places []int
	kept := p
	kept.Commits = nil
	for i := range p.Commits {
		if c := &p.Commits[i]; forgets(c) {
			out[i] = store.CommitResult{Status: store.Running, Events: c.Seen}
		} else {
			kept.Commits, places = append(kept.Commits, *c), append(places, i)
		}
	}
	if len(places) == 0 {
		return out, nil
	}
	res, err := w.Store.Commit(ctx, kept)
	for i := range res {
		out[places[i]] = res[i]
	}
	return out, err
}
