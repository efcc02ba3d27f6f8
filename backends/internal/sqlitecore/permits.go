package sqlitecore

import (
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
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
