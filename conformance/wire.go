package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A wire lies between a process under test and its store. It can be cut, which is
// how a process dies in these tests: whatever it still does reaches nobody. It
// can go down for a while, and it can lose answers.
type wire struct {
	store.Store
	mu      sync.Mutex
	state   wireState
	up      chan struct{} // closed when a wire that hangs is up again
	lose    int           // every lose-th write is applied and its answer lost; 0: none
	calls   int
	under   int            // calls that the store is executing
	silent  chan struct{}  // closed when there are none; nil: nobody waits for that
	loses   map[string]int // by verb: of the next so many calls the answer is lost
	cutNext bool           // the wire is cut behind the next call
	late    time.Duration  // by which each answer comes later
	// before, when set, is called with each verb's name before it goes out.
	before func(verb string)
	after  func(verb string) // likewise, when the call has been done
	// forgets, when set, says of each commit whether it is answered as applied and
	// then not there: a store that has lost it.
	forgets func(c *store.Commit) bool
}

type wireState uint8

const (
	wireUp wireState = iota
	wireDown
	wireHangs
	wireCut
)

var errCut = errors.New("conformance: this process is dead to its store")

func newWire(s store.Store) *wire { return &wire{Store: s, up: make(chan struct{})} }

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

// dieAt cuts the wire at the n-th call of a verb from now on: before it goes out, or
// when it has been done and before its answer comes. It tells when that has happened.
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

// loseEvery lets the answer to every n-th write be lost.
func (w *wire) loseEvery(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

// loseNext lets the answers to the next n calls of a verb be lost.
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

// cutBehind lets the present call through and cuts the wire behind it: the caller does
// not get the answer.
func (w *wire) cutBehind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutNext = true
}

// hook calls fn with the name of each verb before it goes out.
func (w *wire) hook(fn func(verb string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = fn
}

// answerLate lets every answer come later, to calls from now on. Who gives up before that
// does not get it.
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

// pass lets a call through when the wire is up.
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

func carry[P, R any](w *wire, ctx context.Context, verb string, write bool, p P, call func(context.Context, P) (R, error)) (r R, err error) {
	err = w.pass(ctx, verb, write, func() (err error) {
		r, err = call(ctx, p)
		return err
	})
	if err != nil {
		var none R
		return none, err
	}
	return r, nil
}

func (w *wire) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return carry(w, ctx, "create", true, p, w.Store.Create)
}

// Sent is for exports; a store that has it not says so.
func (w *wire) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	x, ok := w.Store.(store.Ranker)
	if !ok {
		return 0, store.ErrUnsupported
	}
	return carry(w, ctx, "ahead", false, p, x.Ahead)
}

func (w *wire) Sent(ctx context.Context, p store.SentParams) ([]store.SentSignal, error) {
	x, ok := w.Store.(store.Exporter)
	if !ok {
		return nil, store.ErrUnsupported
	}
	return carry(w, ctx, "sent", false, p, x.Sent)
}

func (w *wire) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return carry(w, ctx, "get", false, p, w.Store.Get)
}

func (w *wire) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return carry(w, ctx, "claim", !p.Again, p, w.Store.Claim)
}

func (w *wire) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return carry(w, ctx, "extend", true, p, w.Store.Extend)
}

func (w *wire) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return carry(w, ctx, "commit", true, p, w.commit)
}

// forget lets the store lose commits.
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

func (w *wire) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return carry(w, ctx, "steps", false, p, w.Store.Steps)
}

func (w *wire) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return carry(w, ctx, "inbox", false, p, w.Store.Inbox)
}

func (w *wire) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	return carry(w, ctx, "list", false, p, w.Store.List)
}

func (w *wire) Children(ctx context.Context, p store.ChildrenParams) ([]store.Run, error) {
	return carry(w, ctx, "children", false, p, w.Store.Children)
}

func (w *wire) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return carry(w, ctx, "cancel", true, p, w.Store.Cancel)
}

