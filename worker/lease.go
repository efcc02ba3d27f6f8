package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ledger knows until when all leases of the worker are good, by this process's
// monotonic clock, counted from when the renewal was asked for.
type ledger struct {
	mu      sync.Mutex
	until   time.Time
	fresh   time.Time     // the earliest end of leases that no renewal has asked for yet; zero: none
	asked   time.Time     // of those that a renewal asks for that has not succeeded yet
	heard   time.Time     // when something was asked that the store has answered
	changed chan struct{} // closed when until moves
}

// taken notes a new lease, once the worker holds it.
func (l *ledger) taken(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = earliest(l.fresh, until)
}

// renewing is called before a renewal looks at what the worker holds.
func (l *ledger) renewing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.fresh = earliest(l.asked, l.fresh), time.Time{}
}

// earliest returns the earlier time; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (l *ledger) renewed(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.asked = until, time.Time{}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// hears notes that the store has answered what was asked then.
func (l *ledger) hears(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked.After(l.heard) {
		l.heard = asked
	}
}

// lastHeard is when something was asked that the store has answered.
func (l *ledger) lastHeard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

func (l *ledger) sound(now time.Time) bool { return now.Before(l.goodUntil()) }

func (l *ledger) goodUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return earliest(l.until, earliest(l.fresh, l.asked))
}

// wait returns a channel that closes at the next renewal.
func (l *ledger) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// renewLoop renews the leases every third of their time, and when it is asked to.
func (w *Worker) renewLoop(ctx context.Context) {
	every := w.leaseFor / 3
	timer := time.NewTimer(every)
	defer timer.Stop()
	var (
		backoff time.Duration
		took    time.Duration // by the last renewal
		last    = time.Now()  // the worker was announced
		signing sync.WaitGroup
	)
	defer signing.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if backoff == 0 && w.needless(last) {
				timer.Reset(every)
				continue
			}
		case <-w.renew:
		}
		began := time.Now()
		failed, err := w.renewAll(ctx, w.renewTimeout(took))
		took = time.Since(began)
		w.noteLate(took)
		w.answered(err)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			backoff = min(max(2*backoff, 10*time.Millisecond), every)
			w.log.Error("failed to renew leases; retrying", "in", backoff, "error", err)
			timer.Reset(backoff)
			continue
		}
		backoff, last = 0, time.Now()
		timer.Reset(max(every-took, atOnce)) // counted from when it was asked for, as the leases are
		signing.Go(func() { w.signAgain(ctx, failed) })
	}
}

// noteLate notes how long a renewal took, and says when that becomes too long.
func (w *Worker) noteLate(took time.Duration) {
	switch late := w.late(took); {
	case w.slow.Swap(late) == late:
	case late:
		w.log.Warn("the store is slow: runs make little progress, and none if an answer takes as long as a lease", "took", took, "lease", w.leaseFor)
	default:
		w.log.Info("the store answers in time again", "took", took, "lease", w.leaseFor)
	}
}

// renewTimeout bounds a renewal. It is shorter than a lease: there is to be time for
// another try before the leases have run out. After a renewal that took longer, answered or
// not, it grows, up to a lease: an answer after that is of no use.
func (w *Worker) renewTimeout(took time.Duration) time.Duration {
	least := max(w.leaseFor/3, min(w.leaseFor, 2*time.Second))
	return min(max(least, 2*took), w.leaseFor)
}

// needless tells whether a heartbeat may be left out. Where nothing is held that is every
// other; once nothing was for a while and the worker is registered as one at rest, all
// for minutes, as long as the store answers what the worker asks for work: a database
// that is not needed is not written to.
func (w *Worker) needless(last time.Time) bool {
	if time.Since(last) < w.leaseFor/2 && len(w.holding()) == 0 {
		return true
	}
	if !w.signedAtRest() || time.Since(last) >= w.restBeat() {
		return false
	}
	w.ledger.renewing()
	heard := w.ledger.lastHeard()
	if !w.atRest() || time.Since(heard) > w.leaseFor*2/3 {
		return false
	}
	w.ledger.renewed(heard.Add(w.leaseFor)) // of no lease
	return true
}

// atRest: nothing is held, and nothing has been for a while.
func (w *Worker) atRest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held) == 0 && !w.draining && time.Since(w.worked) > restAfter
}

// restBeat is how often a worker at rest gives a sign of life.
func (w *Worker) restBeat() time.Duration { return max(5*time.Minute, w.leaseFor) }

// answers is how long a worker at rest takes at most to give a sign of life when somebody
// asks for one, of which its polls tell it where no hint does.
func (w *Worker) answers() time.Duration { return 2*w.restPoll + 10*time.Second }

// renewAll extends every lease that is held; failed: calls have failed before it. Each
// of its calls gets as much time.
func (w *Worker) renewAll(ctx context.Context, timeout time.Duration) (failed bool, err error) {
	w.ledger.renewing()
	told := w.lost.renewing()
	invs := w.leased()
	asked := time.Now()
	for part := range slices.Chunk(append(invs, nil), 1000) { // nil: a heartbeat goes out in any case
		part = slices.DeleteFunc(part, func(inv *exec.Invocation) bool { return inv == nil })
		if err := w.extend(ctx, part, timeout); err != nil {
			return false, err
		}
		w.ledger.hears(asked)
	}
	w.ledger.renewed(asked.Add(w.leaseFor))
	failed = told()
	if failed {
		signal(w.wake) // claims have waited for it
	}
	return failed, nil
}

// extend extends leases with one call, and tells their runs what it hears.
func (w *Worker) extend(ctx context.Context, invs []*exec.Invocation, timeout time.Duration) error {
	leases, heard := make([]store.Lease, len(invs)), make([]int64, len(invs))
	for i, inv := range invs {
		leases[i], heard[i] = inv.Lease(), inv.Heard()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	states, err := w.store.Extend(ctx, store.ExtendParams{Namespace: w.namespace, Worker: w.id, Leases: leases, LeaseFor: w.leaseFor})
	if err != nil {
		w.callFailed()
		return err
	}
	for i, s := range states {
		invs[i].News(s.Events)
		switch {
		case s.Lost:
			invs[i].Lose()
		case s.Events < heard[i]:
			invs[i].Logger().Warn("giving up the run: the database has lost events of the run that this worker has seen", "events", s.Events, "known", heard[i])
			invs[i].Lose()
		case s.Canceling:
			invs[i].Cancel()
		case s.Pausing:
			invs[i].Drain()
		}
	}
	return nil
}

// extendEarly extends the leases of a claim whose answer has taken much of their time. A
// renewal under way does not bring them, and they may end before the next one.
func (w *Worker) extendEarly(invs []*exec.Invocation) {
	w.leases.Go(func() {
		if err := w.extend(w.stop, invs, w.leaseFor); err != nil && w.stop.Err() == nil {
			w.log.Warn("failed to extend the leases of a late claim; the next renewal will do it", "runs", len(invs), "error", err)
			signal(w.renew)
		}
	})
}
