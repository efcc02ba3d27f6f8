package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// restAfter is how long a worker must have held nothing before it polls less often and
// reports less often that it is alive.
const restAfter = time.Minute

// claim claims once, and at most as many runs of a workflow as its limit has room for.
func (w *Worker) claim(ctx context.Context, all []demand, n int, size portion, timeout time.Duration) (store.Claimed, error) {
	demands := make([]store.Demand, 0, len(all))
	got := make(map[string]int) // room by workflow
	for _, d := range all {
		d.Max = n
		if d.limited {
			d.Max = w.slots.takeRoom(d.Workflows[0], n)
			got[d.Workflows[0]] = d.Max
		}
		if d.Max > 0 {
			demands = append(demands, d.Demand)
		}
	}
	claimed, err := store.Claimed{}, error(nil)
	if len(demands) > 0 {
		claimed, err = w.ask(ctx, demands, n, size, timeout)
	}
	for name, room := range got {
		used := 0
		for i := range claimed.Runs {
			if claimed.Runs[i].Run.Workflow == name {
				used++
			}
		}
		w.slots.giveRoom(name, room-used, used > 0 && used == room)
	}
	return claimed, err
}

func (w *Worker) ask(ctx context.Context, demands []store.Demand, n int, size portion, timeout time.Duration) (store.Claimed, error) {
	// A claim that hangs must not succeed after this worker's leases have expired: it
	// could take over the worker's own runs. A claim in progress when the worker shuts
	// down gets time to answer, because what it takes unseen waits for its lease. A
	// worker that holds nothing has no run to take over. If the store is slow, leases are
	// valid for longer than the worker knows.
	until := w.ledger.goodUntil()
	if at := time.Now().Add(timeout); at.After(until) && (w.slow.Load() || len(w.leased()) == 0) {
		until = at
	}
	patient, giveUp := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		sleep(patient, min(lastAnswer, w.grace))
		giveUp()
	})()
	began := time.Now()
	p := store.ClaimParams{Namespace: w.namespace, Worker: w.id, Demands: demands, Max: n, LeaseFor: w.leaseFor, Build: w.cfg.Build, MaxBytes: size.bytes(w.memory.left()), Bare: size.bare(), ClaimID: rand.Int64N(1<<62) + 1}
	claimed, err := w.store.Claim(patient, p)
	if errors.Is(err, store.ErrOutcomeUnknown) {
		claimed, err = w.askAgain(patient, p, err)
	}
	w.tel.Claimed(len(claimed.Runs), time.Since(began), err)
	if err == nil {
		w.ledger.hears(began)
		w.lags.note(demands, claimed)
		if claimed.Asked {
			w.answer(began)
		}
	}
	return claimed, err
}

// askAgain asks for the runs taken by a claim whose answer was lost, until the store
// answers or the worker's leases have ended, and with them those of the claim.
func (w *Worker) askAgain(ctx context.Context, p store.ClaimParams, lost error) (store.Claimed, error) {
	p.Again = true
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		// The answer may have been lost because of its size: each attempt asks for less
		// of it.
		p.MaxBytes = max(1, p.MaxBytes/4)
		p.Bare = p.Bare || wait == time.Second
		claimed, err := w.store.Claim(ctx, p)
		switch {
		case err == nil:
			w.log.Warn("the answer to a claim was lost; recovered the runs that it had claimed", "runs", len(claimed.Runs), "error", lost)
			return claimed, nil
		case ctx.Err() != nil || !store.Retryable(err):
			return store.Claimed{}, errors.Join(lost, err)
		}
		sleep(ctx, wait)
	}
}

// lastAnswer is how long a worker that shuts down waits for the answer to its claim.
const lastAnswer = 5 * time.Second

// callTimeout limits a call of the store, so that a hanging connection does not hang the
// worker.
func (w *Worker) callTimeout() time.Duration { return max(w.leaseFor, 5*time.Second) }

// longer returns the timeout for repeating a call that has taken d.
func (w *Worker) longer(took time.Duration) time.Duration {
	return min(max(2*took, w.callTimeout()), 2*w.callTimeout())
}

// late reports whether an answer has taken so much of a lease that the next regular
// renewal may come too late.
func (w *Worker) late(took time.Duration) bool { return took >= w.leaseFor/3 }

// tooLate reports whether the answer to a claim arrived when, as far as the worker knows,
// the leases in it had already expired.
func (w *Worker) tooLate(asked, answered time.Time) bool {
	return answered.Sub(asked) >= w.leaseFor
}

// demand is one part of a claim; limited means that it is for a single workflow and is
// bounded by that workflow's limit.
type demand struct {
	store.Demand
	limited bool
}

// origin says where a worker got a lease.
type origin uint8

const (
	byClaim origin = iota
	byStart        // with the start of the run
	byPass         // with the end of another run
)

