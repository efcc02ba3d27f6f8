package model

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	w := cloneWorker(p.Worker)
	w.TTL, w.Answers = whole(w.TTL), whole(w.Answers)
	w.StartedAt, w.SeenAt, w.AskedAt, w.Held = now, now, time.Time{}, 0
	key := name{p.Namespace, w.ID}
	if old := s.workers[key]; old != nil {
		w.StartedAt = old.StartedAt
	}
	s.workers[key] = &w
	return nil
}

func cloneWorker(w store.Worker) store.Worker {
	w.Queues, w.Workflows, w.Labels = slices.Clone(w.Queues), slices.Clone(w.Workflows), maps.Clone(w.Labels)
	w.Limits = maps.Clone(w.Limits)
	w.Takes = maps.Clone(w.Takes)
	for queue, workflows := range w.Takes {
		w.Takes[queue] = slices.Clone(workflows)
	}
	return w
}

func (s *Store) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.workers, name{p.Namespace, p.ID})
	return nil
}

func (s *Store) AskWorkers(ctx context.Context, p store.AskWorkersParams) (asked int, err error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	for key, w := range s.workers {
		silent := !w.SeenAt.After(now.Add(-whole(p.Silent)))
		if key.namespace == p.Namespace && w.Answers > 0 && w.AskedAt.IsZero() && silent && w.SeenAt.Add(w.TTL).After(now) {
			w.AskedAt = now
			asked++
		}
	}
	if asked > 0 {
		s.hint(store.Hint{Kind: store.HintRescan})
	}
	return asked, nil
}

func (s *Store) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	after, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.WorkerPage{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	held := map[string]int64{}
	for _, r := range s.live {
		if r.Namespace == p.Namespace && r.leased() && !p.NoHeld {
			held[r.Worker]++
		}
	}
	var rows []store.Worker
	for key, w := range s.workers {
		if key.namespace != p.Namespace || w.ID <= after {
			continue
		}
		row := *w
		row.Held = held[w.ID]
		if offline(w, now) {
			row.Status = store.Offline
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b store.Worker) int { return cmp.Compare(a.ID, b.ID) })
	var page store.WorkerPage
	var more bool
	limit, _ := store.Page(p.Limit)
	if page.Workers, more = upTo(rows, limit, atMost(store.PageBytes), workerBytes, cloneWorker); more {
		page.Next = p.NextCursor(page.Workers[len(page.Workers)-1].ID)
	}
	return page, nil
}

func offline(w *store.Worker, now time.Time) bool {
	return !w.SeenAt.Add(w.TTL).After(now) || !w.AskedAt.IsZero() && !w.AskedAt.Add(w.Answers).After(now)
}

func (s *Store) ListBuilds(ctx context.Context, p store.ListBuildsParams) (store.BuildPage, error) {
	after, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.BuildPage{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	rows := map[string]*store.Build{}
	of := func(name string) *store.Build {
		if rows[name] == nil {
			rows[name] = &store.Build{Name: name}
		}
		return rows[name]
	}
	for key, w := range s.workers {
		if key.namespace != p.Namespace || offline(w, now) {
			continue
		}
		of(w.Build).Workers++
		if w.Status == store.Online {
			of(w.Build).Online++
		}
	}
	var live []*run
	for _, r := range s.live {
		if r.Namespace != p.Namespace {
			continue
		}
		live = append(live, r)
		if r.Pin != nil {
			of(r.Pin.Build).Pinned++
		}
	}
	slices.SortFunc(live, func(a, b *run) int { return byCreation(b, a) })
	most := cmp.Or(p.MaxScan, store.DefaultScan)
	for _, r := range live[:min(most, len(live))] {
		of(r.Build).Runs++
	}
	delete(rows, "")
	var page store.BuildPage
	limit, _ := store.Page(p.Limit)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if name <= after {
			continue
		}
		if len(page.Builds) == limit {
			page.Next = p.NextCursor(page.Builds[limit-1].Name)
			break
		}
		rows[name].Capped = len(live) > most
		page.Builds = append(page.Builds, *rows[name])
	}
	return page, nil
}

func (s *Store) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	for _, w := range p.Workflows {
		w.Meta, w.UpdatedAt = bytes.Clone(w.Meta), now
		s.workflows[name{p.Namespace, w.Name}] = w
	}
	return nil
}

func (s *Store) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	after, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.WorkflowPage{}, err
	}
	defer s.mu.Unlock()
	var rows []store.Workflow
	for key, w := range s.workflows {
		if key.namespace == p.Namespace && oneOf(p.Names, w.Name) && w.Name > after {
			rows = append(rows, w)
		}
	}
	slices.SortFunc(rows, func(a, b store.Workflow) int { return cmp.Compare(a.Name, b.Name) })
	var page store.WorkflowPage
	var more bool
	limit, _ := store.Page(p.Limit)
	if page.Workflows, more = upTo(rows, limit, atMost(store.PageBytes), workflowBytes, cloneWorkflow); more {
		page.Next = p.NextCursor(page.Workflows[len(page.Workflows)-1].Name)
	}
	return page, nil
}

func (s *Store) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	key := target{p.Namespace, p.Queue, p.Workflow}
	_, already := s.paused[key]
	switch {
	case p.Resume:
		delete(s.paused, key)
		if already {
			s.hint(store.Hint{Kind: store.HintRescan}) // a workflow's runs may be in any queue
		}
	case !already:
		s.paused[key] = now
	}
	s.note(p.Namespace, p.Record, 0, already == p.Resume, now)
	return nil
}

func (s *Store) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	after, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.PausedPage{}, err
	}
	defer s.mu.Unlock()
	var page store.PausedPage
	for key, since := range s.paused {
		t := store.PausedTarget{Queue: key.queue, Workflow: key.workflow, Since: since}
		if key.namespace == p.Namespace && comparePaused(t, after) > 0 {
			page.Paused = append(page.Paused, t)
		}
	}
	slices.SortFunc(page.Paused, comparePaused)
	if limit, _ := store.Page(p.Limit); len(page.Paused) > limit {
		page.Paused = page.Paused[:limit]
		page.Next = p.NextCursor(page.Paused[limit-1])
	}
	return page, nil
}

func comparePaused(a, b store.PausedTarget) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

type lock struct {
	owner string
	until time.Time
}

func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return store.LockResult{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	key := name{p.Namespace, p.Name}
	l := s.locks[key]
	switch {
	case l.owner != p.Owner && l.until.After(now):
		return store.LockResult{Owner: l.owner, Until: l.until}, nil
	case p.For == 0:
		delete(s.locks, key)
		return store.LockResult{}, nil
	}
	l = lock{p.Owner, after(now, p.For)}
	s.locks[key] = l
	return store.LockResult{Held: true, Owner: l.owner, Until: l.until}, nil
}
