package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const (
	recordActions = `INSERT INTO pawl.actions (id, namespace, at, actor, verb, target, run, details)
		SELECT t.id, $2::text, ` + now + `, t.actor, t.verb, t.target, t.run, t.details
		FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[]) t(id, actor, verb, target, run, details)
		ON CONFLICT DO NOTHING`
	forgetActions = `DELETE FROM pawl.actions WHERE id=ANY(ARRAY(SELECT a.id FROM pawl.actions a WHERE a.namespace=$2::text AND a.at<` + now + `-$3::bigint
		ORDER BY a.at LIMIT 1000 FOR UPDATE SKIP LOCKED))`
)

// Record implements store.Journal.
func (s *Store) Record(ctx context.Context, p store.RecordParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	n := len(p.Actions)
	ids, runs := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	actors, verbs, targets, details := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range p.Actions {
		a := &p.Actions[i]
		ids[i], runs[i] = uuid(a.ID), uuid(a.Run)
		actors[i], verbs[i], targets[i], details[i] = a.Actor, a.Verb, a.Target, a.Details
	}
	at := setNow(p.Now)
	stmts := []stmt{{sql: recordActions, args: []any{at, p.Namespace, ids, actors, verbs, targets, runs, details}}}
	if p.KeepFor > 0 {
		stmts = append(stmts, stmt{sql: forgetActions, args: []any{at, p.Namespace, sqlkit.Span(p.KeepFor)}})
	}
	return s.write(ctx, stmts...)
}
