package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// errCut is the error that the calls of a dead process get.
var errCut = errors.New("sim: this process is dead to its store")

type wireState uint8

const (
	wireUp wireState = iota
	wireDown
	wireHangs
	wireCut
)

// A wire is between one process and the store. The fault of a call depends on the seed, the
// process, the method, and the number of earlier calls of that method. Calls of different methods
// of one process race with each other; calls of one method hardly do.
type wire struct {
	store.Store // for the verbs that have no faults here
	world       *world
	who         string // the process, as traces name it
	id          uint64 // what its faults are derived from

	mu      sync.Mutex
	state   wireState
	changed chan struct{} // closed when the state changes
	calls   map[string]uint64
	total   int
	frozen  atomic.Bool // was, at some time

	// crash, if not nil, cuts the wire at one call.
	crash *crashPoint
	cut   chan struct{} // closed when cut
}

// crashPoint names a call by its number among the calls of a method, or among all calls if verb is
// empty. It says whether the call is applied before the process dies.
type crashPoint struct {
	verb  string
	call  uint64
	after bool
	fired bool
}

func newWire(w *world, who string, id uint64) *wire {
	return &wire{Store: w.store, world: w, who: who, id: id, changed: make(chan struct{}), calls: map[string]uint64{}, cut: make(chan struct{})}
}

func (w *wire) set(s wireState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == wireCut || w.state == s {
		return
	}
	w.state = s
	if s == wireHangs {
		w.frozen.Store(true)
	}
	close(w.changed)
	w.changed = make(chan struct{})
	if s == wireCut {
		close(w.cut)
	}
}

func (w *wire) isCut() bool {
	select {
	case <-w.cut:
		return true
	default:
		return false
	}
}

type fault uint8

const (
	faultNone fault = iota
	faultBefore
	faultAfter
	faultDelay
	faultHang
	faultLate
	faultCrashBefore
	faultCrashAfter
)

var faultNames = [...]string{"", "error before", "error after", "delay", "hang", "late", "crash before", "crash after"}

type decision struct {
	fault
	call          uint64
	first, second time.Duration
	late          bool // what hung until its context ended comes through afterwards
}

// decide returns the fault of the next call of a method.
func (w *wire) decide(verb string) decision {
	w.mu.Lock()
	call := w.calls[verb]
	w.calls[verb]++
	all := w.total
	w.total++
	c := w.crash
	w.mu.Unlock()
	d := decision{call: call}
	if c != nil && w.world.chaotic() && (c.verb == verb && c.call == call || c.verb == "" && c.call == uint64(all)) {
		c.fired = true
		d.fault = faultCrashBefore
		if c.after {
			d.fault = faultCrashAfter
		}
		return d
	}
	p := &w.world.profile
	if !w.world.chaotic() || p.faults == 0 {
		return d
	}
	src := rand.NewPCG(w.world.seed^hash(verb), w.id<<32|call)
	r := rand.New(src)
	r.Uint64()
	x := r.Float64()
	for f := faultBefore; f <= faultLate; f++ {
		if x < p.rates[f] {
			d.fault = f
			break
		}
		x -= p.rates[f]
	}
	lease := float64(p.lease)
	d.first = time.Duration(lease * 1.1 * r.Float64() * r.Float64())
	d.second = time.Duration(lease * 1.1 * r.Float64() * r.Float64())
	d.late = r.IntN(2) == 0
	return d
}

// open waits until the wire is up.
func (w *wire) open(ctx context.Context) error {
	for {
		w.mu.Lock()
		state, changed := w.state, w.changed
		w.mu.Unlock()
		switch state {
		case wireUp:
			return nil
		case wireCut:
			return errCut
		case wireDown:
			w.world.count("down")
			return store.ErrUnavailable
		}
		w.world.count("hang while stopped")
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), store.ErrOutcomeUnknown)
		}
	}
}

// pass makes a call, with its fault. apply makes the call, and write says that the call changes
// something. late makes it by itself, after the caller has gone.
func (w *wire) pass(ctx context.Context, verb string, write bool, apply, late func(context.Context) error) error {
	d := w.decide(verb)
	if err := w.open(ctx); err != nil {
		return err
	}
	unknown := store.ErrUnavailable
	if write {
		unknown = store.ErrOutcomeUnknown
	}
	if d.fault != faultNone {
		w.world.count(faultNames[d.fault])
		w.world.note(w.who, "%s %d: %s %v %v", verb, d.call, faultNames[d.fault], d.first, d.second)
	}
	switch d.fault {
	case faultBefore:
		return store.ErrUnavailable
	case faultAfter:
		if err := apply(ctx); err != nil {
			return err
		}
		return unknown
	case faultDelay:
		if err := w.pause(ctx, d.first); err != nil {
			return err
		}
		if err := apply(ctx); err != nil {
			return err
		}
		return w.pause(ctx, d.second)
	case faultHang:
		select {
		case <-w.world.healed:
		case <-w.cut:
			return errCut
		case <-ctx.Done():
			if d.late {
				w.world.later(d.first, late)
				w.world.count("late after its context")
			}
			return errors.Join(ctx.Err(), unknown)
		}
	case faultLate:
		w.world.later(d.first, late)
		return unknown
	case faultCrashBefore:
		w.set(wireCut)
		return errCut
	case faultCrashAfter:
		err := apply(ctx)
		w.set(wireCut)
		return errors.Join(errCut, err)
	}
	if err := apply(ctx); err != nil {
		return err
	}
	if w.isCut() {
		return errCut
	}
	return nil
}

