package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// What follows counts and closes families. Each statement begins at a run that
// the same write has made final or canceling, known by its stamp.
const (
	// countFinal counts a final child in its parent's group.
	countFinal = `UPDATE groups SET open=open-1, completed=completed+?, failed=failed+?, canceled=canceled+?
		WHERE (run_id, name)=(SELECT parent, grp FROM runs WHERE id=? AND stamp=? AND status>=6)`

	// wakeAwaiting wakes the parent if a group that its sleep awaits has come far
	// enough. An older sleep's await does not count: the epoch has grown since.
	wakeAwaiting = `UPDATE runs SET events=events+1, wakes=wakes & ~4, visible_at=min(coalesce(visible_at, ?), ?)
		WHERE id=(SELECT parent FROM runs WHERE id=? AND stamp=? AND status>=6)` + wakeIf
	wakeIf = ` AND status IN (3,4) AND wakes & 4
		AND EXISTS (SELECT 1 FROM groups g WHERE g.run_id=runs.id AND g.armed=runs.epoch
			AND (g.open<=g.wake_open OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))
		RETURNING id, queue, status`

	// countMany and wakeMany are the same for many final children, those of a table whose
	// third column is their stamp: parents are woken by what all make of their groups.
	countMany = `UPDATE groups SET open=open-t.n, completed=completed+t.done, failed=failed+t.lost
		FROM (SELECT r.parent, r.grp, count(*) AS n, sum(r.status=6) AS done, sum(r.status=7) AS lost FROM json_each(?1) j
			CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.stamp=j.value->>2 AND r.status>=6 AND r.grp IS NOT NULL GROUP BY 1, 2) t
		WHERE groups.run_id=t.parent AND groups.name=t.grp`
	wakeMany = `UPDATE runs SET events=events+1, wakes=wakes & ~4, visible_at=min(coalesce(visible_at, ?2), ?2)
		WHERE id IN (SELECT r.parent FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.stamp=j.value->>2
			AND r.status>=6 AND r.parent IS NOT NULL)` + wakeIf

	// The tree holds the runs that are canceled with their ancestor: children by
	// CloseCancel, through all generations. Those that no worker holds and that have
	// recorded nothing, or are ended by force (?7), are final; the others are canceling,
	// and claimable at once unless they are leased. A run that is canceling has canceled
	// its own before. ?3 is the failure of run ?1, ?4 that of the others, ?5 the time, ?6
	// the stamp.
	treeBelow = `
		UNION SELECT c.id FROM tree CROSS JOIN runs c ON c.parent=tree.id WHERE c.parent IS NOT NULL AND c.on_close=0 AND c.status<6 AND c.status<>5)
		UPDATE runs SET (status, finished_at, visible_at, events) = (SELECT iif(open, 5, 8), iif(open, NULL, ?5),
				CASE WHEN leased THEN visible_at WHEN open THEN min(coalesce(visible_at, ?5), ?5) END, events+open
			FROM (SELECT leased OR started_at IS NOT NULL AND parts & 1 AND id IS NOT ?7 AND EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id) AS open)),
			failure=iif(id=?1, ?3, ?4), pausing=0, stamp=?6
		WHERE id IN (SELECT id FROM tree) RETURNING id, status, queue, workflow, leased`
	cancelTree = `WITH RECURSIVE tree(id) AS (SELECT id FROM runs WHERE id=?1 AND namespace=?2 AND status<6 AND status<>5` + treeBelow
	closeTree  = `WITH RECURSIVE tree(id) AS (SELECT c.id FROM runs p CROSS JOIN runs c ON c.parent=p.id
		WHERE p.id=?1 AND p.stamp=?2 AND p.status>=6 AND c.parent IS NOT NULL AND c.on_close=0 AND c.status<6 AND c.status<>5` + treeBelow

	// countTree counts the canceled runs of a tree in the groups of their parents,
	// all but the one run that is counted elsewhere.
	countTree = `WITH RECURSIVE tree(id) AS (SELECT id FROM runs WHERE id=? AND stamp=?
		UNION SELECT c.id FROM tree CROSS JOIN runs c ON c.parent=tree.id WHERE c.parent IS NOT NULL AND c.stamp=?)
		UPDATE groups SET open=open-t.n, canceled=canceled+t.n
		FROM (SELECT r.parent, r.grp, count(*) AS n FROM tree CROSS JOIN runs r ON r.id=tree.id
			WHERE r.status=8 AND r.grp IS NOT NULL AND r.id<>? GROUP BY 1, 2) t
		WHERE groups.run_id=t.parent AND groups.name=t.grp`
)

var canceledWithParent = failure(&store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})

func wakeParent(run []byte, stamp, now int64, unneeded func() bool, h *hints) Stmt {
	return Stmt{SQL: wakeAwaiting, Args: []any{now, now, run, stamp}, Unneeded: unneeded, Rows: wakeRows(h)}
}

// wakeRows hints at parents that were woken.
func wakeRows(h *hints) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue string
		var status store.Status
		err := scan(scanID{&id}, &queue, &status)
		h.event(id)
		if status == store.Sleeping {
			h.queue(queue)
		}
		return err
	}
}

// treeRows hints at what became of the runs of a tree, and counts those that ended.
func treeRows(h *hints, touched *bool, ended *[]store.RunCount) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var id store.ID
		var queue, workflow string
		var status store.Status
		var leased bool
		err := scan(scanID{&id}, &status, &queue, &workflow, &leased)
		*touched = true
		if status.Final() {
			h.final(id)
			*ended = store.Tally(*ended, queue, workflow, status, 1)
			return err
		}
		h.event(id)
		if !leased { // it is to be claimed
			h.queue(queue)
		}
		return err
	}
}

// closeChildren cancels what a final run leaves behind.
func closeChildren(run []byte, stamp, now int64, unneeded func() bool, h *hints, ended *[]store.RunCount) []Stmt {
	closed := new(bool)
	return []Stmt{
		{SQL: closeTree, Args: []any{run, stamp, nil, canceledWithParent, now, stamp, nil}, Unneeded: unneeded, Rows: treeRows(h, closed, ended)},
		{SQL: countTree, Args: []any{run, stamp, stamp, run}, Unneeded: func() bool { return unneeded() || !*closed }},
	}
}

// listChildren leaves out what has a size of the children beyond ?4 bytes.
var listChildren = bounded(`SELECT r.id, r.ordinal AS place, `+outputLength+`+`+failureLength+` AS size FROM runs r
	WHERE r.parent=?1 AND r.parent IS NOT NULL AND r.grp=?2 AND r.ordinal>?3 AND r.namespace=?5 ORDER BY r.ordinal LIMIT ?6+0`, "NULL", "NULL")

// Children implements store.Runs.
func (c *Core) Children(ctx context.Context, p store.ChildrenParams) ([]store.Run, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	err := c.read(ctx, Stmt{
		SQL: listChildren, Args: []any{p.Parent[:], p.Group, p.After, atMost(p.MaxBytes), p.Namespace, int64(limit)}, Rows: appendWhole(&runs),
	})
	return runs, err
}
