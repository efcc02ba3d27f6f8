package conformance

import (
	"context"
	"errors"
	"sync"

	"github.com/pawlhq/pawl/store"
)

// A wire lies between a process under test and its store. It can be cut, which is
// how a process dies in these tests: whatever it still does reaches nobody. It
// can go down for a while, and it can lose answers.
type wire struct {
	store.Store
	mu    sync.Mutex
	state wireState
	up    chan struct{} // closed when a wire that hangs is up again
	lose  int           // every lose-th write is applied and its answer lost; 0: none
	calls int
	// before, when set, is called with each verb's name before it goes out.
	before func(verb string)
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

// loseEvery lets the answer to every n-th write be lost.
func (w *wire) loseEvery(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

// pass lets a call through when the wire is up.
func (w *wire) pass(ctx context.Context, verb string, write bool, call func() error) error {
	if w.before != nil {
		w.before(verb)
	}
	for {
		w.mu.Lock()
		state, up := w.state, w.up
		lost := false
		if write && state == wireUp && w.lose > 0 {
			w.calls++
			lost = w.calls%w.lose == 0
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
		if lost && err == nil {
			return store.ErrOutcomeUnknown
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

func (w *wire) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return carry(w, ctx, "get", false, p, w.Store.Get)
}

func (w *wire) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return carry(w, ctx, "claim", false, p, w.Store.Claim) // a lost claim's runs would wait for their leases
}

func (w *wire) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return carry(w, ctx, "extend", true, p, w.Store.Extend)
}

func (w *wire) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return carry(w, ctx, "commit", true, p, w.Store.Commit)
}

func (w *wire) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return carry(w, ctx, "steps", false, p, w.Store.Steps)
}

func (w *wire) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return carry(w, ctx, "inbox", false, p, w.Store.Inbox)
}

func (w *wire) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return carry(w, ctx, "signal", true, p, w.Store.Signal)
}

func (w *wire) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) ([]store.Workflow, error) {
	return carry(w, ctx, "list-workflows", false, p, w.Store.ListWorkflows)
}

func (w *wire) ListWorkers(ctx context.Context, p store.ListWorkersParams) ([]store.Worker, error) {
	return carry(w, ctx, "list-workers", false, p, w.Store.ListWorkers)
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
