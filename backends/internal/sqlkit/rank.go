package sqlkit

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

var placeOf = NewQuery("place of run", `SELECT r.queue, r.workflow, r.pin, r.priority, coalesce(r.visible_at, 0), r.visible_at IS NOT NULL AND r.status<>{paused} AND r.visible_at<=:now
	FROM pawl.runs r WHERE r.id=:run AND r.namespace=:namespace`)

// countAhead reads pinned runs only if the run is pinned, to the same build, because other claims do not
// take the run. It reads each priority that is in use up to the place of the run or to the present time,
// and no further than it counts. PostgreSQL lists the priorities in a table of lanes; SQLite finds one
// after the other in the index.
var countAhead = newQuery("count runs ahead", [dialects]string{
	`SELECT count(*) FROM (SELECT 1 FROM pawl.lanes l CROSS JOIN LATERAL (
			SELECT 1 FROM pawl.runs x WHERE x.namespace=l.namespace AND x.queue=l.queue AND x.workflow=l.workflow AND x.pin {in} :pins AND x.priority=l.priority
			AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.visible_at<=CASE WHEN l.priority=:priority THEN :visible ELSE :now END
			AND (l.priority>:priority OR x.visible_at<:visible OR x.id<:run) LIMIT :limit) c
		WHERE l.namespace=:namespace AND l.queue=:queue AND l.workflow=:workflow AND l.priority>=:priority LIMIT :limit) a`,
	`WITH RECURSIVE level(pin, priority) AS (SELECT value, :priority FROM json_each(:pinlist) UNION ALL SELECT pin, (SELECT min(r.priority) FROM runs r
			WHERE r.namespace=:namespace AND r.queue=:queue AND r.workflow=:workflow AND r.pin=level.pin AND r.priority>level.priority AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=0)
			FROM level WHERE level.priority IS NOT NULL)
		SELECT count(*) FROM (SELECT 1 FROM level CROSS JOIN runs r
			WHERE r.namespace=:namespace AND r.queue=:queue AND r.workflow=:workflow AND r.pin=level.pin AND r.priority=level.priority AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=0
			AND r.visible_at<=iif(level.priority=:priority, :visible, :now) AND (level.priority>:priority OR r.visible_at<:visible OR r.id<:run) LIMIT :limit)`,
})

// Ahead implements store.Ranker.
func (v Verbs) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return 0, err
	}
	var queue, workflow, pin string
	var priority, visible int64
	found, due := false, false
	err = v.read(ctx, placeOf, Args{{"now", now}, {"run", p.Run}, {"namespace", p.Namespace}}, func(scan Scan) error {
		found = true
		return scan(&queue, &workflow, &pin, &priority, &visible, &due)
	})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, NotFound("run %v", p.Run)
	case !due:
		return 0, nil
	}
	var n int64
	err = v.read(ctx, countAhead, Args{
		{"now", now}, {"namespace", p.Namespace}, {"queue", queue}, {"workflow", workflow}, {"priority", priority}, {"visible", visible},
		{"run", p.Run}, {"limit", int64(store.MaxAhead + 1)}, {"pins", Pins(pin)}, {"pinlist", JSON(Pins(pin))},
	}, One(&n))
	return int(n), err
}
