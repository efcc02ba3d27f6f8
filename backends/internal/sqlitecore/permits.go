package sqlitecore

import (
	"strings"
	"sync"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// limitedQueue is the queue of a run that is under limits; other runs have none. The end of a lease
// under limits may let other runs go.
const limitedQueue = `CASE WHEN under IS NOT NULL OR step_under IS NOT NULL THEN queue END`

// untold is the condition of statements that change runs without setting told: no trigger has to know of it.
const untold = ` AND under IS NULL AND step_under IS NULL AND NOT EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=runs.namespace)`

// untoldMany is untold for a statement whose parameter ?4 is the namespace.
var untoldMany = strings.Replace(untold, "runs.namespace", "?4", 1)

// tells returns the form of a statement that sets told, for which the triggers of limits and of changes fire. Each statement
// that changes the status, the time, the lease, the pin or the limits of runs sets it, unless it has the condition
// untold, or the triggers would do nothing: a claim of runs that wait for no permit, and the renewal of a lease.
func tells(sql string) string {
	return strings.Replace(sql, "UPDATE runs SET ", "UPDATE runs SET told=NULL, ", 1)
}

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
