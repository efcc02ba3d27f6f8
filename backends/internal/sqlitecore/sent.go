package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

const sentSignals = `SELECT pos, consumed, id, iif(consumed, '', name), iif(consumed, NULL, payload), iif(consumed, NULL, sent_at) FROM signals
	WHERE run_id=? AND pos>? ORDER BY pos LIMIT ?+0`

// Sent implements store.Exporter.
func (c *Core) Sent(ctx context.Context, p store.SentParams) ([]store.SentSignal, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	limit, _ := store.Page(p.Limit)
	var sent []store.SentSignal
	found := false
	err := c.read(ctx, exists1(p.Namespace, p.Run, &found), Stmt{
		SQL: sentSignals, Args: []any{p.Run[:], p.After, int64(limit)},
		Rows: func(scan func(...any) error) error {
			var s store.SentSignal
			err := scan(&s.Position, &s.Consumed, scanID{&s.ID}, &s.Name, scanBlob{&s.Payload}, scanTime{&s.SentAt})
			sent = append(sent, s)
			return err
		},
	})
	if err == nil && !found {
		return nil, notFound("run %v", p.Run)
	}
	return sent, err
}
