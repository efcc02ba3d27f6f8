package sqlkit

import (
	"sync"

	"github.com/pawlhq/pawl/store"
)

// Permits remembers what a store knows of the permits that runs hold, so that a commit need not ask. It may have
// forgotten anything: what it says decides on the effort, never on the outcome.
type Permits struct {
	mu    sync.Mutex
	runs  map[store.ID]permit
	waits map[limitKey]bool
	blind uint
}

type permit struct {
	queue string
	under []store.LimitUse
}

type limitKey struct{ limit, key string }

const (
	// maxPermits limits the runs, and the keys, that are remembered.
	maxPermits = 1 << 14
	// blindly is how many ends of runs behind which no other is known to wait are passed by for each that is tried.
	blindly = 16
)

// Remember remembers a run that has been leased under limits.
func (p *Permits) Remember(r *store.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil || len(p.runs) >= maxPermits {
		p.runs = map[store.ID]permit{}
	}
	p.runs[r.ID] = permit{r.Queue, r.Under}
}

// Wait notes that runs are due and wait for a permit of a key.
func (p *Permits) Wait(limit, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waitLocked(limit, key)
}

func (p *Permits) waitLocked(limit, key string) {
	if p.waits == nil || len(p.waits) >= maxPermits {
		p.waits = map[limitKey]bool{}
	}
	p.waits[limitKey{limit, key}] = true
}

// Of returns the queue of the run that a commit is about, if it is known to be under limits, its limits, and whether to
// try to pass its permits on. It forgets the run if the commit may end its lease.
func (p *Permits) Of(c *store.Commit) (queue string, under []store.LimitUse, pass bool) {
	t := c.Transition
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[c.Lease.Run]
	if t == nil {
		return r.queue, nil, false
	}
	delete(p.runs, c.Lease.Run)
	if t.PassOn <= 0 {
		return r.queue, nil, false
	}
	for _, u := range r.under {
		pass = pass || p.waits[limitKey{u.Limit, u.Key}]
	}
	if !pass {
		p.blind++
		pass = p.blind%blindly == 0
	}
	return r.queue, r.under, pass
}

// Tried remembers the run to which the permits of a run that was under some limits were passed on, and that others may
// wait behind it; or, if it is nil, that none waits for these permits.
func (p *Permits) Tried(under []store.LimitUse, next *store.ClaimedRun) {
	if next != nil {
		p.Remember(&next.Run)
		under = next.Run.Under
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range under {
		if next != nil {
			p.waitLocked(u.Limit, u.Key)
		} else {
			delete(p.waits, limitKey{u.Limit, u.Key})
		}
	}
}
