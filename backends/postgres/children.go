package postgres

import "github.com/pawlhq/pawl/store"

const (
	// belowOf are the runs that are canceled with their ancestor: children by
	// CloseCancel, through all generations. A run that is canceling has canceled its
	// own before.
	belowOf = ` UNION SELECT c.id FROM tree JOIN pawl.runs c ON c.parent = ANY(ARRAY[tree.id])
		WHERE c.parent IS NOT NULL AND c.on_close=0 AND c.status<6 AND c.status<>5`

	// lockFamily locks runs, their parents and all that would be canceled with them,
	// in the order of ids. $1: the ids.
	lockFamily = `SELECT r.id FROM pawl.runs r WHERE r.id = ANY(ARRAY(
		WITH RECURSIVE tree(id) AS (SELECT unnest($1::text[]::uuid[])` + belowOf + `)
		SELECT id FROM tree UNION SELECT p.parent FROM pawl.runs p WHERE p.id = ANY($1::text[]::uuid[]) AND p.parent IS NOT NULL))
		ORDER BY r.id FOR NO KEY UPDATE`

	// countFinal counts a child that $2's commit with stamp $3 has made final.
	countFinal = `UPDATE pawl.groups g SET open=g.open-1, completed=g.completed+(r.status=6)::int, failed=g.failed+(r.status=7)::int,
			canceled=g.canceled+(r.status=8)::int
		FROM pawl.runs r WHERE r.id=$1::text::uuid AND r.stamp=$2::bigint AND r.status>=6 AND r.grp IS NOT NULL
		AND g.run_id=r.parent AND g.name=r.grp`

	// wakeParents wakes the parent of a final run if a group that its sleep awaits has
	// come far enough. An older sleep's await does not count: the epoch has grown.
	wakeParents = `UPDATE pawl.runs r SET events=r.events+1, wakes=r.wakes & ~4::smallint, visible_at=least(coalesce(r.visible_at, ` + now + `), ` + now + `)
		WHERE r.id = ANY(ARRAY(SELECT c.parent FROM pawl.runs c WHERE c.id=$2::text::uuid AND c.stamp=$3::bigint AND c.status>=6 AND c.parent IS NOT NULL))
		AND r.status IN (3,4) AND r.wakes & 4 <> 0 AND EXISTS (SELECT 1 FROM pawl.groups g WHERE g.run_id=r.id AND g.armed=r.epoch
			AND (g.open<=g.wake_open OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))
		RETURNING r.id, r.queue, r.status`

	// endTree cancels the runs in tree and counts those that are final by it in their
	// parents' groups.
	endTree = `, u AS (UPDATE pawl.runs r SET status=CASE WHEN r.leased THEN 5 ELSE 8 END,
			failure=CASE WHEN r.id=$2::text::uuid THEN $4::text ELSE $5::text END,
			finished_at=CASE WHEN NOT r.leased THEN ` + now + ` END, visible_at=CASE WHEN r.leased THEN r.visible_at END,
			pausing=false, events=r.events+r.leased::int, stamp=$6::bigint
		WHERE r.id = ANY(ARRAY(SELECT id FROM tree)) RETURNING r.id, r.status, r.queue, r.parent, r.grp),
	counted AS (UPDATE pawl.groups g SET open=g.open-t.n, canceled=g.canceled+t.n
		FROM (SELECT parent, grp, count(*) AS n FROM u WHERE status=8 AND grp IS NOT NULL GROUP BY 1, 2) t
		WHERE g.run_id = ANY(ARRAY[t.parent]) AND g.name=t.grp)
	SELECT id, status, queue FROM u`

	// cancelTree: $1 now, $2 the root, $3 namespace, $4 its failure, $5 that of the
	// others, $6 stamp.
	cancelTree = `WITH RECURSIVE tree(id) AS (SELECT x.id FROM pawl.runs x WHERE x.id=$2::text::uuid AND x.namespace=$3::text AND x.status<6 AND x.status<>5` +
		belowOf + `)` + endTree
	// closeTree is the same for what a final run of stamp $6 leaves behind.
	closeTree = `WITH RECURSIVE tree(id) AS (SELECT c.id FROM pawl.runs p JOIN pawl.runs c ON c.parent = ANY(ARRAY[p.id])
			WHERE p.id=$2::text::uuid AND p.namespace=$3::text AND p.stamp=$6::bigint AND p.status>=6 AND c.parent IS NOT NULL AND c.on_close=0
			AND c.status<6 AND c.status<>5` + belowOf + `)` + endTree
)

var canceledWithParent = failure(&store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})

// treeRows hints at what became of the runs of a tree.
func treeRows(h *hints) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue string
		var status int16
		err := scan(scanID(&id), &status, &queue)
		if store.Status(status).Final() {
			h.final(id)
		} else {
			h.event(id)
		}
		return err
	}
}

// wakeRows hints at parents that were woken.
func wakeRows(h *hints) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue string
		var status int16
		err := scan(scanID(&id), &queue, &status)
		h.event(id)
		if store.Status(status) == store.Sleeping {
			h.queue(queue)
		}
		return err
	}
}