func (w *wire) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.world.healed:
		return nil
	case <-w.cut:
		return errCut
	case <-ctx.Done():
		return errors.Join(ctx.Err(), store.ErrOutcomeUnknown)
	}
}

func carry[P, R any](ctx context.Context, w *wire, verb string, write bool, p P, call func(context.Context, P) (R, error)) (R, error) {
	var none, r R
	p = detach(p)
	err := w.pass(ctx, verb, write, func(ctx context.Context) (err error) {
		r, err = call(ctx, p)
		return err
	}, func(ctx context.Context) error {
		_, err := call(ctx, p)
		return err
	})
	if err != nil {
		return none, err
	}
	return r, nil
}

// detach copies what a caller may change after its call has returned. It is for calls that are
// applied late.
func detach[P any](p P) P {
	switch q := any(&p).(type) {
	case *store.ClaimParams:
		q.Demands = slices.Clone(q.Demands)
	case *store.ExtendParams:
		q.Leases = slices.Clone(q.Leases)
	case *store.CommitParams:
		q.Commits = slices.Clone(q.Commits)
	case *store.CreateParams:
		q.Runs = slices.Clone(q.Runs)
	}
	return p
}

func void[P any](call func(context.Context, P) error) func(context.Context, P) (struct{}, error) {
	return func(ctx context.Context, p P) (struct{}, error) { return struct{}{}, call(ctx, p) }
}

// The methods of the store. The watcher sees Create, Claim, Extend, Commit and Cancel.

func (w *wire) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return carry(ctx, w, "create", true, p, w.watched().create)
}

func (w *wire) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return carry(ctx, w, "claim", true, p, w.watched().claim)
}

func (w *wire) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return carry(ctx, w, "extend", true, p, w.watched().extend)
}

func (w *wire) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return carry(ctx, w, "commit", true, p, w.watched().commit)
}

func (w *wire) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return carry(ctx, w, "cancel", true, p, w.watched().cancel)
}

func (w *wire) watched() watched { return watched{w.world, w} }

func (w *wire) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return carry(ctx, w, "get", false, p, w.world.store.Get)
}

func (w *wire) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return carry(ctx, w, "find", false, p, w.world.store.Find)
}

func (w *wire) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	return carry(ctx, w, "list", false, p, w.world.store.List)
}

func (w *wire) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return carry(ctx, w, "steps", false, p, w.world.store.Steps)
}

func (w *wire) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return carry(ctx, w, "inbox", false, p, w.world.store.Inbox)
}

func (w *wire) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	return carry(ctx, w, "answers", false, p, w.world.store.Answers)
}

func (w *wire) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	return carry(ctx, w, "append", true, p, w.world.store.(store.Streamer).Append)
}

func (w *wire) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	return carry(ctx, w, "tree", false, p, w.world.store.(store.TreeReader).Tree)
}

func (w *wire) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	return carry(ctx, w, "read-stream", false, p, w.world.store.(store.Streamer).ReadStream)
}

func (w *wire) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return carry(ctx, w, "list-workflows", false, p, w.world.store.ListWorkflows)
}

func (w *wire) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	p.Now = w.world.now(p.Now)
	_, err := carry(ctx, w, "put-workflows", true, p, void(w.world.store.PutWorkflows))
	return err
}

func (w *wire) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	p.Now = w.world.now(p.Now)
	return carry(ctx, w, "ask-workers", true, p, w.world.store.AskWorkers)
}

func (w *wire) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	p.Now = w.world.now(p.Now)
	_, err := carry(ctx, w, "put-worker", true, p, void(w.world.store.PutWorker))
	return err
}

func (w *wire) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	_, err := carry(ctx, w, "remove-worker", true, p, void(w.world.store.RemoveWorker))
	return err
}

func (w *wire) Clock(ctx context.Context) (time.Time, error) {
	return carry(ctx, w, "clock", false, struct{}{}, func(ctx context.Context, _ struct{}) (time.Time, error) {
		t, err := w.world.store.Clock(ctx)
		return t.Add(w.world.profile.skew), err
	})
}

func (w *wire) Features() store.Features { return w.world.store.Features() }

func (w *wire) Limits() store.Limits { return w.world.store.Limits() }

func (w *wire) Close() error { return nil }

// Hints passes on the store's hints. It loses some of them, or sends none at all.
func (w *wire) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	h, ok := w.world.store.(store.Hinter)
	if !ok || w.world.profile.noHints {
		return nil, store.ErrUnsupported
	}
	in, err := h.Hints(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := make(chan []store.Hint)
	w.world.wg.Go(func() {
		defer close(out)
		r := rand.New(rand.NewPCG(w.world.seed, w.id<<32|hash("hints")>>32))
		for batch := range in {
			w.mu.Lock()
			up := w.state == wireUp
			w.mu.Unlock()
			if lost := r.Float64() < w.world.profile.hintLoss && w.world.chaotic(); lost || !up {
				w.world.count("hint lost")
				continue
			}
			select {
			case out <- batch:
			case <-ctx.Done():
			}
		}
	})
	return out, nil
}

// hash returns the FNV-1a hash.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
