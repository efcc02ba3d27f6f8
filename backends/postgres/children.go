package postgres

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// These statements count and close groups of children. A transaction that ends or cancels a run
// first locks the run and its parent, so that only one transaction at a time counts or awaits a
// group.
var (
	// OFFSET keeps the planner from reading all children, which is cheap only if they are
	// few. So does uuid_send: only the index of children that follow their parent has
	// that expression, whereas a plan made for a small table would keep using the index
	// of all children.
	childrenOf = sqlkit.Text(`UNION SELECT c.id FROM tree CROSS JOIN LATERAL (SELECT x.id FROM pawl.runs x WHERE uuid_send(x.parent)=uuid_send(tree.id)
			AND x.parent IS NOT NULL AND x.on_close={closeCancel} AND x.status<{final} AND x.status<>{canceling} OFFSET 0) c`)

	family = `WITH RECURSIVE own(id) AS (SELECT unnest($1::uuid[])), tree(id) AS (SELECT id FROM own
		` + childrenOf + `)
		`
	familyIDs = `SELECT id FROM tree
		UNION SELECT o.parent FROM own CROSS JOIN pawl.runs o WHERE o.id = ANY(ARRAY[own.id]) AND o.parent IS NOT NULL`

	// lockFamily locks runs ($1), their parents, and the runs that are canceled with them. For
	// the runs themselves, see keepLocked.
	lockFamily = family + `SELECT ` + keepLocked + ` FROM (SELECT r.id FROM pawl.runs r WHERE r.id = ANY(ARRAY(` + familyIDs + `)) ORDER BY r.id FOR NO KEY UPDATE) l`

	// lockBatch locks other runs ($2) in the same order; it always returns one row.
	lockBatch = `SELECT count(*)>=0 FROM (` + family + `SELECT r.id FROM pawl.runs r WHERE r.id = ANY(ARRAY(` + familyIDs + `
		UNION SELECT unnest($2::uuid[]))) ORDER BY r.id FOR NO KEY UPDATE) l`

	// countFinal counts a final child ($1, stamp $2) in its parent's group.
	countFinal = sqlkit.Text(`UPDATE pawl.groups g SET open=g.open-1, completed=g.completed+(c.status={completed})::int, failed=g.failed+(c.status={failed})::int,
			canceled=g.canceled+(c.status={canceled})::int
		FROM pawl.runs c WHERE c.id=$1::uuid AND c.stamp=$2::bigint AND c.status>={final}
			AND g.run_id = ANY(ARRAY[c.parent]) AND g.name = ANY(ARRAY[c.grp])`)

	// wakeParents wakes the parent of a final run ($2, stamp $3) if a group that its sleep awaits
	// has met its condition. The await of an older sleep does not count, because the epoch has
	// increased since.
	wakeParents = sqlkit.Text(wake + `r.id=(SELECT parent FROM pawl.runs WHERE id=$2::uuid AND stamp=$3::bigint AND status>={final})` + wakeIf)
	wake        = sqlkit.Text(`UPDATE pawl.runs r SET events=r.events+1, wakes=r.wakes & ~{wakeChildren}, visible_at=least(r.visible_at, ` + now + `)
		WHERE `)
	wakeIf = sqlkit.Text(`
		AND r.status IN ({sleeping},{paused}) AND (r.wakes & {wakeChildren})<>0
		AND EXISTS (SELECT 1 FROM pawl.groups g WHERE g.run_id=r.id AND g.armed=r.epoch
			AND (g.open<=g.wake_open OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))
		RETURNING r.id, r.queue, r.status`)

	// countMany and wakeMany are the same for many final children ($1 or $2) with one
	// stamp: parents are woken by the combined effect on their groups.
	countMany = sqlkit.Text(`UPDATE pawl.groups g SET open=g.open-c.n, completed=g.completed+c.completed, failed=g.failed+c.failed, canceled=g.canceled+c.canceled
		FROM (SELECT r.parent, r.grp, count(*) AS n, count(*) FILTER (WHERE r.status={completed}) AS completed, count(*) FILTER (WHERE r.status={failed}) AS failed,
				count(*) FILTER (WHERE r.status={canceled}) AS canceled
			FROM unnest($1::uuid[]) t(id) CROSS JOIN LATERAL (SELECT x.parent, x.grp, x.status FROM pawl.runs x
				WHERE x.id=t.id AND x.stamp=$2::bigint AND x.status>={final} AND x.grp IS NOT NULL OFFSET 0) r GROUP BY 1, 2) c
		WHERE g.run_id = ANY(ARRAY[c.parent]) AND g.name = ANY(ARRAY[c.grp])`)
	wakeMany = sqlkit.Text(wake + `r.id = ANY(ARRAY(SELECT x.parent FROM unnest($2::uuid[]) t(id) CROSS JOIN LATERAL (SELECT y.parent FROM pawl.runs y
			WHERE y.id=t.id AND y.stamp=$3::bigint AND y.status>={final} AND y.parent IS NOT NULL OFFSET 0) x))` + wakeIf)

	// The tree is the set of runs that are canceled with their ancestor: children with
	// CloseCancel, in all generations. Runs that no worker holds and that have recorded
	// nothing, or that are ended by force, become final; each counts in its parent's
	// group. The others become canceling, and claimable at once unless they are leased. A
	// run that is already canceling has canceled its own children before.
	treeBelow = sqlkit.Text(`
		` + childrenOf + `),
		done AS (UPDATE pawl.runs r SET pausing=false, step_under=CASE WHEN r.leased THEN r.step_under END,
			flow=CASE WHEN r.leased OR r.step_under IS NULL THEN r.flow ELSE ` + flowOf(`r.`, `r.under`, `NULL`, `r.taken`) + ` END, (status, finished_at, visible_at, events) = (SELECT CASE WHEN f.open THEN {canceling} ELSE {canceled} END,
				CASE WHEN NOT f.open THEN ` + now + ` END,
				CASE WHEN r.leased THEN r.visible_at WHEN f.open THEN least(r.visible_at, ` + now + `) END, r.events+f.open::int
			FROM (SELECT r.leased OR r.started_at IS NOT NULL AND r.parts & {partSteps} <> 0 AND `)
	// A run that was created or spawned while the locks were taken is not locked: a
	// commit may change it while the statement runs. The statement does not see its
	// records then, only that the row has changed; such a run is assumed to have records.
	treeOpen = ` AND (EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)
			OR NOT EXISTS (SELECT 1 FROM pawl.runs x WHERE x.id=r.id AND x.ctid=r.ctid)) AS open OFFSET 0) f), `
	treeDone = sqlkit.Text(` WHERE r.id = ANY(ARRAY(SELECT id FROM tree ORDER BY id)) AND r.status<{final} AND r.status<>{canceling}
			RETURNING r.id, r.status, r.queue, r.workflow, r.parent, r.grp, r.leased),
		counted AS (UPDATE pawl.groups g SET open=g.open-t.n, canceled=g.canceled+t.n
			FROM (SELECT d.parent, d.grp, count(*) AS n FROM done d WHERE d.status={canceled} AND d.grp IS NOT NULL GROUP BY 1, 2) t
			WHERE g.run_id = ANY(ARRAY[t.parent]) AND g.name = ANY(ARRAY[t.grp]))
		SELECT id, status, queue, workflow, leased FROM done`)

	// cancelTree cancels a run ($2) of a namespace ($3) and those below it: the failure
	// of the run ($4), of the others ($5), the stamp ($6), whether by force ($7).
	cancelTree = sqlkit.Text(`WITH RECURSIVE tree(id) AS (SELECT id FROM pawl.runs
		WHERE id=$2::uuid AND namespace=$3::text AND status<{final} AND status<>{canceling} AND ` + isLocked + treeBelow + `NOT ($7::bool AND r.id=$2::uuid)` + treeOpen +
		`failure=CASE WHEN r.id=$2::uuid THEN $4::text ELSE $5::text END, stamp=$6::bigint` + treeDone)

	// closeTree cancels those below a final run ($2, stamp $4), with a failure ($3).
	closeTree = sqlkit.Text(`WITH RECURSIVE tree(id) AS (SELECT c.id FROM pawl.runs p CROSS JOIN LATERAL (
			SELECT x.id FROM pawl.runs x WHERE uuid_send(x.parent)=uuid_send(p.id)
			AND x.parent IS NOT NULL AND x.on_close={closeCancel} AND x.status<{final} AND x.status<>{canceling} OFFSET 0) c
		WHERE p.id=$2::uuid AND p.stamp=$4::bigint AND p.status>={final}` + treeBelow + `true` + treeOpen +
		`failure=$3::text, stamp=$4::bigint` + treeDone)
)

// listChildren omits the payloads of the children beyond $6 bytes. It orders only by the
// ordinal, as the index runs_parent does: with a second sort column, the server reads all
// children for each page.
var listChildren = wholeRuns(`SELECT r.*, row_number() OVER (ORDER BY r.ordinal, r.id) AS place, `+outputLength+failureLength+` AS size FROM (
	SELECT r.* FROM pawl.runs r
	WHERE r.parent = $2::uuid AND r.parent IS NOT NULL AND r.grp = $3::text AND r.ordinal > $4::bigint AND r.namespace = $1::text
	ORDER BY r.ordinal LIMIT $5::bigint) r`, noPayload, noPayload, "r.output", `$6::bigint`)

// Children implements store.Runs.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	if err := p.Validate(); err != nil {
		return store.ChildPage{}, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	err := s.read(ctx, stmt{
		sql: listChildren, args: []any{p.Namespace, uuid(p.Parent), p.Group, p.After, int64(limit), sqlkit.AtMost(p.MaxBytes)}, rows: appendWhole(&runs),
	})
	return p.PageOf(runs), err
}
