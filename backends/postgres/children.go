package postgres

import "github.com/pawlhq/pawl/store"

// What follows counts and closes families. Whoever ends or cancels a run first
// locks it with its parent: so a group is counted and awaited by one at a time.
const (
	// OFFSET keeps the planner from reading all children there are, which is cheap
	// only where they are few. So does uuid_send: the index of those that follow their
	// parent is the only one of that expression, where a plan that was made for a
	// small table would keep to the one of all children.
	childrenOf = `UNION SELECT c.id FROM tree CROSS JOIN LATERAL (SELECT x.id FROM pawl.runs x WHERE uuid_send(x.parent)=uuid_send(tree.id)
			AND x.parent IS NOT NULL AND x.on_close=0 AND x.status<6 AND x.status<>5 OFFSET 0) c`

	family = `WITH RECURSIVE own(id) AS (SELECT unnest($1::uuid[])), tree(id) AS (SELECT id FROM own
		` + childrenOf + `)
		`
	familyIDs = `SELECT id FROM tree
		UNION SELECT o.parent FROM own CROSS JOIN pawl.runs o WHERE o.id = ANY(ARRAY[own.id]) AND o.parent IS NOT NULL`

	// lockFamily locks runs ($1), their parents and what is canceled with them.
	lockFamily = family + `SELECT r.id FROM pawl.runs r WHERE r.id = ANY(ARRAY(` + familyIDs + `)) ORDER BY r.id FOR NO KEY UPDATE`

	// lockBatch locks other runs ($2) in the same order; it has exactly one row.
	lockBatch = `SELECT count(*)>=0 FROM (` + family + `SELECT r.id FROM pawl.runs r WHERE r.id = ANY(ARRAY(` + familyIDs + `
		UNION SELECT unnest($2::uuid[]))) ORDER BY r.id FOR NO KEY UPDATE) l`

	// countFinal counts a final child ($1, stamp $2) in its parent's group.
	countFinal = `UPDATE pawl.groups g SET open=g.open-1, completed=g.completed+(c.status=6)::int, failed=g.failed+(c.status=7)::int,
			canceled=g.canceled+(c.status=8)::int
		FROM pawl.runs c WHERE c.id=$1::uuid AND c.stamp=$2::bigint AND c.status>=6
			AND g.run_id = ANY(ARRAY[c.parent]) AND g.name = ANY(ARRAY[c.grp])`

	// wakeParents wakes the parent of a final run ($2, stamp $3) if a group that
	// its sleep awaits has come far enough. An older sleep's await does not count:
	// the epoch has grown since.
	wakeParents = wake + `r.id=(SELECT parent FROM pawl.runs WHERE id=$2::uuid AND stamp=$3::bigint AND status>=6)` + wakeIf
	wake        = `UPDATE pawl.runs r SET events=r.events+1, wakes=r.wakes & ~4, visible_at=least(r.visible_at, ` + now + `)
		WHERE `
	wakeIf = `
		AND r.status IN (3,4) AND (r.wakes & 4)<>0
		AND EXISTS (SELECT 1 FROM pawl.groups g WHERE g.run_id=r.id AND g.armed=r.epoch
			AND (g.open<=g.wake_open OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))
		RETURNING r.id, r.queue, r.status`

	// countMany and wakeMany are the same for many final children ($1 or $2) that bear one
	// stamp: parents are woken by what all of them make of their groups.
	countMany = `UPDATE pawl.groups g SET open=g.open-c.n, completed=g.completed+c.completed, failed=g.failed+c.failed, canceled=g.canceled+c.canceled
		FROM (SELECT r.parent, r.grp, count(*) AS n, count(*) FILTER (WHERE r.status=6) AS completed, count(*) FILTER (WHERE r.status=7) AS failed,
				count(*) FILTER (WHERE r.status=8) AS canceled
			FROM unnest($1::uuid[]) t(id) CROSS JOIN LATERAL (SELECT x.parent, x.grp, x.status FROM pawl.runs x
				WHERE x.id=t.id AND x.stamp=$2::bigint AND x.status>=6 AND x.grp IS NOT NULL OFFSET 0) r GROUP BY 1, 2) c
		WHERE g.run_id = ANY(ARRAY[c.parent]) AND g.name = ANY(ARRAY[c.grp])`
	wakeMany = wake + `r.id = ANY(ARRAY(SELECT x.parent FROM unnest($2::uuid[]) t(id) CROSS JOIN LATERAL (SELECT y.parent FROM pawl.runs y
			WHERE y.id=t.id AND y.stamp=$3::bigint AND y.status>=6 AND y.parent IS NOT NULL OFFSET 0) x))` + wakeIf

	// The tree holds the runs that are canceled with their ancestor: children by
	// CloseCancel, through all generations. Those that no worker holds and that have
	// recorded nothing, or are ended by force, are final; each counts in its parent's
	// group. The others are canceling, and claimable at once unless they are leased. A
	// run that is canceling has canceled its own before.
	treeBelow = `
		` + childrenOf + `),
		done AS (UPDATE pawl.runs r SET pausing=false, (status, finished_at, visible_at, events) = (SELECT CASE WHEN f.open THEN 5 ELSE 8 END,
				CASE WHEN NOT f.open THEN ` + now + ` END,
				CASE WHEN r.leased THEN r.visible_at WHEN f.open THEN least(r.visible_at, ` + now + `) END, r.events+f.open::int
			FROM (SELECT r.leased OR r.started_at IS NOT NULL AND r.parts & 1 <> 0 AND `
	treeOpen = ` AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id) AS open OFFSET 0) f), `
	treeDone = ` WHERE r.id = ANY(ARRAY(SELECT id FROM tree ORDER BY id)) AND r.status<6 AND r.status<>5
			RETURNING r.id, r.status, r.queue, r.workflow, r.parent, r.grp, r.leased),
		counted AS (UPDATE pawl.groups g SET open=g.open-t.n, canceled=g.canceled+t.n
			FROM (SELECT d.parent, d.grp, count(*) AS n FROM done d WHERE d.status=8 AND d.grp IS NOT NULL GROUP BY 1, 2) t
			WHERE g.run_id = ANY(ARRAY[t.parent]) AND g.name = ANY(ARRAY[t.grp]))
		SELECT id, status, queue, workflow, leased FROM done`

	// cancelTree cancels a run ($2) of a namespace ($3) and those below it: the
	// failure of the run ($4), of the others ($5), the stamp ($6), whether by force ($7).
	cancelTree = `WITH RECURSIVE tree(id) AS (SELECT id FROM pawl.runs
		WHERE id=$2::uuid AND namespace=$3::text AND status<6 AND status<>5` + treeBelow + `NOT ($7::bool AND r.id=$2::uuid)` + treeOpen +
		`failure=CASE WHEN r.id=$2::uuid THEN $4::text ELSE $5::text END, stamp=$6::bigint` + treeDone

	// closeTree cancels those below a final run ($2, stamp $4), with a failure ($3).
	closeTree = `WITH RECURSIVE tree(id) AS (SELECT c.id FROM pawl.runs p CROSS JOIN LATERAL (
			SELECT x.id FROM pawl.runs x WHERE uuid_send(x.parent)=uuid_send(p.id)
			AND x.parent IS NOT NULL AND x.on_close=0 AND x.status<6 AND x.status<>5 OFFSET 0) c
		WHERE p.id=$2::uuid AND p.stamp=$4::bigint AND p.status>=6` + treeBelow + `true` + treeOpen +
		`failure=$3::text, stamp=$4::bigint` + treeDone
)

var canceledWithParent = failure(&store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})

// wakeRows hints at what wakeParents woke.
func wakeRows(h *hints) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue string
		var status int16
		if err := scan(scanID(&id), &queue, &status); err != nil {
			return err
		}
		h.event(id)
		if store.Status(status) == store.Sleeping {
			h.queue(queue)
		}
		return nil
	}
}

// treeRows hints at what became of the runs of a tree, and counts those that ended.
func treeRows(h *hints, ended *[]store.RunCount) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue, workflow string
		var status int16
		var leased bool
		if err := scan(scanID(&id), &status, &queue, &workflow, &leased); err != nil {
			return err
		}
		if store.Status(status).Final() {
			h.final(id)
			*ended = store.Tally(*ended, queue, workflow, store.Status(status), 1)
			return nil
		}
		h.event(id)
		if !leased { // it is to be claimed
			h.queue(queue)
		}
		return nil
	}
}
