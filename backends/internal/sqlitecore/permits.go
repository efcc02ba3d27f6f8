package sqlitecore

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
)

// limitedQueue is the queue of a run that is under limits; other runs have none. The end of a lease
// under limits may let other runs go.
const limitedQueue = `CASE WHEN under IS NOT NULL OR step_under IS NOT NULL THEN queue END`

// untold is the condition of statements that change runs without setting told: no trigger has to know of it. untoldStep is
// that of statements that endPermits follows.
const (
	untold     = ` AND under IS NULL` + untoldStep
	untoldStep = ` AND step_under IS NULL AND NOT EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=runs.namespace)`
)

// untoldMany and untoldStepMany are the same for a statement whose parameter ?4 is the namespace.
var (
	untoldMany     = strings.Replace(untold, "runs.namespace", "?4", 1)
	untoldStepMany = strings.Replace(untoldStep, "runs.namespace", "?4", 1)
)

// endPermits ends the permits of runs that statements of the same write have ended without telling the triggers: ?1 the
// runs with the stamps of their commits, ?2 namespace. An end that has told them, or has passed its permits on, leaves
// drawn=0.
const endPermits = `UPDATE limit_keys SET held=held-e.n FROM (SELECT u.value->>0 AS name, u.value->>1 AS key, sum(n) AS n FROM (SELECT r.under, count(*) AS n FROM json_each(?1) j
		CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.stamp=j.value->>1 AND r.drawn=1 GROUP BY 1) lists CROSS JOIN json_each(lists.under) u GROUP BY 1, 2) e
	WHERE limit_keys.namespace=?2 AND limit_keys.name=e.name AND limit_keys.key=e.key`

// endedPermits are the commits of a write that may end runs under limits without telling the triggers.
type endedPermits []*commit

func permitsOf(list []*commit, ends func(*commit) bool) endedPermits {
	return slices.DeleteFunc(slices.Clone(list), func(b *commit) bool { return !ends(b) })
}

// end adds the statement that ends their permits.
func (e endedPermits) end(stmts []Stmt) []Stmt {
	if len(e) == 0 {
		return stmts
	}
	var runs table
	for _, b := range e {
		runs.row(b.Lease.Run, b.stamp)
	}
	return append(stmts, Stmt{SQL: endPermits, Args: []any{runs.args()[0], e[0].namespace}})
}

// tells returns the form of a statement that sets told, for which the triggers of limits and of changes fire. Each statement
// that changes the status, the time, the lease, the pin or the limits of runs sets it, unless it has the condition
// untold, other statements of the write do what the triggers would, or the triggers would do nothing: a claim of runs
// that wait for no permit, and the renewal of a lease.
func tells(sql string) string {
	return strings.Replace(sql, "UPDATE runs SET ", "UPDATE runs SET told=NULL, ", 1)
}

// beginsFresh says whether a run that is inserted is fresh: it waits for permits, and its flow has no row. The parameters are
// its limits, namespace, queue, workflow and priority. If too many fresh runs wait in the flow, a trigger gives the flow its
// row.
func beginsFresh(under, namespace, queue, workflow, priority string) string {
	return under + ` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=` + namespace + ` AND f.queue=` + queue + ` AND f.workflow=` + workflow + ` AND f.pin=''
			AND f.priority=` + priority + ` AND f.flow='[' || ` + under + ` || ',[],0]') AND NOT EXISTS (SELECT 1 FROM limits l WHERE l.namespace=` + namespace + ` AND l.fair=1)`
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
