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

// breathe is how long the claimer waits for more slots to come free when work
// waits and only a few are: many tiny claims cost more than they bring.
const breathe = time.Millisecond

// restAfter is for how long a worker has held nothing when it begins to poll less and
// to give signs of life less often.
const restAfter = time.Minute

// claimLoop claims and starts runs until ctx ends, or until nothing is left to do if
// somebody asks for that.
func (w *Worker) claimLoop(ctx context.Context) (found idle) {
	var (
		demands = w.demands()
		timer   = time.NewTimer(atOnce)
		more    = true // work is due that was not claimed for want of slots, or of memory
		backoff time.Duration
		portion portion
		took    time.Duration   // by the last claim
		renewed <-chan struct{} // waited for, as no lease is known to be good
	)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return found
		case <-timer.C:
		case <-renewed: // where the store answers late, leases are known to be good for moments
		case <-w.wake:
		case <-w.emptied:
		case <-w.freed:
			if !more {
				continue
			}
			if w.slots.available() < max(1, w.concurrency/4) && !sleep(ctx, breathe) {
				return found
			}
		}
		if ctx.Err() != nil {
			return found
		}
		if !w.ledger.sound(time.Now()) {
			// Leases may have run out (the process was stopped, the store was out of
			// reach). They are renewed before anything is claimed: otherwise this
			// worker might take its own runs over.
			renewed = w.ledger.wait()
			signal(w.renew)
			timer.Reset(w.leaseFor / 10)
			continue
		}
		renewed = nil
		if !w.lost.certain(len(w.leased()) > 0, patience) {
			signal(w.renew) // which wakes this loop
			timer.Reset(w.leaseFor / 10)
			continue
		}
		n := 0
		if w.memory.left() > 0 || len(w.holding()) == 0 {
			n = w.slots.take(portion.runs(w.concurrency))
		}
		if n == 0 {
			more = true // what comes free looks again
			w.slots.setBacklog(true)
			timer.Reset(w.poll)
			continue
		}
		resting := w.emptied != nil && len(w.holding()) == 0
		asked := time.Now()
		claimed, err := w.claim(ctx, demands, n, portion, w.longer(took))
		answered := time.Now()
		took = answered.Sub(asked)
		w.slots.give(n - len(claimed.Runs))
		if err != nil {
			if ctx.Err() != nil {
				return found
			}
			w.lost.fails()
			more = false // the timer looks again; the slots given back must not
			portion.failed()
			backoff = min(max(2*backoff, 10*time.Millisecond), 5*time.Second)
			w.log.Error("claim failed, will try again for less", "runs", n, "in", backoff, "error", err)
			timer.Reset(backoff)
			continue
		}
		backoff = 0
		if w.tooLate(asked, answered) {
			portion.failed()
		} else {
			portion.succeeded()
		}
		if ctx.Err() != nil {
			w.drain() // they are given back
		}
		w.execute(ctx, &claimed, asked, answered)
		if resting && len(claimed.Runs) == 0 && (claimed.NextDue.IsZero() || claimed.NextDue.After(claimed.Now)) {
			fired, next, err := w.fireDue(ctx)
			switch {
			case fired:
				timer.Reset(atOnce)
				continue
			case err != nil:
				if ctx.Err() != nil {
					return found
				}
				backoff = min(max(2*backoff, 10*time.Millisecond), 5*time.Second)
				w.log.Error("schedules could not be fired, will try again", "in", backoff, "error", err)
				timer.Reset(backoff)
				continue
			}
			found.reached, found.next = true, next
			if !claimed.NextDue.IsZero() {
				found.next = earliest(next, answered.Add(claimed.NextDue.Sub(claimed.Now)))
			}
			return found
		}
		wait := w.poll
		if len(claimed.Runs) == 0 && w.atRest() {
			wait = w.restPoll
		}
		more = false
		if !claimed.NextDue.IsZero() {
			due := claimed.NextDue.Sub(claimed.Now)
			if due <= 0 {
				more = len(claimed.Runs) == n
				due = breathe
			}
			wait = min(wait, due)
		}
		w.slots.setBacklog(more)
		if more {
			if w.slots.available() > 0 {
				signal(w.wake)
			}
			wait = w.poll
		}
		timer.Reset(wait)
	}
}

// claim asks the store once, for no more runs of a workflow than its limit has room
// for.
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
	// A claim that hangs must not come through after this worker's leases have run
	// out: it could take the worker's own runs over. And one that is under way when the
	// worker is to leave gets time to answer: what it takes unseen waits for its lease.
	// One that holds nothing has none to take over. And where the store answers late,
	// leases are good for longer than the worker knows.
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
	p := store.ClaimParams{Namespace: w.namespace, Worker: w.id, Demands: demands, Max: n, LeaseFor: w.leaseFor, MaxBytes: size.bytes(w.memory.left()), Bare: size.bare(), ClaimID: rand.Int64N(1<<62) + 1}
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

