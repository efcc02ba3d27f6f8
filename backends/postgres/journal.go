package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

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
		stmts = append(stmts, stmt{sql: forgetActions, args: []any{at, p.Namespace, span(p.KeepFor)}})
	}
	return s.write(ctx, stmts...)
}

// ListActions implements store.Journal.
func (s *Store) ListActions(ctx context.Context, p store.ListActionsParams) (page store.ActionPage, err error) {
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	at, last, err := p.Position()
	if err != nil {
		return page, err
	}
	args := []any{p.Namespace}
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	cond := "a.namespace = $1::text"
	if !p.Run.IsZero() {
		cond += " AND a.run IS NOT NULL AND a.run = " + param(uuid(p.Run)) + "::uuid"
	}
	if p.Actor != "" {
		cond += " AND a.actor = " + param(p.Actor) + "::text"
	}
	if p.Cursor != "" {
		t, id := param(at.UnixMicro())+"::bigint", param(pgtype.UUID{Bytes: last, Valid: true})+"::uuid"
		cond += " AND a.at <= " + t + " AND (a.at < " + t + " OR a.id < " + id + ")"
	}
	most := param(int64(limit) + 1)
	err = s.read(ctx, stmt{
		sql: `SELECT a.id, a.at, a.actor, a.verb, a.target, a.run, a.details FROM pawl.actions a WHERE ` + cond +
			` ORDER BY a.at DESC, a.id DESC LIMIT ` + most + `::bigint`,
		args: args,
		rows: func(scan func(...any) error) error {
			var a store.Action
			err := scan(scanID(&a.ID), scanTime(&a.At), &a.Actor, &a.Verb, &a.Target, scanID(&a.Run), &a.Details)
			page.Actions = append(page.Actions, a)
			return err
		},
	})
	if err != nil {
		return store.ActionPage{}, err
	}
	if len(page.Actions) > limit {
		page.Actions = page.Actions[:limit]
		page.Next = p.NextCursor(&page.Actions[limit-1])
	}
	return page, nil
}
