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
	var backoff time.Duration
	timeout := w.renewTimeout()
	last := time.Now() // the worker was announced
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
		err := w.renewAll(ctx, timeout)
		w.answered(err)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			timeout = min(2*timeout, w.callTimeout()) // a store that takes longer is to be heard at last
			backoff = min(max(2*backoff, 10*time.Millisecond), every)
			w.log.Error("leases could not be renewed, will try again", "in", backoff, "error", err)
			timer.Reset(backoff)
			continue
		}
		backoff, timeout, last = 0, w.renewTimeout(), time.Now()
		timer.Reset(every)
	}
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

// renewAll extends every lease that is held, and tells runs what it hears. Each call gets
// as much time.
func (w *Worker) renewAll(ctx context.Context, timeout time.Duration) error {
	w.ledger.renewing()
	told := w.lost.renewing()
	invs := w.leased()
	asked := time.Now()
	for part := range slices.Chunk(append(invs, nil), 1000) { // nil: a heartbeat goes out in any case
		part = slices.DeleteFunc(part, func(inv *exec.Invocation) bool { return inv == nil })
		leases, heard := make([]store.Lease, len(part)), make([]int64, len(part))
		for i, inv := range part {
			leases[i], heard[i] = inv.Lease(), inv.Heard()
		}
		callCtx, cancel := context.WithTimeout(ctx, timeout)
		states, err := w.store.Extend(callCtx, store.ExtendParams{Namespace: w.namespace, Worker: w.id, Leases: leases, LeaseFor: w.leaseFor})
		cancel()
		if err != nil {
			w.lost.fails()
			return err
		}
		w.ledger.hears(asked)
		for i, s := range states {
			part[i].News(s.Events)
			switch {
			case s.Lost:
				part[i].Lose()
			case s.Events < heard[i]:
				part[i].Logger().Warn("the run is given up: the database has lost events of it that this worker knows", "events", s.Events, "known", heard[i])
				part[i].Lose()
			case s.Canceling:
				part[i].Cancel()
			case s.Pausing:
				part[i].Drain()
			}
		}
	}
	w.ledger.renewed(asked.Add(w.leaseFor))
	failed := told()
	if failed {
		signal(w.wake) // claims have waited for it
	}
	w.signAgain(ctx, failed)
	return nil
}
