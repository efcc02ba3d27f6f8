package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A change of a rule lets all flows that wait for its limit be looked at again, and says for each of the
// limit's flows anew which fair limit decides. Plans that were made before do not apply.
var (
	// putLimit: ?1 namespace, ?2 name, ?3 rule, ?4 whether it is fair, ?5 now.
	putLimit = `INSERT INTO limits (namespace, name, rule, fair, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT DO UPDATE SET rule=excluded.rule, fair=iif(set_rule IS NULL, excluded.fair, fair), updated_at=excluded.updated_at WHERE rule<>excluded.rule RETURNING 1`
	// setLimit: the same. The rule of a limit that code has not registered is zero.
	setLimit = `INSERT INTO limits (namespace, name, rule, set_rule, fair, updated_at) VALUES (?1, ?2, '{}', ?3, ?4, ?5)
		ON CONFLICT DO UPDATE SET set_rule=excluded.set_rule, fair=excluded.fair, updated_at=excluded.updated_at WHERE set_rule IS NOT excluded.set_rule RETURNING 1`
	dropLimit  = `DELETE FROM limits WHERE namespace=?1 AND name=?2 AND rule='{}' AND set_rule IS NOT NULL RETURNING 1`
	unsetLimit = `UPDATE limits SET set_rule=NULL, fair=coalesce(rule->>'f', 0), updated_at=?3 WHERE namespace=?1 AND name=?2 AND set_rule IS NOT NULL RETURNING 1`
	// What follows records the two before they are done: ?4 name, ?5 rule.
	recordSet = recording(sqlkit.ActionInsert{Rest: `WHERE true`,
		Outcome: sqlkit.DoneIf(`NOT EXISTS (SELECT 1 FROM limits WHERE namespace=?1 AND name=?4 AND set_rule=?5)`)})
	recordUnset = recording(sqlkit.ActionInsert{Rest: `JOIN limits l ON l.namespace=?1 AND l.name=?4 WHERE true`, Outcome: sqlkit.DoneIf(`l.set_rule IS NOT NULL`)})
	hasLimit    = `SELECT 1 FROM limits WHERE namespace=?1 AND name=?2`

	// voidPlans: ?1 namespace, ?2 stamp.
	voidPlans = `INSERT INTO limit_plans (namespace, version, stamp) VALUES (?1, 1, ?2) ON CONFLICT DO UPDATE SET version=version+1, stamp=excluded.stamp`
	// unpark: ?1 namespace, ?2 a list of names.
	unpark    = `UPDATE limit_flows SET state=0, park_name='', park_key='', park_tokens=0 WHERE namespace=?1 AND state=2 AND park_name IN (SELECT value FROM json_each(?2))`
	emptyPark = `DELETE FROM limit_parks WHERE namespace=?1 AND name IN (SELECT value FROM json_each(?2))`
	// freshFlows and freshNone give the flows of all fresh runs their rows if a limit is fair: ?1 namespace.
	freshFlows = `INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id)
		SELECT namespace, queue, workflow, pin, priority, flow, visible_at, id FROM runs INDEXED BY runs_fresh WHERE namespace=?1 AND fresh=1
			AND EXISTS (SELECT 1 FROM limits WHERE namespace=?1 AND fair=1) ORDER BY visible_at, id ON CONFLICT DO NOTHING`
	freshNone = `UPDATE runs SET fresh=0 WHERE id IN (SELECT id FROM runs INDEXED BY runs_fresh WHERE namespace=?1 AND fresh=1) AND EXISTS (SELECT 1 FROM limits WHERE namespace=?1 AND fair=1)`
	// judge says which fair limit decides about each flow.
	judge = `UPDATE limit_flows SET fair=coalesce(j.name, ''), fair_key=coalesce(j.key, ''), turn=coalesce(j.turn, 0)
		FROM (SELECT f.id, u.name, u.key, u.turn FROM limit_flows f LEFT JOIN (
			SELECT x.id, l.name, e.value->>1 AS key, max(l.clock, coalesce((SELECT vtime FROM limit_keys k WHERE k.namespace=?1 AND k.name=l.name AND k.key=e.value->>1), 0)) AS turn,
				row_number() OVER (PARTITION BY x.id ORDER BY l.name) AS nth
			FROM limit_flows x CROSS JOIN json_each(json_array(json(x.flow->'$[0]'), json(x.flow->'$[1]'))) part CROSS JOIN json_each(part.value) e
				CROSS JOIN limits l ON l.namespace=?1 AND l.name=e.value->>0 AND l.fair
			WHERE x.namespace=?1) u ON u.id=f.id AND u.nth=1 WHERE f.namespace=?1) j
		WHERE limit_flows.id=j.id AND limit_flows.namespace=?1 AND (fair<>coalesce(j.name, '') OR fair_key<>coalesce(j.key, ''))`
)

