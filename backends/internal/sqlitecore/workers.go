package sqlitecore

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// PutWorker implements store.Registry.
func (c *Core) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return err
	}
	w := &p.Worker
	return c.runner.Write(ctx, []Stmt{{
		SQL: `INSERT INTO workers (namespace, id, host, pid, queues, workflows, labels, slots, limits, takes, status, ttl, answers, started_at, seen_at)
			VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
			ON CONFLICT DO UPDATE SET host=excluded.host, pid=excluded.pid, queues=excluded.queues, workflows=excluded.workflows,
				labels=excluded.labels, slots=excluded.slots, limits=excluded.limits, takes=excluded.takes, status=excluded.status, ttl=excluded.ttl,
				answers=excluded.answers, seen_at=excluded.seen_at, asked_at=NULL`,
		Args: []any{p.Namespace, w.ID, w.Host, int64(w.PID), jsonText(w.Queues), jsonText(w.Workflows), jsonText(w.Labels),
			int64(w.Slots), jsonText(w.Limits), jsonText(w.Takes), int64(w.Status), span(w.TTL), span(w.Answers), now, now},
	}})
}

// askable are the workers to be asked: ?3 is the time, ?2 for how long they are silent.
const askable = ` FROM workers WHERE namespace=?1 AND answers>0 AND asked_at IS NULL AND seen_at<=?3-?2 AND seen_at+ttl>?3`

// AskWorkers implements store.Registry.
func (c *Core) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return 0, err
	}
	args := []any{p.Namespace, span(p.Silent), m.now}
	var some bool
	if err := c.read(ctx, Stmt{SQL: `SELECT EXISTS (SELECT 1` + askable + `)`, Args: args, Rows: one(&some)}); err != nil || !some {
		return 0, err
	}
	var asked int64
	err = c.runner.Write(ctx, []Stmt{{
		SQL:  `UPDATE workers SET asked_at=?4 WHERE namespace=?1 AND id IN (SELECT id` + askable + `)`,
		Args: append(args, m.late), Affected: &asked,
	}})
	if err == nil && asked > 0 {
		c.publish(store.Hint{Kind: store.HintRescan})
	}
	return int(asked), err
}

// RemoveWorker implements store.Registry.
func (c *Core) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return c.runner.Write(ctx, []Stmt{{SQL: `DELETE FROM workers WHERE namespace=? AND id=?`, Args: []any{p.Namespace, p.ID}}})
}

// registryPage lists rows of a table that is keyed by the namespace (?1) and a name: those
// behind the name ?2, up to ?3 of them and ?4 bytes, each with whether there are more.
func registryPage(table, key, which, size, columns, join string) string {
	return `WITH item AS (SELECT *, row_number() OVER (ORDER BY key) AS nth FROM (
			SELECT ` + key + ` AS key, ` + size + ` AS size FROM ` + table + `
			WHERE namespace=?1 AND ` + key + `>?2` + which + ` ORDER BY ` + key + ` LIMIT ?3+1))` +
		fitting(`nth`, 1, `?3`, `?4`) + `
		SELECT ` + columns + `, EXISTS (SELECT 1 FROM fit WHERE NOT fits)
		FROM fit z CROSS JOIN ` + table + ` t ON t.namespace=?1 AND t.` + key + `=z.key` + join + ` WHERE z.fits ORDER BY z.nth`
}

var (
	// It reads the active runs of the namespace, unless ?5: an index by worker would cost
	// each claim and commit more than this rare question is worth.
	workerPage = registryPage(`workers`, `id`, ``,
		`octet_length(host)+octet_length(queues)+octet_length(workflows)+octet_length(labels)+octet_length(limits)+octet_length(takes)`,
		`t.id, t.host, t.pid, t.queues, t.workflows, t.labels, t.slots, t.limits, t.takes, t.status, t.ttl, t.answers, t.started_at, t.seen_at, t.asked_at, coalesce(n, 0)`,
		` LEFT JOIN (SELECT worker, count(*) AS n FROM runs
			WHERE namespace=?1 AND NOT ?5 AND visible_at IS NOT NULL AND status<>4 AND leased=1 GROUP BY worker) held ON held.worker=t.id`)
	workflowPage = registryPage(`workflows`, `name`, ` AND (?5 OR name IN (SELECT value FROM json_each(?6)))`,
		`coalesce(length(meta), 0)`, `t.name, t.queue, t.meta, t.updated_at`, ``)
)

// ListWorkers implements store.Registry.
func (c *Core) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	var page store.WorkerPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil {
		return page, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return page, err
	}
	more := false
	err = c.read(ctx, Stmt{
		SQL:  workerPage,
		Args: []any{p.Namespace, after, int64(limit), int64(store.PageBytes), flag(p.NoHeld)},
		Rows: func(scan func(...any) error) error {
			var w store.Worker
			var ttl, answers int64
			err := scan(&w.ID, &w.Host, &w.PID, scanJSON{&w.Queues}, scanJSON{&w.Workflows}, scanJSON{&w.Labels}, &w.Slots, scanJSON{&w.Limits}, scanJSON{&w.Takes},
				&w.Status, &ttl, &answers, scanTime{&w.StartedAt}, scanTime{&w.SeenAt}, scanTime{&w.AskedAt}, &w.Held, &more)
			w.TTL, w.Answers = time.Duration(ttl)*time.Microsecond, time.Duration(answers)*time.Microsecond
			if w.SeenAt.UnixMicro()+ttl <= now || !w.AskedAt.IsZero() && w.AskedAt.UnixMicro()+answers <= now {
				w.Status = store.Offline
			}
			page.Workers = append(page.Workers, w)
			return err
		},
	})
	if err != nil {
		return store.WorkerPage{}, err
	}
	if more {
		page.Next = p.NextCursor(page.Workers[len(page.Workers)-1].ID)
	}
	return page, nil
}

