package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// The following statements count and close groups of children. Each begins at a run that the same
// write has made final or canceling; the run's stamp identifies it.
var (
	// countFinal counts a final child in its parent's group.
	countFinal = sqlkit.Text(`UPDATE groups SET open=open-1, completed=completed+?, failed=failed+?, canceled=canceled+?
		WHERE (run_id, name)=(SELECT parent, grp FROM runs WHERE id=? AND stamp=? AND status>={final})`)

	// wakeAwaiting wakes the parent if a group that its sleep awaits has met its condition. The
	// await of an older sleep does not count, because the epoch has increased since.
	wakeAwaiting = sqlkit.Text(`UPDATE runs SET told=NULL, events=events+1, wakes=wakes & ~{wakeChildren}, visible_at=min(coalesce(visible_at, ?), ?)
		WHERE id=(SELECT parent FROM runs WHERE id=? AND stamp=? AND status>={final})` + wakeIf)
	wakeIf = sqlkit.Text(` AND status IN ({sleeping},{paused}) AND wakes & {wakeChildren}
		AND EXISTS (SELECT 1 FROM groups g WHERE g.run_id=runs.id AND g.armed=runs.epoch
			AND (g.open<=g.wake_open OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))
		RETURNING id, queue, status`)

	// countMany and wakeMany do the same for many final children, those of a table whose third
	// column is their stamp. Parents are woken according to the state of their groups after all of
	// the children.
	countMany = sqlkit.Text(`UPDATE groups SET open=open-t.n, completed=completed+t.done, failed=failed+t.lost
		FROM (SELECT r.parent, r.grp, count(*) AS n, sum(r.status={completed}) AS done, sum(r.status={failed}) AS lost FROM json_each(?1) j
			CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.stamp=j.value->>2 AND r.status>={final} AND r.grp IS NOT NULL GROUP BY 1, 2) t
		WHERE groups.run_id=t.parent AND groups.name=t.grp`)
	wakeMany = sqlkit.Text(`UPDATE runs SET told=NULL, events=events+1, wakes=wakes & ~{wakeChildren}, visible_at=min(coalesce(visible_at, ?2), ?2)
		WHERE id IN (SELECT r.parent FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.stamp=j.value->>2
			AND r.status>={final} AND r.parent IS NOT NULL)` + wakeIf)

	// The tree contains the runs that are canceled with their ancestor: all generations of children
	// with CloseCancel. Runs that no worker holds become final if they have recorded nothing or are
	// ended by force. The others become canceling, and claimable at once unless they are leased. A
	// run that was already canceling has canceled its own children before. ?1 and ?2 say where the
	// tree begins, ?3 is the run that is ended by force, ?4 is the failure of run ?1, ?5 the
	// failure of the others, ?6 the time, ?7 the stamp.
	childrenBelow = sqlkit.Text(`
		UNION SELECT c.id FROM tree CROSS JOIN runs c ON c.parent=tree.id WHERE c.parent IS NOT NULL AND c.on_close={closeCancel} AND c.status<{final} AND c.status<>{canceling})
		`)
	staysOpen = sqlkit.Text(`runs.leased OR runs.started_at IS NOT NULL AND runs.parts & {partSteps} AND runs.id IS NOT ?3 AND EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id)`)
	endTree   = sqlkit.Text(childrenBelow + `UPDATE runs SET (status, finished_at, visible_at, events) = (SELECT iif(open, {canceling}, {canceled}), iif(open, NULL, ?6),
				CASE WHEN leased THEN visible_at WHEN open THEN min(coalesce(visible_at, ?6), ?6) END, events+open
			FROM (SELECT ` + staysOpen + ` AS open)),
			failure=iif(id=?1, ?4, ?5), pausing=0, stamp=?7, told=NULL, step_under=CASE WHEN leased THEN step_under END, limited=leased=0 AND under IS NOT NULL
		WHERE id IN (SELECT id FROM tree) RETURNING id, status, queue, workflow, leased`)
	// countEnds counts the runs that end in the groups of their parents. It must run before
	// endTree, because it finds the runs of the tree by their status before they are final.
	countEnds = childrenBelow + `UPDATE groups SET open=open-t.n, canceled=canceled+t.n
		FROM (SELECT runs.parent, runs.grp, count(*) AS n FROM tree CROSS JOIN runs ON runs.id=tree.id
			WHERE runs.grp IS NOT NULL AND NOT (` + staysOpen + `) GROUP BY 1, 2) t
		WHERE groups.run_id=t.parent AND groups.name=t.grp`

	canceledRun = sqlkit.Text(`WITH RECURSIVE tree(id) AS (SELECT id FROM runs WHERE id=?1 AND namespace=?2 AND status<{final} AND status<>{canceling}`)
	leftBehind  = sqlkit.Text(`WITH RECURSIVE tree(id) AS (SELECT c.id FROM runs p CROSS JOIN runs c ON c.parent=p.id
		WHERE p.id=?1 AND p.stamp=?2 AND p.status>={final} AND c.parent IS NOT NULL AND c.on_close={closeCancel} AND c.status<{final} AND c.status<>{canceling}`)
	cancelTree    = canceledRun + endTree
	countCanceled = canceledRun + countEnds
	closeTree     = leftBehind + endTree
	countLeft     = leftBehind + countEnds
)

func wakeParent(run []byte, stamp, now int64, unneeded func() bool, h *sqlkit.Hints) Stmt {
	return Stmt{SQL: wakeAwaiting, Args: []any{now, now, run, stamp}, Unneeded: unneeded, Rows: h.ParentRows}
}

// closeChildren cancels the children that a final run leaves behind.
func closeChildren(run []byte, stamp, now int64, unneeded func() bool, h *sqlkit.Hints, ended *[]store.RunCount) []Stmt {
	return []Stmt{
		{SQL: countLeft, Args: []any{run, stamp, nil}, Unneeded: unneeded},
		{SQL: closeTree, Args: []any{run, stamp, nil, nil, sqlkit.CanceledWithParent, now, stamp}, Unneeded: unneeded, Rows: h.TreeRows(ended)},
	}
}

// listChildren omits the large columns of the children beyond ?4 bytes.
var listChildren = bounded(`SELECT r.id, r.ordinal AS place, `+outputLength+`+`+failureLength+` AS size FROM runs r
	WHERE r.parent=?1 AND r.parent IS NOT NULL AND r.grp=?2 AND r.ordinal>?3 AND r.namespace=?5 ORDER BY r.ordinal LIMIT ?6+0`, "NULL", "NULL")

// Children implements store.Runs.
func (c *Core) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	if err := p.Validate(); err != nil {
		return store.ChildPage{}, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	err := c.read(ctx, Stmt{
		SQL: listChildren, Args: []any{p.Parent[:], p.Group, p.After, sqlkit.AtMost(p.MaxBytes), p.Namespace, int64(limit)}, Rows: appendWhole(&runs),
	})
	return p.PageOf(runs), err
}