func (w *wire) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return carry(w, ctx, "signal", true, p, w.Store.Signal)
}

func (w *wire) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	return carry(w, ctx, "set-state", true, p, w.Store.SetState)
}

func (w *wire) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	return carry(w, ctx, "get-state", false, p, w.Store.GetState)
}

func (w *wire) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return carry(w, ctx, "list-workflows", false, p, w.Store.ListWorkflows)
}

func (w *wire) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	return carry(w, ctx, "list-workers", false, p, w.Store.ListWorkers)
}

func (w *wire) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	return carry(w, ctx, "ask-workers", true, p, w.Store.AskWorkers)
}

func (w *wire) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	return w.pass(ctx, "put-workflows", true, func() error { return w.Store.PutWorkflows(ctx, p) })
}

func (w *wire) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	return w.pass(ctx, "put-worker", true, func() error { return w.Store.PutWorker(ctx, p) })
}

func (w *wire) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	return w.pass(ctx, "remove-worker", true, func() error { return w.Store.RemoveWorker(ctx, p) })
}

// Import passes on what the store can.
func (w *wire) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	imp, ok := w.Store.(store.Importer)
	if !ok {
		return false, store.ErrUnsupported
	}
	return carry(w, ctx, "import", true, p, imp.Import)
}

func (w *wire) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	return carry(w, ctx, "put-schedule", true, p, w.Store.PutSchedule)
}

func (w *wire) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	return w.pass(ctx, "delete-schedule", true, func() error { return w.Store.DeleteSchedule(ctx, p) })
}

func (w *wire) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return carry(w, ctx, "list-schedules", false, p, w.Store.ListSchedules)
}

func (w *wire) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return carry(w, ctx, "fire", true, p, w.Store.Fire)
}

func (w *wire) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return carry(w, ctx, "find", false, p, w.Store.Find)
}

func (w *wire) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return carry(w, ctx, "lock", true, p, w.Store.Lock)
}

func (w *wire) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	return carry(w, ctx, "purge", true, p, w.Store.Purge)
}

// Hints passes on those of the store, if it gives any.
func (w *wire) Hints(ctx context.Context) (<-chan []store.Hint, error) {
	if h, ok := w.Store.(store.Hinter); ok {
		return h.Hints(ctx)
	}
	return nil, store.ErrUnsupported
}

// Join passes the store inside a transaction on as it is.
func (w *wire) Join(tx store.Tx) (store.Store, error) {
	t, ok := w.Store.(store.Transactor)
	if !ok {
		return nil, store.ErrUnsupported
	}
	return t.Join(tx)
}

// Begin gives a transaction whose end goes over the wire.
func (w *wire) Begin(ctx context.Context, target any) (tx store.Transaction, err error) {
	t, ok := w.Store.(store.Transactor)
	if !ok {
		return nil, store.ErrUnsupported
	}
	err = w.pass(ctx, "begin", false, func() (err error) {
		tx, err = t.Begin(ctx, target)
		return err
	})
	if err != nil {
		return nil, err
	}
	return wireTx{w, tx}, nil
}

// Recorded goes over the wire.
func (w *wire) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (recorded bool, err error) {
	err = w.pass(ctx, "recorded", false, func() (err error) {
		recorded, err = w.Store.(store.Transactor).Recorded(ctx, namespace, lease, seq)
		return err
	})
	return recorded, err
}

type wireTx struct {
	w *wire
	store.Transaction
}

func (t wireTx) Commit(ctx context.Context, namespace string, c store.Commit) (res store.CommitResult, err error) {
	err = t.w.pass(ctx, "commit-tx", true, func() (err error) {
		res, err = t.Transaction.Commit(ctx, namespace, c)
		return err
	})
	if err != nil {
		t.Rollback() // as the database does when the connection ends
		return store.CommitResult{}, err
	}
	return res, nil
}
