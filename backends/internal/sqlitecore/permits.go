package sqlitecore

import (
	"github.com/pawlhq/pawl/backends/internal/sqlkit"
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
