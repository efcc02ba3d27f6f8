package worker

import (
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// A database that fails over or is restored may have lost what this worker saw
// committed, the claims of its runs among it. Then a claim may give it a lease that it
// has had before, with the same epoch, for a history that lacks what the worker knows.
// The store cannot tell the first commit under the old one from that under the new
// one. So the worker sees to it that the old one sends none:
//
//   - After a call that failed it claims nothing before its commits under way are
//     answered and a renewal has told it which leases are lost.
//   - A lease that comes back all the same is given up on both sides: the old
//     execution ends, and the new lease is released. The next claim raises the epoch.

// lost knows what may rest on commits that the store has lost.
type lost struct {
	mu       sync.Mutex
	failures uint64              // calls of the store that have failed
	renewed  uint64              // of them: those before the last renewal that succeeded
	since    time.Time           // when leases could be renewed again, while it is not certain
	commits  map[store.Lease]int // under way
	began    map[uint64]int      // the same, by the number of failures before each
}

// sending notes a commit under a lease until the function that it returns is called.
func (l *lost) sending(lease store.Lease) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits == nil {
		l.commits, l.began = make(map[store.Lease]int), make(map[uint64]int)
	}
	before := l.failures
	l.commits[lease]++
	l.began[before]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		drop(l.commits, lease)
		drop(l.began, before)
	}
}

func drop[K comparable](m map[K]int, key K) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}

// sends reports whether a commit under that lease is under way.
func (l *lost) sends(lease store.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commits[lease] > 0
}

// fails notes that a call has failed: the store that answers next may be another one.
func (l *lost) fails() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
}

// renewing is called before leases are renewed, and what it returns afterwards: that
// tells whether a failure came before.
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

// patience is how long claims wait for commits from before a failure, once leases can be
// renewed: a store that takes none and answers otherwise did not fail over.
const patience = 2 * time.Second

// certain reports whether the worker knows which of its leases the store has, and has
// no commit under way from before a failure. Once leases can be renewed it waits for the
// commits no longer than patience.
func (l *lost) certain(held bool, patience time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sure := !held || l.renewed == l.failures
	for before := range l.began {
		sure = sure && before == l.failures
	}
	if sure {
		l.since = time.Time{}
	}
	return sure || !l.since.IsZero() && time.Since(l.since) > patience
}

// relive gives up a run whose lease the worker has had before.
func (w *Worker) relive(inv, before *exec.Invocation) {
	defer w.slots.release(inv.Run().Workflow)
	inv.Logger().Warn("the database has lost the claim of a run and given the same lease again; both are given up, and the run is claimed anew", "epoch", inv.Lease().Epoch)
	if before != nil {
		before.Lose()
	}
	if w.lost.sends(inv.Lease()) {
		return // it may still be applied; the new lease is left to run out
	}
	w.leases.Go(func() {
		host{w}.Commit(store.Commit{Lease: inv.Lease(), Seq: 1, Transition: &store.Transition{Kind: store.Release}})
	})
}
