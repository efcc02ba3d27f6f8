package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// PutWorker implements store.Registry.
func (s *Store) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	w := &p.Worker
	return s.write(ctx, stmt{
		sql: `INSERT INTO pawl.workers AS w (namespace, id, host, pid, queues, workflows, labels, slots, limits, takes, status, ttl, answers, started_at, seen_at)
			VALUES ($2::text, $3::text, $4::text, $5::bigint, $6::text, $7::text, $8::text, $9::bigint, $12::text, $13::text, $10::smallint, $11::bigint, $14::bigint, ` + now + `, ` + now + `)
			ON CONFLICT (namespace, id) DO UPDATE SET host=excluded.host, pid=excluded.pid, queues=excluded.queues, workflows=excluded.workflows,
				labels=excluded.labels, slots=excluded.slots, limits=excluded.limits, takes=excluded.takes, status=excluded.status, ttl=excluded.ttl,
				answers=excluded.answers, seen_at=excluded.seen_at, asked_at=NULL`,
		args: []any{setNow(p.Now), p.Namespace, w.ID, w.Host, int64(w.PID), jsonText(w.Queues), jsonText(w.Workflows), jsonText(w.Labels),
			int64(w.Slots), int16(w.Status), span(w.TTL), jsonText(w.Limits), jsonText(w.Takes), span(w.Answers)},
	})
}

// askable are the workers to be asked that are silent for $3.
const askable = ` FROM pawl.workers w WHERE w.namespace=$2::text AND w.answers>0 AND w.asked_at IS NULL
	AND w.seen_at<=` + now + `-$3::bigint AND w.seen_at+w.ttl>` + now

// AskWorkers implements store.Registry.
func (s *Store) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	args := []any{setNow(p.Now), p.Namespace, span(p.Silent)}
	var some bool
	err := s.read(ctx, stmt{sql: `SELECT EXISTS (SELECT 1` + askable + `)`, args: args, rows: one(&some)})
	if err != nil || !some {
		return 0, err
	}
	asked := 0
	err = s.write(ctx, begin(func() { asked = 0 }), stmt{
		// All that lock several workers do so in the order of their ids.
		sql: `UPDATE pawl.workers SET asked_at=` + now + ` WHERE namespace=$2::text AND asked_at IS NULL AND id IN (
			SELECT w.id` + askable + ` ORDER BY w.id FOR NO KEY UPDATE) RETURNING id`,
		args: args,
		rows: func(scan func(...any) error) error {
			asked++
			var id string
			return scan(&id)
		},
	})
	if err != nil {
		return 0, err
	}
	if asked > 0 {
		s.publish(ctx, store.Hint{Kind: store.HintRescan})
	}
	return asked, nil
}

// RemoveWorker implements store.Registry.
func (s *Store) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return s.write(ctx, stmt{
		sql: `DELETE FROM pawl.workers WHERE namespace=$1::text AND id=$2::text`, args: []any{p.Namespace, p.ID},
	})
}

// registryPage lists rows, t, of a table that is keyed by the namespace ($2) and a name:
// those behind the name $3, up to $4 of them and PageBytes, each with whether there are more.
func registryPage(table, key, which, size, columns, join string) string {
	return `SELECT ` + columns + `, t.more FROM (SELECT s.*, bool_or(NOT s.fits) OVER () AS more FROM ` + fitting(`
			SELECT s.*, `+size+` AS size, row_number() OVER (ORDER BY s.`+key+`) AS nth FROM (
				SELECT s.* FROM pawl.`+table+` s WHERE s.namespace=$2::text AND s.`+key+`>$3::text`+which+`
				ORDER BY s.`+key+` LIMIT $4::bigint+1) s`, `$4::bigint`, strconv.Itoa(store.PageBytes)) + `) t` + join + `
		WHERE t.fits ORDER BY t.nth`
}

var (
	// It reads the active runs of the namespace, unless $5: an index by worker would cost
	// each claim and commit more than this rare question is worth.
	workerPage = registryPage(`workers`, `id`, ``,
		`octet_length(s.host)+octet_length(s.queues)+octet_length(s.workflows)+octet_length(s.labels)+octet_length(s.limits)+octet_length(s.takes)`,
		`t.id, t.host, t.pid, t.queues, t.workflows, t.labels, t.slots, t.limits, t.takes, t.status, t.ttl, t.answers, t.started_at, t.seen_at, t.asked_at,
			coalesce(held.n, 0), t.seen_at + t.ttl <= `+now+` OR coalesce(t.asked_at + t.answers <= `+now+`, false)`,
		` LEFT JOIN (SELECT r.worker, count(*) AS n FROM pawl.runs r
			WHERE r.namespace=$2::text AND NOT $5::bool AND r.visible_at IS NOT NULL AND r.status<>4 AND r.leased GROUP BY r.worker) held ON held.worker=t.id`)
	workflowPage = registryPage(`workflows`, `name`, ` AND ($1::bool OR s.name = ANY($5::text[]))`,
		`coalesce(octet_length(s.meta), 0)`, `t.name, t.queue, t.meta, t.updated_at`, ``)
)

