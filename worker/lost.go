package worker

import (
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// A database that fails over or is restored may have lost commits that this worker saw,
// including the claims of its runs. Then a claim may issue a lease that the worker has
// had before, with the same epoch, for a history that lacks what the worker knows. The
// store cannot distinguish the first commit under the old lease from that under the new
// one. So the worker ensures that the old one sends none:
//
//   - After a call that failed it claims nothing before its commits under way are
//     answered and a renewal has told it which leases are lost.
//   - A lease that comes back all the same is given up on both sides: the old
//     execution ends, and the new lease is released. The next claim raises the epoch.
//     A lease has come back if its run is held under it, or if a commit under it was in
//     progress while the claim was: the history in the answer may lack what it recorded.

// lost tracks what may depend on commits that the store has lost.
type lost struct {
	mu       sync.Mutex
	failures uint64                // calls of the store that have failed
	renewed  uint64                // failures before the last renewal that succeeded
	since    time.Time             // when renewals succeeded again, while it is not certain
	commits  map[store.ID]*sending // in progress, by run
	began    int                   // how many there are
	old      int                   // how many of them began before the last failure
	claiming bool
	answered map[store.ID]store.Lease // the leases of the commits that were answered while claiming
}

// sending is a commit in progress.
type sending struct {
	lease  store.Lease
	before uint64   // failures before it began
	next   *sending // another one of the same run
}

// begin records a commit under a lease until end is called.
func (l *lost) begin(lease store.Lease) *sending {
	c := &sending{lease: lease}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits == nil {
		l.commits = make(map[store.ID]*sending)
	}
	c.before, c.next = l.failures, l.commits[lease.Run]
	l.commits[lease.Run] = c
	l.began++
	return c
}

func (l *lost) end(c *sending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.commits[c.lease.Run]
	switch {
	case first != c:
		for first.next != c {
			first = first.next
		}
		first.next = c.next
	case c.next != nil:
		l.commits[c.lease.Run] = c.next
	default:
		delete(l.commits, c.lease.Run)
	}
	l.began--
	if c.before < l.failures {
		l.old--
	}
	if l.claiming {
		l.answered[c.lease.Run] = c.lease
	}
}

// claims is called before a claim is sent; the returned function is called when its runs
// were admitted.
func (l *lost) claims() (admitted func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claiming = true
	if l.answered == nil {
		l.answered = make(map[store.ID]store.Lease)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.claiming = false
		clear(l.answered)
	}
}

// cameBack reports whether a commit under that lease, which a claim has returned, may have
// been applied after the claim.
func (l *lost) cameBack(lease store.Lease) bool {
	l.mu.Lock()
	before, ok := l.answered[lease.Run]
	l.mu.Unlock()
	return ok && before == lease || l.sends(lease)
}

// sends reports whether a commit under that lease is in progress.
func (l *lost) sends(lease store.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := l.commits[lease.Run]; c != nil; c = c.next {
		if c.lease == lease {
			return true
		}
	}
	return false
}

// fails records a failed call: the store that answers next may be another one.
func (l *lost) fails() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.old = l.began
}

// renewing is called before leases are renewed; the returned function, called afterwards,
// reports whether a failure came before.
func (l *lost) renewing() (done func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.failures
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		first := before > l.renewed
		if l.renewed = max(l.renewed, before); first && l.since.IsZero() {
			l.since = time.Now()
		}
		return first
	}
}

// patience is how long claims wait for commits from before a failure once leases can be
// renewed. A store that accepts no commits but answers other calls did not fail over.
const patience = 2 * time.Second

// certain reports whether the worker knows which of its leases the store has, and has no
// commit from before a failure in progress. Once leases can be renewed, it waits for
// these commits no longer than patience.
func (l *lost) certain(held bool, patience time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sure := l.old == 0 && (!held || l.renewed == l.failures)
	if sure {
		l.since = time.Time{}
	}
	return sure || !l.since.IsZero() && time.Since(l.since) > patience
}

// callFailed notes that a call of the store has failed. The store that answers next may have lost
// what this worker knows, also the ends of runs that it has told its engine.
func (w *Worker) callFailed() {
	w.lost.fails()
	w.inside.Unsettle()
}

// relive gives up a run whose lease the worker has had before.
func (w *Worker) relive(inv, before *exec.Invocation) {
	defer w.slots.release(inv.Run().Workflow)
	inv.Logger().Warn("giving up the run: the database has lost its claim and issued the same lease again; the run will be claimed again", "epoch", inv.Lease().Epoch)
	if before != nil {
		before.Lose()
	}
	if w.lost.sends(inv.Lease()) {
		return // it may still be applied; the new lease is left to expire
	}
	w.leases.Go(func() {
		host{w}.Commit(&store.Commit{Lease: inv.Lease(), Seq: 1, Transition: &store.Transition{Kind: store.Release}})
	})
}
