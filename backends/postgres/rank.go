package postgres

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

const (
	placeOf = `SELECT queue, workflow, priority, visible_at, visible_at IS NOT NULL AND status<>4 AND visible_at<=` + now + `
		FROM pawl.runs WHERE id=$2::uuid AND namespace=$3::text`
	// Each lane is read up to the place of the run or to what is due, and no further than
	// is counted.
	countAhead = `SELECT count(*) FROM (SELECT 1 FROM pawl.lanes l CROSS JOIN LATERAL (
			SELECT 1 FROM pawl.runs x WHERE x.namespace=l.namespace AND x.queue=l.queue AND x.workflow=l.workflow AND x.priority=l.priority
			AND x.visible_at IS NOT NULL AND x.status<>4 AND x.visible_at<=CASE WHEN l.priority=$5::bigint THEN $6::bigint ELSE ` + now + ` END
			AND (l.priority>$5::bigint OR x.visible_at<$6::bigint OR x.id<$7::uuid) LIMIT $8::bigint) c
		WHERE l.namespace=$2::text AND l.queue=$3::text AND l.workflow=$4::text AND l.priority>=$5::bigint LIMIT $8::bigint) a`
)

// Ahead implements store.Ranker.
func (s *Store) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	var queue, workflow string
	var priority int16
	var visible *int64
	var due *bool
	found := false
	err := s.read(ctx, stmt{sql: placeOf, args: []any{setNow(p.Now), uuid(p.Run), p.Namespace}, rows: func(scan func(...any) error) error {
		found = true
		return scan(&queue, &workflow, &priority, &visible, &due)
	}})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, notFound("run %v", p.Run)
	case due == nil || !*due:
		return 0, nil
	}
	var n int64
	err = s.read(ctx, stmt{
		sql:  countAhead,
		args: []any{setNow(p.Now), p.Namespace, queue, workflow, int64(priority), *visible, uuid(p.Run), int64(store.MaxAhead + 1)}, rows: one(&n),
	})
	return int(n), err
}