// ruled are the statements that follow the changes of rules.
func ruled(namespace string, names []string, unneeded func() bool) []Stmt {
	list := sqlkit.JSON(names)
	return []Stmt{
		{SQL: voidPlans, Args: []any{namespace, sqlkit.NewStamp()}, Unneeded: unneeded},
		{SQL: unpark, Args: []any{namespace, list}, Unneeded: unneeded},
		{SQL: emptyPark, Args: []any{namespace, list}, Unneeded: unneeded},
		{SQL: freshFlows, Args: []any{namespace}, Unneeded: unneeded},
		{SQL: freshNone, Args: []any{namespace}, Unneeded: unneeded},
		{SQL: judge, Args: []any{namespace}, Unneeded: unneeded},
	}
}

// PutLimits implements store.Limiter.
func (c *Core) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil || len(p.Limits) == 0 {
		return err
	}
	changed := false
	var stmts []Stmt
	var names []string
	for i := range p.Limits {
		l := &p.Limits[i]
		names = append(names, l.Name)
		stmts = append(stmts, Stmt{
			SQL: putLimit, Args: []any{p.Namespace, l.Name, ruleText(l.Rule), flag(l.Rule.Fair), now},
			Rows: func(scan func(...any) error) error { changed = true; var one int64; return scan(&one) },
		})
	}
	return c.rule(ctx, append(stmts, ruled(p.Namespace, names, func() bool { return !changed })...), &changed)
}

// rule runs the statements of a change of rules, and tells the workers if something has changed.
func (c *Core) rule(ctx context.Context, stmts []Stmt, changed *bool) error {
	if err := c.runner.Write(ctx, stmts); err != nil {
		return err
	}
	if *changed {
		c.Expect()
		c.publish(store.Hint{Kind: store.HintRescan})
	}
	return nil
}

// SetLimit implements store.Limiter.
func (c *Core) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	changed, found := false, false
	did := func(scan func(...any) error) error { changed, found = true, true; var one int64; return scan(&one) }
	var stmts []Stmt
	if len(p.Record) > 0 {
		record, args := recordUnset, []any{p.Namespace, now, sqlkit.ActionsText(p.Record, "", nil, nil), p.Name}
		if p.Rule != nil {
			record, args = recordSet, append(args, ruleText(*p.Rule))
		}
		stmts = append(stmts, Stmt{SQL: record, Args: args})
	}
	if p.Rule != nil {
		found = true
		stmts = append(stmts, Stmt{SQL: setLimit, Args: []any{p.Namespace, p.Name, ruleText(*p.Rule), flag(p.Rule.Fair), now}, Rows: did})
	} else {
		stmts = append(stmts,
			Stmt{SQL: hasLimit, Args: []any{p.Namespace, p.Name}, Rows: func(scan func(...any) error) error { found = true; var one int64; return scan(&one) }},
			Stmt{SQL: dropLimit, Args: []any{p.Namespace, p.Name}, Rows: did},
			Stmt{SQL: unsetLimit, Args: []any{p.Namespace, p.Name, now}, Rows: did})
	}
	if err := c.rule(ctx, append(stmts, ruled(p.Namespace, []string{p.Name}, func() bool { return !changed })...), &changed); err != nil {
		return err
	}
	if !found {
		return sqlkit.NotFound("limit %q", p.Name)
	}
	return nil
}

// listLimits: ?1 namespace, ?2 after, ?3 the names or NULL, ?4 how many.
const listLimits = `SELECT name, rule, set_rule, updated_at FROM limits WHERE namespace=?1 AND name>?2 AND (?3 IS NULL OR name IN (SELECT value FROM json_each(?3))) ORDER BY name LIMIT ?4+0`

// ListLimits implements store.Limiter.
func (c *Core) ListLimits(ctx context.Context, p store.ListLimitsParams) (store.LimitPage, error) {
	var page store.LimitPage
	most, after, err := sqlkit.Begin(&p, p.Limit)
	if err != nil {
		return page, err
	}
	var names any
	if len(p.Names) > 0 {
		names = sqlkit.JSON(p.Names)
	}
	err = c.read(ctx, Stmt{SQL: listLimits, Args: []any{p.Namespace, after, names, int64(most + 1)}, Rows: func(scan func(...any) error) error {
		var l store.Limit
		var rule, set string
		err := scan(&l.Name, &rule, sqlkit.TextOrNull(&set), sqlkit.Time(&l.UpdatedAt))
		if err == nil {
			l.Rule, err = parseRule(rule)
		}
		if err == nil && set != "" {
			var s store.LimitRule
			s, err = parseRule(set)
			l.Set = &s
		}
		page.Limits = append(page.Limits, l)
		return err
	}})
	if last := sqlkit.Cut(&page.Limits, most); last != nil {
		page.Next = p.NextCursor(last.Name)
	}
	return page, err
}

