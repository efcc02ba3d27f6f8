package sqlkit

import (
	"context"
	"math"
	"strconv"

	"github.com/pawlhq/pawl/store"
)

var treeRun = NewQuery("tree: run", `SELECT r.status, r.started_at, r.finished_at, :now FROM pawl.runs r WHERE r.id=:run AND r.namespace=:namespace`)

// countTree finds the inner runs of a tree level by level, up to one more than may be looked at, and sums up the
// groups of those that may. A level is that of the children that the groups count. UNION ends a walk
// through imported runs that are each other's parents. PostgreSQL must not read the tables as a whole,
// whatever their statistics say.
var countTree = newQuery("tree", [dialects]string{
	`WITH RECURSIVE tree(id, level) AS (SELECT :run, CAST(1 AS bigint) UNION SELECT c.run_id, least(tree.level+1, ` + maxTreeLevels + `) FROM tree CROSS JOIN LATERAL (
			SELECT i.run_id FROM pawl.inner_runs i WHERE i.parent=tree.id
			AND (SELECT r.grp IS NOT NULL AND r.namespace=:namespace FROM pawl.runs r WHERE r.id=i.run_id) OFFSET 0) c),
		looked AS MATERIALIZED (SELECT t.id, t.level, row_number() OVER (ORDER BY t.level) AS place FROM (SELECT id, level FROM tree LIMIT :limit) t)
		SELECT l.level, max(l.place)=:limit, CAST(coalesce(sum(s.total), 0) AS bigint), CAST(coalesce(sum(s.open), 0) AS bigint), CAST(coalesce(sum(s.completed), 0) AS bigint), CAST(coalesce(sum(s.failed), 0) AS bigint), CAST(coalesce(sum(s.canceled), 0) AS bigint)
		FROM looked l LEFT JOIN LATERAL (SELECT g.total, g.open, g.completed, g.failed, g.canceled FROM pawl.groups g WHERE g.run_id=l.id AND l.place<:limit OFFSET 0) s ON true
		GROUP BY l.level ORDER BY l.level`,
	`WITH RECURSIVE tree(id, level) AS (SELECT :run, 1 UNION SELECT i.run_id, min(tree.level+1, ` + maxTreeLevels + `) FROM tree
			CROSS JOIN inner_runs i ON i.parent=tree.id CROSS JOIN runs r ON r.id=i.run_id WHERE r.grp IS NOT NULL AND r.namespace=:namespace LIMIT :limit),
		looked AS MATERIALIZED (SELECT id, level, row_number() OVER (ORDER BY level) AS place FROM tree)
		SELECT looked.level, max(looked.place)=:limit, coalesce(sum(g.total), 0), coalesce(sum(g.open), 0), coalesce(sum(g.completed), 0), coalesce(sum(g.failed), 0), coalesce(sum(g.canceled), 0)
		FROM looked LEFT JOIN groups g ON g.run_id=looked.id AND looked.place<:limit GROUP BY looked.level ORDER BY looked.level`,
})

var maxTreeLevels = strconv.Itoa(store.MaxTreeLevels)

// Tree implements store.TreeReader.
func (v Verbs) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return store.Tree{}, err
	}
	var t store.Tree
	args := Args{{"now", now}, {"run", p.Run}, {"namespace", p.Namespace}, {"limit", int64(min(p.Scan(), math.MaxInt32)) + 2}}
	count := countTree.stmt(v.db, args, func(scan Scan) error {
		var level int64
		var last bool
		var c store.TreeCounts
		err := scan(&level, &last, &c.Total, &c.Open, &c.Completed, &c.Failed, &c.Canceled)
		t.Count(int(level), c)
		t.Capped = t.Capped || last
		return err
	})
	count.Unneeded = func() bool { return t.Status == 0 }
	err = v.db.Read(ctx, treeRun.stmt(v.db, args, One(&t.Status, Time(&t.StartedAt), Time(&t.FinishedAt), Time(&t.At))), count)
	switch {
	case err != nil:
		return store.Tree{}, err
	case t.Status == 0:
		return store.Tree{}, NotFound("run %v", p.Run)
	}
	return t, nil
}

// NotCounted is a condition on a run, r, for its purge: it has no groups that the tree of a run includes that is
// not final.
func NotCounted(r string) string {
	return Text(`(NOT EXISTS (SELECT 1 FROM pawl.inner_runs i WHERE i.run_id=` + r + `.id) OR NOT EXISTS (
		WITH RECURSIVE above(id) AS (SELECT ` + r + `.parent WHERE ` + r + `.grp IS NOT NULL UNION SELECT a.parent FROM above JOIN pawl.runs a ON a.id=above.id WHERE a.parent IS NOT NULL AND a.grp IS NOT NULL)
		SELECT 1 FROM above JOIN pawl.runs a ON a.id=above.id WHERE a.status<{final}))`)
}