// admit accepts a leased run, whose slot is taken, and returns the invocation to execute,
// or nil. asked is when the claim was sent and answered when its answer arrived; now is
// the store's time in the answer.
func (w *Worker) admit(cr *store.ClaimedRun, asked, answered, now time.Time, from origin) *exec.Invocation {
	inv := exec.New(w.tel.Execute(w.stop, &cr.Run, cr.Lease), w.cfg, host{w}, w.defs[cr.Run.Workflow], *cr, answered, now)
	w.mu.Lock()
	before := w.held[cr.Run.ID]
	switch {
	case before != nil && from == byStart && before.Lease().Epoch >= cr.Lease.Epoch, // a late answer, or an answer to a repeated start
		before != nil && from == byPass && before.Lease().Epoch > cr.Lease.Epoch:
		w.mu.Unlock()
		w.slots.release(cr.Run.Workflow)
		return nil
	case before != nil && before.Lease() == cr.Lease || from != byStart && w.lost.cameBack(cr.Lease):
		w.mu.Unlock()
		w.relive(inv, before)
		return nil
	}
	w.held[cr.Run.ID], w.worked = inv, time.Now()
	w.leases.Add(1)
	w.memory.takeClaimed(inv.Weight())
	draining := w.draining
	w.mu.Unlock()
	w.ledger.taken(asked.Add(w.leaseFor))
	if before != nil {
		before.Lose() // its lease expired and this same worker claimed it again
	}
	if cr.Recovered && inv.Suspicion() == exec.Unsuspected {
		n, _ := exec.Crashes(&cr.Run)
		inv.Logger().Warn("run taken over: its lease had expired", "crashes", n)
	}
	if draining {
		inv.Drain()
	}
	return inv
}

// executeRun executes a run.
func (w *Worker) executeRun(inv *exec.Invocation) {
	if inv.Run().Omitted {
		w.load(inv)
	}
	inv.Execute() // also of one that was closed meanwhile: this ends its lease
}

// load reads the content that a run was claimed without because claims with it failed. A
// run that cannot be read does not stop others: it is set aside with the reason.
func (w *Worker) load(inv *exec.Invocation) {
	id := inv.Lease().Run
	var runs []store.Run
	err := host{w}.try(inv, func(ctx context.Context) (err error) {
		runs, err = w.store.Get(ctx, store.GetParams{Namespace: w.namespace, IDs: []store.ID{id}})
		return err
	})
	if err == nil && len(runs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		inv.SetAside(fmt.Errorf("the run cannot be read: %w", err))
		return
	}
	inv.Load(&runs[0])
}

// hintLoop reacts to the store's hints.
func (w *Worker) hintLoop(ctx context.Context) {
	h, ok := w.store.(store.Hinter)
	if !ok {
		return
	}
	hints, err := h.Hints(ctx, store.HintsOfWork)
	switch {
	case ctx.Err() != nil: // the worker shuts down
		return
	case err != nil:
		w.log.Warn("the store sends no hints; polling instead", "every", w.poll, "error", err)
		return
	}
	// No hint has told this worker of what was written between its first looks and now.
	signal(w.wake)
	signal(w.house.soon)
	_, queues := w.served()
	mine := make(map[string]bool, len(queues))
	for _, q := range queues {
		mine[q] = true
	}
	for batch := range hints {
		for _, hint := range batch {
			w.house.hinted(hint)
			switch hint.Kind {
			case store.HintRescan: // also after a new connection, perhaps to another server
				w.inside.Unsettle()
				signal(w.wake)
				w.glance(ctx)
			case store.HintQueue:
				if hint.Namespace == w.namespace && mine[hint.Queue] {
					signal(w.wake)
				}
			case store.HintEvent:
				w.mu.Lock()
				held := w.held[hint.Run] != nil
				w.mu.Unlock()
				if held {
					signal(w.renew) // the hint may be about a cancel
				}
			}
		}
	}
}

// glance checks the held runs for news. Renewing their leases would also do so, but
// renewing is a write, and each write makes other processes look again: two processes
// would keep each other busy forever.
func (w *Worker) glance(ctx context.Context) {
	byID := map[store.ID]*exec.Invocation{}
	for _, inv := range w.holding() {
		byID[inv.Lease().Run] = inv
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(byID)), store.MaxPage) {
		callCtx, cancel := context.WithTimeout(ctx, w.callTimeout())
		runs, err := w.store.Get(callCtx, store.GetParams{Namespace: w.namespace, IDs: ids, NoInput: true, MaxBytes: 1})
		cancel()
		if err != nil {
			signal(w.renew) // which retries until the store answers
			return
		}
		for i := range runs {
			run, inv := &runs[i], byID[runs[i].ID]
			switch inv.News(run.Events); {
			case run.Epoch != inv.Lease().Epoch:
				signal(w.renew) // which finds that the lease is lost
			case run.Status == store.Canceling:
				inv.Cancel()
			case run.Pausing:
				inv.Drain()
			}
		}
	}
}
