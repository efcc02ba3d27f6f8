package sqlitecore

import (
	"context"
	"encoding/hex"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const (
	recordActions = `INSERT INTO actions (id, namespace, at, actor, verb, target, run, details)
		SELECT unhex(value->>0), ?, ?, value->>1, value->>2, value->>3, unhex(nullif(value->>4, '')), value->>5 FROM json_each(?) WHERE true
		ON CONFLICT DO NOTHING`
	forgetActions = `DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE namespace=? AND at<? ORDER BY at LIMIT 1000)`
)

// Record implements store.Journal.
func (c *Core) Record(ctx context.Context, p store.RecordParams) error {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	rows := make([][]string, len(p.Actions))
	for i := range p.Actions {
		a := &p.Actions[i]
		run := ""
		if !a.Run.IsZero() {
			run = hex.EncodeToString(a.Run[:])
		}
		rows[i] = []string{hex.EncodeToString(a.ID[:]), a.Actor, a.Verb, a.Target, run, a.Details}
	}
	stmts := []Stmt{{SQL: recordActions, Args: []any{p.Namespace, now, sqlkit.JSON(rows)}}}
	if p.KeepFor > 0 {
		stmts = append(stmts, Stmt{SQL: forgetActions, Args: []any{p.Namespace, now - sqlkit.Span(p.KeepFor)}})
	}
	return c.runner.Write(ctx, stmts)
}