// PutWorkflows implements store.Registry.
func (c *Core) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil || len(p.Workflows) == 0 {
		return err
	}
	stmts := make([]Stmt, len(p.Workflows))
	for i, w := range p.Workflows {
		stmts[i] = Stmt{
			SQL: `INSERT INTO workflows (namespace, name, queue, meta, updated_at) VALUES (?,?,?,?,?)
				ON CONFLICT DO UPDATE SET queue=excluded.queue, meta=excluded.meta, updated_at=excluded.updated_at`,
			Args: []any{p.Namespace, w.Name, w.Queue, blob(w.Meta), now},
		}
	}
	return c.runner.Write(ctx, stmts)
}

// ListWorkflows implements store.Registry.
func (c *Core) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	var page store.WorkflowPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil {
		return page, err
	}
	more := false
	err = c.read(ctx, Stmt{
		SQL:  workflowPage,
		Args: []any{p.Namespace, after, int64(limit), int64(store.PageBytes), flag(len(p.Names) == 0), jsonText(p.Names)},
		Rows: func(scan func(...any) error) error {
			var w store.Workflow
			err := scan(&w.Name, &w.Queue, scanBlob{&w.Meta}, scanTime{&w.UpdatedAt}, &more)
			page.Workflows = append(page.Workflows, w)
			return err
		},
	})
	if err != nil {
		return store.WorkflowPage{}, err
	}
	if more {
		page.Next = p.NextCursor(page.Workflows[len(page.Workflows)-1].Name)
	}
	return page, nil
}

// SetPaused implements store.Registry.
func (c *Core) SetPaused(ctx context.Context, p store.SetPausedParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return err
	}
	if p.Paused {
		return c.runner.Write(ctx, []Stmt{{
			SQL:  `INSERT INTO paused (namespace, queue, workflow, since) VALUES (?,?,?,?) ON CONFLICT DO NOTHING`,
			Args: []any{p.Namespace, p.Queue, p.Workflow, now},
		}})
	}
	// Whoever waits for work of a queue that is free again is told so.
	h := newHints(p.Namespace)
	err = c.runner.Write(ctx, []Stmt{
		{SQL: `DELETE FROM paused WHERE namespace=? AND queue=? AND workflow=?`, Args: []any{p.Namespace, p.Queue, p.Workflow}},
	})
	if err != nil {
		return err
	}
	if p.Queue != "" {
		h.queue(p.Queue)
		h.send(c)
	} else {
		c.publish(store.Hint{Kind: store.HintRescan})
	}
	return nil
}

// ListPaused implements store.Registry.
func (c *Core) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	var page store.PausedPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil {
		return page, err
	}
	err = c.read(ctx, Stmt{
		SQL:  `SELECT queue, workflow, since FROM paused WHERE namespace=? AND (queue, workflow)>(?,?) ORDER BY queue, workflow LIMIT ?+1`,
		Args: []any{p.Namespace, after.Queue, after.Workflow, int64(limit)},
		Rows: func(scan func(...any) error) error {
			var t store.PausedTarget
			err := scan(&t.Queue, &t.Workflow, scanTime{&t.Since})
			page.Paused = append(page.Paused, t)
			return err
		},
	})
	if err != nil {
		return store.PausedPage{}, err
	}
	if len(page.Paused) > limit {
		page.Paused = page.Paused[:limit]
		page.Next = p.NextCursor(page.Paused[limit-1])
	}
	return page, nil
}

// Lock implements store.Registry.
func (c *Core) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	var res store.LockResult
	if err := p.Validate(); err != nil {
		return res, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return res, err
	}
	take := Stmt{
		SQL: `INSERT INTO locks (namespace, name, owner, until) VALUES (?,?,?,?)
			ON CONFLICT DO UPDATE SET owner=excluded.owner, until=excluded.until WHERE locks.until<=? OR locks.owner=excluded.owner`,
		Args: []any{p.Namespace, p.Name, p.Owner, m.after(p.For), m.now},
	}
	if p.For == 0 {
		take = Stmt{SQL: `DELETE FROM locks WHERE namespace=? AND name=? AND owner=?`, Args: []any{p.Namespace, p.Name, p.Owner}}
	}
	err = c.runner.Write(ctx, []Stmt{take, {
		SQL:  `SELECT owner, until FROM locks WHERE namespace=? AND name=? AND until>?`,
		Args: []any{p.Namespace, p.Name, m.now}, Rows: one(&res.Owner, scanTime{&res.Until}),
	}})
	res.Held = err == nil && res.Owner == p.Owner
	return res, err
}