// limitKeys: ?1 namespace, ?2 limit, ?3 the key or NULL, ?4 after (NULL: from the start), ?5 how many, ?6 now, ?7 how many runs
// are counted, ?8 and ?9 of the limit's rate: what a full bucket lacks of one token, in time. It reads the
// flows and the fresh runs that wait in the namespace.
var limitKeys = sqlkit.Text(`WITH used AS MATERIALIZED (
		SELECT f.queue, f.workflow, f.pin, f.priority, f.flow, f.head_at, e.value->>1 AS key FROM limit_flows f
			CROSS JOIN json_each(json_array(json(f.flow->'$[0]'), json(f.flow->'$[1]'))) part CROSS JOIN json_each(part.value) e
		WHERE f.namespace=?1 AND f.head_at<=?6 AND e.value->>0=?2 AND (?3 IS NULL OR e.value->>1=?3) AND (?4 IS NULL OR e.value->>1>?4)
		UNION ALL SELECT x.queue, x.workflow, x.pin, x.priority, x.flow, min(x.visible_at), e.value->>1 FROM runs x INDEXED BY runs_fresh CROSS JOIN json_each(x.under) e
		WHERE x.namespace=?1 AND x.fresh=1 AND x.visible_at<=?6 AND e.value->>0=?2 AND (?3 IS NULL OR e.value->>1=?3) AND (?4 IS NULL OR e.value->>1>?4)
		GROUP BY x.queue, x.workflow, x.pin, x.priority, x.flow, e.value->>1),
	page AS MATERIALIZED (
		SELECT key FROM used
		UNION SELECT key FROM limit_keys WHERE namespace=?1 AND name=?2 AND (?3 IS NULL OR key=?3) AND (?4 IS NULL OR key>?4) AND (held>0 OR weight<>1 OR ?8 AND tat-?9>?6)
		ORDER BY 1 LIMIT ?5+0)
	SELECT page.key, coalesce(k.held, 0), coalesce((SELECT min(?7, sum(n)) FROM (SELECT (SELECT count(*) FROM (SELECT 1 FROM runs r INDEXED BY runs_flow WHERE r.namespace=?1 AND r.queue=u.queue
			AND r.workflow=u.workflow AND r.pin=u.pin AND r.priority=u.priority AND r.flow=u.flow AND r.visible_at<=?6 AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=1
			LIMIT ?7+0)) AS n FROM used u WHERE u.key=page.key)), 0),
		(SELECT min(head_at) FROM used u WHERE u.key=page.key), CASE WHEN ?8 AND k.tat-?9>?6 THEN k.tat-?9 END, coalesce(k.weight, 1)
	FROM page LEFT JOIN limit_keys k ON k.namespace=?1 AND k.name=?2 AND k.key=page.key ORDER BY page.key`)

// LimitKeys implements store.Limiter.
func (c *Core) LimitKeys(ctx context.Context, p store.LimitKeysParams) (store.LimitKeyPage, error) {
	var page store.LimitKeyPage
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return page, err
	}
	after, begun, err := p.Position()
	if err != nil {
		return page, err
	}
	most, _ := store.Page(p.Rows)
	limits, err := c.ListLimits(ctx, store.ListLimitsParams{Namespace: p.Namespace, Names: []string{p.Limit}})
	if err != nil {
		return page, err
	}
	var rule store.LimitRule
	if len(limits.Limits) == 1 {
		rule = limits.Limits[0].Effective()
	}
	var key, from any
	if p.Key != nil {
		key = *p.Key
	}
	if begun {
		from = after
	}
	spare := (rule.Most() - min(1, rule.Most())) * rule.Every()
	args := []any{p.Namespace, p.Limit, key, from, int64(most + 1), now, int64(store.MaxWaiting), flag(rule.Every() > 0), spare}
	err = c.read(ctx, Stmt{SQL: limitKeys, Args: args, Rows: func(scan func(...any) error) error {
		var k store.LimitKey
		err := scan(&k.Key, &k.Held, &k.Waiting, sqlkit.Time(&k.Since), sqlkit.Time(&k.RateAt), &k.Weight)
		page.Keys = append(page.Keys, k)
		return err
	}})
	if last := sqlkit.Cut(&page.Keys, most); last != nil {
		page.Next = p.NextCursor(last.Key)
	}
	return page, err
}

var setWeight = `INSERT INTO limit_keys (namespace, name, key, weight) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET weight=excluded.weight`

// SetWeight implements store.Limiter.
func (c *Core) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	return c.runner.Write(ctx, append(c.journal(p.Namespace, now, p.Record).As(store.Done),
		Stmt{SQL: setWeight, Args: []any{p.Namespace, p.Limit, p.Key, p.Weight}},
		Stmt{SQL: voidPlans, Args: []any{p.Namespace, sqlkit.NewStamp()}},
	))
}
