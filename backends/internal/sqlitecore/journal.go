package sqlitecore

import (
	"context"
	"encoding/hex"

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
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := c.now(ctx, p.Now)
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
	stmts := []Stmt{{SQL: recordActions, Args: []any{p.Namespace, now, jsonText(rows)}}}
	if p.KeepFor > 0 {
		stmts = append(stmts, Stmt{SQL: forgetActions, Args: []any{p.Namespace, now - span(p.KeepFor)}})
	}
	return c.runner.Write(ctx, stmts)
}

// ListActions implements store.Journal.
func (c *Core) ListActions(ctx context.Context, p store.ListActionsParams) (page store.ActionPage, err error) {
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	at, last, err := p.Position()
	if err != nil {
		return page, err
	}
	cond, args := "namespace=?", []any{p.Namespace}
	if !p.Run.IsZero() {
		cond, args = cond+" AND run=? AND run IS NOT NULL", append(args, p.Run[:])
	}
	if p.Actor != "" {
		cond, args = cond+" AND actor=?", append(args, p.Actor)
	}
	if p.Cursor != "" {
		cond += " AND at<=? AND (at<? OR id<?)"
		args = append(args, at.UnixMicro(), at.UnixMicro(), last[:])
	}
	err = c.read(ctx, Stmt{
		SQL:  `SELECT id, at, actor, verb, target, run, details FROM actions WHERE ` + cond + ` ORDER BY at DESC, id DESC LIMIT ?+0`,
		Args: append(args, int64(limit)+1),
		Rows: func(scan func(...any) error) error {
			var a store.Action
			err := scan(scanID{&a.ID}, scanTime{&a.At}, &a.Actor, &a.Verb, &a.Target, scanID{&a.Run}, &a.Details)
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
