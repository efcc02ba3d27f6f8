package sqlkit

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

var putWorker = NewQuery("put worker", `INSERT INTO pawl.workers (namespace, id, host, pid, queues, workflows, labels, slots, limits, takes, build, status, ttl, answers, started_at, seen_at)
	VALUES (:namespace, :worker, :host, :pid, :queues, :workflows, :labels, :slots, :limits, :takes, :build, :status, :ttl, :answers, :now, :now)
	ON CONFLICT (namespace, id) DO UPDATE SET host=excluded.host, pid=excluded.pid, queues=excluded.queues, workflows=excluded.workflows,
		labels=excluded.labels, slots=excluded.slots, limits=excluded.limits, takes=excluded.takes, build=excluded.build, status=excluded.status, ttl=excluded.ttl,
		answers=excluded.answers, seen_at=excluded.seen_at, asked_at=NULL`)

// PutWorker implements store.Registry.
func (v Verbs) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	w := &p.Worker
	_, err = v.write(ctx, putWorker, Args{
		{"now", now}, {"namespace", p.Namespace}, {"worker", w.ID}, {"host", w.Host}, {"pid", int64(w.PID)}, {"status", int64(w.Status)},
		{"queues", JSON(w.Queues)}, {"workflows", JSON(w.Workflows)}, {"labels", JSON(w.Labels)}, {"limits", JSON(w.Limits)}, {"takes", JSON(w.Takes)},
		{"build", w.Build}, {"slots", int64(w.Slots)}, {"ttl", Span(w.TTL)}, {"answers", Span(w.Answers)},
	})
	return err
}

// askable selects the workers that are to be asked for a sign of life: they can answer, were not
// asked since the last sign of life, have been silent for long enough, and count as online.
const askable = ` FROM pawl.workers w WHERE w.namespace=:namespace AND w.answers>0 AND w.asked_at IS NULL
	AND w.seen_at<=:now-:silent AND w.seen_at+w.ttl>:now`

var (
	someAskable = NewQuery("some workers to ask", `SELECT EXISTS (SELECT 1`+askable+`)`)
	// It locks the workers in the order of their ids, as every statement does that locks several.
	askWorkers = NewQuery("ask workers", `UPDATE pawl.workers SET asked_at=:late WHERE namespace=:namespace AND asked_at IS NULL
		AND id IN (SELECT w.id`+askable+` ORDER BY w.id {lock})`)
)

// AskWorkers implements store.Registry.
func (v Verbs) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	now, late, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return 0, err
	}
	args := Args{{"now", now}, {"late", late}, {"namespace", p.Namespace}, {"silent", Span(p.Silent)}}
	var some bool
	if err := v.read(ctx, someAskable, args, One(&some)); err != nil || !some {
		return 0, err
	}
	asked, err := v.write(ctx, askWorkers, args)
	if err != nil {
		return 0, err
	}
	if asked > 0 {
		v.db.Publish(ctx, store.Hint{Kind: store.HintRescan})
	}
	return int(asked), nil
}

var removeWorker = NewQuery("remove worker", `DELETE FROM pawl.workers WHERE namespace=:namespace AND id=:worker`)

// RemoveWorker implements store.Registry.
func (v Verbs) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	_, err := v.write(ctx, removeWorker, Args{{"namespace", p.Namespace}, {"worker", p.ID}})
	return err
}

// pageOfWorkers counts the runs that each worker holds, unless :bare is set. To do so it reads the
// active runs of the namespace: an index by worker would add a cost to each claim and commit that
// this rare query does not justify.
var pageOfWorkers = page{
	table: `workers`, of: `s.namespace=:namespace`, key: `id`, which: ` AND s.id>:after`, order: `s.id`, most: `:limit`, bytes: pageBytes,
	size: `octet_length(s.host)+octet_length(s.queues)+octet_length(s.workflows)+octet_length(s.labels)+octet_length(s.limits)+octet_length(s.takes)`,
	columns: `s.id, s.host, s.pid, s.queues, s.workflows, s.labels, s.slots, s.limits, s.takes, s.build, s.status, s.ttl, s.answers, s.started_at, s.seen_at, s.asked_at,
		coalesce(held.n, 0), s.seen_at+s.ttl<=:now OR coalesce(s.asked_at+s.answers<=:now, false)`,
	fitting: true,
	join: ` LEFT JOIN (SELECT r.worker, count(*) AS n FROM pawl.runs r
		WHERE r.namespace=:namespace AND NOT :bare AND r.visible_at IS NOT NULL AND r.status<>{paused} AND {leased} GROUP BY r.worker) held ON held.worker=s.id`,
}.query("page of workers")