// askAgain asks for what a claim has taken whose answer was lost, until the store says
// so or the worker's leases are over, and with them those of the claim.
func (w *Worker) askAgain(ctx context.Context, p store.ClaimParams, lost error) (store.Claimed, error) {
	p.Again = true
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		// The answer may have been lost for its size: each time less of it is asked for.
		p.MaxBytes = max(1, p.MaxBytes/4)
		p.Bare = p.Bare || wait == time.Second
		claimed, err := w.store.Claim(ctx, p)
		switch {
		case err == nil:
			w.log.Warn("the answer to a claim was lost; what it had taken was asked for", "runs", len(claimed.Runs), "error", lost)
			return claimed, nil
		case ctx.Err() != nil || !store.Retryable(err):
			return store.Claimed{}, errors.Join(lost, err)
		}
		sleep(ctx, wait)
	}
}

// lastAnswer is how long a worker that is to leave waits for the answer to its claim.
const lastAnswer = 5 * time.Second

// callTimeout bounds a call of the store, so that a connection that hangs does
// not hang the worker.
func (w *Worker) callTimeout() time.Duration { return max(w.leaseFor, 5*time.Second) }

// longer is the timeout of a call that is made again, the last one having taken so long.
func (w *Worker) longer(took time.Duration) time.Duration {
	return min(max(2*took, w.callTimeout()), 2*w.callTimeout())
}

// late tells of an answer that has taken so much of a lease that the next renewal in
// turn may come too late.
func (w *Worker) late(took time.Duration) bool { return took >= w.leaseFor/3 }

// tooLate tells of an answer to a claim that came when the leases which it brings were
// over, as far as the worker knows.
func (w *Worker) tooLate(asked, answered time.Time) bool {
	return answered.Sub(asked) >= w.leaseFor
}

// demand is a part of what a claim asks for; limited: of a single workflow, whose limit
// bounds it.
type demand struct {
	store.Demand
	limited bool
}

// admit takes in a leased run, whose slot is taken, and returns what is to be executed of
// it; nil: nothing. asked is when the claim went out
// and answered when its answer came, in which the store's clock said now. adopted: it
// was leased when it was started, not claimed.
func (w *Worker) admit(cr *store.ClaimedRun, asked, answered, now time.Time, adopted bool) *exec.Invocation {
	inv := exec.New(w.tel.Execute(w.stop, &cr.Run, cr.Lease), w.cfg, host{w}, w.defs[cr.Run.Workflow], *cr, answered, now)
	w.mu.Lock()
	before := w.held[cr.Run.ID]
	switch {
	case before != nil && before.Lease().Epoch >= cr.Lease.Epoch && adopted: // a late answer, or one to a start that was repeated
		w.mu.Unlock()
		w.slots.release(cr.Run.Workflow)
		return nil
	case before != nil && before.Lease() == cr.Lease || !adopted && w.lost.sends(cr.Lease):
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
		before.Lose() // its lease ran out and came back to this very worker
	}
	if cr.Recovered && inv.Suspicion() == exec.Unsuspected {
		n, _ := exec.Crashes(&cr.Run)
		inv.Logger().Warn("run taken over: its lease had run out", "crashes", n)
	}
	if draining {
		inv.Drain()
	}
	return inv
}

// executeRun executes a run.
func (w *Worker) executeRun(inv *exec.Invocation) {
	if inv.Run().Omitted && !w.load(inv) {
		return
	}
	inv.Execute()
}

// load reads what a run was claimed without, because claims that bring it failed. A run
// that cannot be read stops no other: it is set aside, by name; false.
func (w *Worker) load(inv *exec.Invocation) bool {
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
		return false
	}
	inv.Load(&runs[0])
	return true
}

// hintLoop turns the store's hints into looks at it.
func (w *Worker) hintLoop(ctx context.Context) {
	h, ok := w.store.(store.Hinter)
	if !ok {
		return
	}
	hints, err := h.Hints(ctx)
	if err != nil {
		w.log.Warn("the store gives no hints; polling alone finds work", "every", w.poll, "error", err)
		return
	}
	signal(w.wake) // what was written between the first look and now was hinted to nobody
	_, queues := w.served()
	mine := make(map[string]bool, len(queues))
	for _, q := range queues {
		mine[q] = true
	}
	for batch := range hints {
		for _, hint := range batch {
			w.house.hinted(hint)
			switch hint.Kind {
			case store.HintRescan:
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
					signal(w.renew) // a cancel may be what it tells of
				}
			}
		}
	}
}

// glance looks at the runs that are held for news, which may be meant for them. To
// renew their leases would tell, too, but is a write: where any write of another
// process is a reason to look again, two processes would never come to rest.
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
			signal(w.renew) // which tries until it has heard
			return
		}
		for i := range runs {
			run, inv := &runs[i], byID[runs[i].ID]
			switch inv.News(run.Events); {
			case run.Epoch != inv.Lease().Epoch:
				signal(w.renew) // which finds out that the lease is lost
			case run.Status == store.Canceling:
				inv.Cancel()
			case run.Pausing:
				inv.Drain()
			}
		}
	}
}
