package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

const (
	placeOf = `SELECT queue, workflow, priority, visible_at FROM runs
		WHERE id=? AND namespace=? AND visible_at IS NOT NULL AND status<>4 AND visible_at<=?`
	// Each priority in use is read up to the place of the run or to what is due, and no
	// further than is counted.
	countAhead = `WITH RECURSIVE level(priority) AS (SELECT ?4 UNION ALL SELECT (SELECT min(r.priority) FROM runs r
			WHERE r.namespace=?1 AND r.queue=?2 AND r.workflow=?3 AND r.priority>level.priority AND r.visible_at IS NOT NULL AND r.status<>4)
			FROM level WHERE level.priority IS NOT NULL)
		SELECT count(*) FROM (SELECT 1 FROM level CROSS JOIN runs r
			WHERE r.namespace=?1 AND r.queue=?2 AND r.workflow=?3 AND r.priority=level.priority AND r.visible_at IS NOT NULL AND r.status<>4
			AND r.visible_at<=iif(level.priority=?4, ?5, ?6) AND (level.priority>?4 OR r.visible_at<?5 OR r.id<?7) LIMIT ?8)`
)

// Ahead implements store.Ranker.
func (c *Core) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return 0, err
	}
	var queue, workflow string
	var priority, visible int64
	found, due := false, false
	err = c.read(ctx, exists1(p.Namespace, p.Run, &found), Stmt{
		SQL: placeOf, Args: []any{p.Run[:], p.Namespace, now},
		Rows: func(scan func(...any) error) error {
			due = true
			return scan(&queue, &workflow, &priority, &visible)
		},
	})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, notFound("run %v", p.Run)
	case !due:
		return 0, nil
	}
	var n int64
	err = c.read(ctx, Stmt{
		SQL:  countAhead,
		Args: []any{p.Namespace, queue, workflow, priority, visible, now, p.Run[:], int64(store.MaxAhead + 1)}, Rows: one(&n),
	})
	return int(n), err
}
