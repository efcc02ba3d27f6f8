package postgres

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

const sentSignals = `SELECT pos, consumed, id, CASE WHEN consumed THEN '' ELSE name END, CASE WHEN NOT consumed THEN payload END, CASE WHEN NOT consumed THEN sent_at END
	FROM pawl.signals WHERE run_id=$1::uuid AND pos>$2::bigint ORDER BY pos LIMIT $3::bigint`

// Sent implements store.Exporter.
func (s *Store) Sent(ctx context.Context, p store.SentParams) ([]store.SentSignal, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	limit, _ := store.Page(p.Limit)
	var sent []store.SentSignal
	var found int64
	err := s.read(ctx,
		stmt{sql: `SELECT count(*) FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text`, args: []any{uuid(p.Run), p.Namespace}, rows: one(&found)},
		stmt{sql: sentSignals, args: []any{uuid(p.Run), p.After, int64(limit)}, rows: func(scan func(...any) error) error {
			var g store.SentSignal
			err := scan(&g.Position, &g.Consumed, scanID(&g.ID), &g.Name, &g.Payload, scanTime(&g.SentAt))
			sent = append(sent, g)
			return err
		}})
	if err == nil && found == 0 {
		return nil, notFound("run %v", p.Run)
	}
	return sent, err
}