// ListWorkers implements store.Registry.
func (v Verbs) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	limit, after, invalid := Begin(&p, p.Limit)
	now, _, err := v.moment(ctx, invalid, p.Now)
	if err != nil {
		return store.WorkerPage{}, err
	}
	var page store.WorkerPage
	more := false
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"after", after}, {"limit", int64(limit)}, {"bare", p.NoHeld}}
	err = v.read(ctx, pageOfWorkers, args, func(scan Scan) error {
		var w store.Worker
		err := scanWorker(scan, &w, &more)
		page.Workers = append(page.Workers, w)
		return err
	})
	if err != nil {
		return store.WorkerPage{}, err
	}
	if more {
		page.Next = p.NextCursor(page.Workers[len(page.Workers)-1].ID)
	}
	return page, nil
}

// pageOfBuilds reads workers that are not offline, pinned runs, and :most unfinished runs, with
// whether there are more. A worker counts as its build says, a run as what it is pinned to
// and as what recorded its last step.
var pageOfBuilds = newQuery("page of builds", [dialects]string{PostgreSQL: PostgreSQL.pageOfBuilds(), SQLite: SQLite.pageOfBuilds()})

func (d Dialect) pageOfBuilds() string {
	return `WITH recent AS MATERIALIZED (` + d.recentBuilds() + `),
	looked AS MATERIALIZED (SELECT build FROM recent LIMIT :most),
	one(name, workers, online, pinned, runs) AS (
		SELECT w.build, count(*), count(*) FILTER (WHERE w.status={online}), 0, 0 FROM pawl.workers w
			WHERE w.namespace=:namespace AND w.build>:after AND w.seen_at+w.ttl>:now AND coalesce(w.asked_at+w.answers>:now, true) GROUP BY w.build
		UNION ALL SELECT r.pin, 0, 0, count(*), 0 FROM pawl.runs r WHERE r.namespace=:namespace AND r.pin>:after AND r.pin<>'' AND r.status<{final} GROUP BY r.pin
		UNION ALL SELECT looked.build, 0, 0, 0, count(*) FROM looked WHERE looked.build>:after GROUP BY looked.build)
	SELECT one.name, CAST(sum(one.workers) AS bigint), CAST(sum(one.online) AS bigint), CAST(sum(one.pinned) AS bigint), CAST(sum(one.runs) AS bigint),
		(SELECT count(*)>:most FROM recent)
	FROM one GROUP BY one.name ORDER BY one.name LIMIT :limit+1`
}

// recentBuilds selects the builds of :most+1 unfinished runs, those that were created last. PostgreSQL
// has no index of all unfinished runs: it takes them from the part of runs_created of each status.
func (d Dialect) recentBuilds() string {
	const newest = " ORDER BY r.created_at DESC, r.id DESC LIMIT :most+1"
	if d == SQLite { // runs_active
		return `SELECT ` + RunBuild + ` AS build FROM pawl.runs r WHERE r.namespace=:namespace AND r.finished_at IS NULL` + newest
	}
	var parts []string
	for _, s := range store.Statuses() {
		if !s.Final() {
			parts = append(parts, `(SELECT `+RunBuild+` AS build, r.created_at, r.id FROM pawl.runs r WHERE `+partOfCreated(":namespace", s)+newest+`)`)
		}
	}
	return `SELECT r.build FROM (` + strings.Join(parts, " UNION ALL ") + `) r` + newest
}

// ListBuilds implements store.Registry.
func (v Verbs) ListBuilds(ctx context.Context, p store.ListBuildsParams) (store.BuildPage, error) {
	limit, after, invalid := Begin(&p, p.Limit)
	now, _, err := v.moment(ctx, invalid, p.Now)
	if err != nil {
		return store.BuildPage{}, err
	}
	var page store.BuildPage
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"after", after}, {"limit", int64(limit)}, {"most", int64(min(MaxScan(p.MaxScan), 1<<40))}}
	err = v.read(ctx, pageOfBuilds, args, func(scan Scan) error {
		var b store.Build
		err := scan(&b.Name, &b.Workers, &b.Online, &b.Pinned, &b.Runs, &b.Capped)
		page.Builds = append(page.Builds, b)
		return err
	})
	if err != nil {
		return store.BuildPage{}, err
	}
	if last := Cut(&page.Builds, limit); last != nil {
		page.Next = p.NextCursor(last.Name)
	}
	return page, nil
}

var putWorkflow = NewQuery("put workflow", `INSERT INTO pawl.workflows (namespace, name, queue, meta, updated_at)
	VALUES (:namespace, :name, :queue, :meta, :now)
	ON CONFLICT (namespace, name) DO UPDATE SET queue=excluded.queue, meta=excluded.meta, updated_at=excluded.updated_at`)

// PutWorkflows implements store.Registry.
func (v Verbs) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil || len(p.Workflows) == 0 {
		return err
	}
	// Concurrent calls lock in the same order. If a name occurs several times, the last one counts.
	list := slices.Clone(p.Workflows)
	slices.SortStableFunc(list, func(a, b store.Workflow) int { return strings.Compare(a.Name, b.Name) })
	stmts := make([]Stmt, len(list))
	for i, w := range list {
		stmts[i] = putWorkflow.stmt(v.db, Args{{"now", now}, {"namespace", p.Namespace}, {"name", w.Name}, {"queue", w.Queue}, {"meta", w.Meta}}, nil)
	}
	return v.db.Write(ctx, stmts...)
}