// ListWorkers implements store.Registry.
func (s *Store) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	var page store.WorkerPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil {
		return page, err
	}
	more := false
	err = s.read(ctx, stmt{
		sql:  workerPage,
		args: []any{setNow(p.Now), p.Namespace, after, int64(limit), p.NoHeld},
		rows: func(scan func(...any) error) error {
			var w store.Worker
			var pid, slots, ttl, answers int64
			var status int16
			var offline bool
			err := scan(&w.ID, &w.Host, &pid, scanJSON(&w.Queues), scanJSON(&w.Workflows), scanJSON(&w.Labels), &slots, scanJSON(&w.Limits), scanJSON(&w.Takes), &status, &ttl,
				&answers, scanTime(&w.StartedAt), scanTime(&w.SeenAt), scanTime(&w.AskedAt), &w.Held, &offline, &more)
			w.PID, w.Slots, w.Status = int(pid), int(slots), store.WorkerStatus(status)
			w.TTL, w.Answers = time.Duration(ttl)*time.Microsecond, time.Duration(answers)*time.Microsecond
			if offline {
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
func (s *Store) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	// Concurrent calls lock in one order; of several of one name the last counts.
	list := slices.Clone(p.Workflows)
	slices.SortStableFunc(list, func(a, b store.Workflow) int { return strings.Compare(a.Name, b.Name) })
	stmts := make([]stmt, len(list))
	for i, w := range list {
		stmts[i] = stmt{
			sql: `INSERT INTO pawl.workflows AS w (namespace, name, queue, meta, updated_at)
				VALUES ($2::text, $3::text, $4::text, $5::bytea, ` + now + `)
				ON CONFLICT (namespace, name) DO UPDATE SET queue=excluded.queue, meta=excluded.meta, updated_at=excluded.updated_at`,
			args: []any{setNow(p.Now), p.Namespace, w.Name, w.Queue, w.Meta},
		}
	}
	if err := s.write(ctx, stmts...); err != nil {
		return err
	}
	lanes := make([]lane, len(list))
	for i, w := range list {
		lanes[i] = lane{w.Queue, w.Name, 0}
	}
	return s.ensureLanes(ctx, p.Namespace, lanes)
}

// ListWorkflows implements store.Registry.
func (s *Store) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
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
	err = s.read(ctx, stmt{
		sql:  workflowPage,
		args: []any{len(p.Names) == 0, p.Namespace, after, int64(limit), p.Names},
		rows: func(scan func(...any) error) error {
			var w store.Workflow
			err := scan(&w.Name, &w.Queue, &w.Meta, scanTime(&w.UpdatedAt), &more)
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
func (s *Store) SetPaused(ctx context.Context, p store.SetPausedParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Paused {
		return s.write(ctx, stmt{
			sql: `INSERT INTO pawl.paused (namespace, queue, workflow, since) VALUES ($2::text, $3::text, $4::text, ` + now + `)
				ON CONFLICT DO NOTHING`,
			args: []any{setNow(p.Now), p.Namespace, p.Queue, p.Workflow},
		})
	}
	err := s.write(ctx, stmt{
		sql:  `DELETE FROM pawl.paused WHERE namespace=$1::text AND queue=$2::text AND workflow=$3::text`,
		args: []any{p.Namespace, p.Queue, p.Workflow},
	})
	if err != nil {
		return err
	}
	// Whoever waits for work of a queue that is free again is told so.
	if p.Queue != "" {
		h := newHints(p.Namespace)
		h.queue(p.Queue)
		h.send(ctx, s)
	} else {
		s.publish(ctx, store.Hint{Kind: store.HintRescan})
	}
	return nil
}

// ListPaused implements store.Registry.
func (s *Store) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	var page store.PausedPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil {
		return page, err
	}
	err = s.read(ctx, stmt{
		sql: `SELECT queue, workflow, since FROM pawl.paused
			WHERE namespace=$1::text AND (queue, workflow)>($2::text, $3::text) ORDER BY queue, workflow LIMIT $4::bigint+1`,
		args: []any{p.Namespace, after.Queue, after.Workflow, int64(limit)},
		rows: func(scan func(...any) error) error {
			var t store.PausedTarget
			err := scan(&t.Queue, &t.Workflow, scanTime(&t.Since))
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
func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	var res store.LockResult
	if err := p.Validate(); err != nil {
		return res, err
	}
	take := stmt{
		// The row is locked even where it is another's, so the answer below is of
		// the same moment.
		sql: `INSERT INTO pawl.locks AS l (namespace, name, owner, until)
			VALUES ($2::text, $3::text, $4::text, ` + now + ` + $5::bigint)
			ON CONFLICT (namespace, name) DO UPDATE SET owner=excluded.owner, until=excluded.until
			WHERE l.until<=` + now + ` OR l.owner=excluded.owner`,
		args: []any{setNow(p.Now), p.Namespace, p.Name, p.Owner, span(p.For)},
	}
	if p.For == 0 {
		take = stmt{
			sql:  `DELETE FROM pawl.locks WHERE namespace=$1::text AND name=$2::text AND owner=$3::text`,
			args: []any{p.Namespace, p.Name, p.Owner},
		}
	}
	err := s.write(ctx, take, stmt{
		sql: `SELECT l.owner, l.until FROM (VALUES (1)) one(x)
			LEFT JOIN pawl.locks l ON l.namespace=$2::text AND l.name=$3::text AND l.until>` + now,
		args: []any{setNow(p.Now), p.Namespace, p.Name}, rows: one(scanText(&res.Owner), scanTime(&res.Until)),
	})
	if err != nil {
		return store.LockResult{}, err
	}
	res.Held = res.Owner == p.Owner
	return res, nil
}
