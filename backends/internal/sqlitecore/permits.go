package sqlitecore

import (
	"sync"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// limitedQueue is the queue of a run that is under limits; other runs have none. The end of a lease
// under limits may let other runs go.
const limitedQueue = `CASE WHEN under IS NOT NULL OR step_under IS NOT NULL THEN queue END`

// frees adds the hint that the end of a permit may let runs of a queue go. There is none if the run was
// under no limit.
func frees(h *sqlkit.Hints, queue string) {
	if queue != "" {
		h.WholeQueue(queue)
	}
}

// freed reads limitedQueue and adds the hint.
func freed(scan func(...any) error, h *sqlkit.Hints) error {
	var queue string
	err := scan(sqlkit.TextOrNull(&queue))
	frees(h, queue)
	return err
}

// permits remembers the queues of runs that this store has claimed under limits, so that the usual commit
// that ends one need not ask for its queue. What it has forgotten is asked for.
type permits struct {
	mu     sync.Mutex
	queues map[store.ID]string
}

// maxPermits limits the runs that are remembered.
const maxPermits = 1 << 14

func (p *permits) remember(run store.ID, queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queues == nil || len(p.queues) >= maxPermits {
		p.queues = map[store.ID]string{}
	}
	p.queues[run] = queue
}

// of returns the queue of the run that a commit is about. It forgets the run if the commit may end its lease.
func (p *permits) of(c *store.Commit) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queues[c.Lease.Run]
	if c.Transition != nil {
		delete(p.queues, c.Lease.Run)
	}
	return queue
}