var pageOfWorkflows = page{
	table: `workflows`, of: `s.namespace=:namespace`, key: `name`, which: ` AND s.name>:after AND (:all OR s.name {in} :names)`, order: `s.name`,
	size: `coalesce(octet_length(s.meta), 0)`, most: `:limit`, bytes: pageBytes,
	columns: `s.name, s.queue, s.meta, s.updated_at`, fitting: true,
}.query("page of workflows")

// ListWorkflows implements store.Registry.
func (v Verbs) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	limit, after, err := Begin(&p, p.Limit)
	if err != nil {
		return store.WorkflowPage{}, err
	}
	var page store.WorkflowPage
	more := false
	args := Args{{"namespace", p.Namespace}, {"after", after}, {"limit", int64(limit)}, {"all", len(p.Names) == 0}, {"names", p.Names}}
	err = v.read(ctx, pageOfWorkflows, args, func(scan Scan) error {
		var w store.Workflow
		err := scan(&more, &w.Name, &w.Queue, v.db.Blob(&w.Meta), Time(&w.UpdatedAt))
		page.Workflows = append(page.Workflows, w)
		return err
	})
	if err != nil {
		return store.WorkflowPage{}, err
	}
	if more {
		page.Next = p.NextCursor(page.Workflows[len(page.Workflows)-1].Name)
	}
	return page, nil
}

var (
	pauseTarget  = newRecorded("pause target", `INSERT INTO pawl.paused (namespace, queue, workflow, since) VALUES (:namespace, :queue, :workflow, :now) ON CONFLICT DO NOTHING`, true)
	resumeTarget = newRecorded("resume target", `DELETE FROM pawl.paused WHERE namespace=:namespace AND queue=:queue AND workflow=:workflow`, true)
)

// PauseTarget implements store.Registry.
func (v Verbs) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"queue", p.Queue}, {"workflow", p.Workflow}}
	change := pauseTarget
	if p.Resume {
		change = resumeTarget
	}
	var changed int64
	if err := v.db.Write(ctx, change.stmts(v.db, args, p.Record, &changed)...); err != nil || !p.Resume {
		return err
	}
	// Tell the workers that wait for the queue.
	hint := store.Hint{Kind: store.HintRescan}
	if p.Queue != "" {
		hint = store.Hint{Kind: store.HintQueue, Namespace: p.Namespace, Queue: p.Queue}
	}
	v.db.Publish(ctx, hint)
	return nil
}

var listPaused = NewQuery("list paused", `SELECT queue, workflow, since FROM pawl.paused
	WHERE namespace=:namespace AND (queue, workflow)>(:queue, :workflow) ORDER BY queue, workflow LIMIT :limit+1`)

// ListPaused implements store.Registry.
func (v Verbs) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	limit, after, err := Begin(&p, p.Limit)
	if err != nil {
		return store.PausedPage{}, err
	}
	var page store.PausedPage
	args := Args{{"namespace", p.Namespace}, {"queue", after.Queue}, {"workflow", after.Workflow}, {"limit", int64(limit)}}
	err = v.read(ctx, listPaused, args, func(scan Scan) error {
		var t store.PausedTarget
		err := scan(&t.Queue, &t.Workflow, Time(&t.Since))
		page.Paused = append(page.Paused, t)
		return err
	})
	if err != nil {
		return store.PausedPage{}, err
	}
	if last := Cut(&page.Paused, limit); last != nil {
		page.Next = p.NextCursor(*last)
	}
	return page, nil
}

var (
	// The row is locked even if another holder has the lock, so that readLock reads the same state.
	takeLock = NewQuery("take lock", `INSERT INTO pawl.locks AS l (namespace, name, owner, until) VALUES (:namespace, :name, :owner, :late+:lasts)
		ON CONFLICT (namespace, name) DO UPDATE SET owner=excluded.owner, until=excluded.until WHERE l.until<=:now OR l.owner=excluded.owner`)
	freeLock = NewQuery("free lock", `DELETE FROM pawl.locks WHERE namespace=:namespace AND name=:name AND owner=:owner`)
	// It always returns one row, because it aggregates at most one.
	readLock = NewQuery("read lock", `SELECT max(l.owner), max(l.until) FROM pawl.locks l WHERE l.namespace=:namespace AND l.name=:name AND l.until>:now`)
)

// Lock implements store.Registry.
func (v Verbs) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	var res store.LockResult
	now, late, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return res, err
	}
	args := Args{{"now", now}, {"late", late}, {"namespace", p.Namespace}, {"name", p.Name}, {"owner", p.Owner}, {"lasts", Span(p.For)}}
	change := takeLock
	if p.For == 0 {
		change = freeLock
	}
	err = v.db.Write(ctx, change.stmt(v.db, args, nil), readLock.stmt(v.db, args, One(TextOrNull(&res.Owner), Time(&res.Until))))
	if err != nil {
		return store.LockResult{}, err
	}
	res.Held = res.Owner == p.Owner
	return res, nil
}
