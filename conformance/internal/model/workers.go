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
		s.hub.Publish(store.Hint{Kind: store.HintRescan})
	}
	return asked, nil
}

func (s *Store) ListWorkers(ctx context.Context, p store.ListWorkersParams) ([]store.Worker, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	held := map[string]int64{}
	for _, r := range s.live {
		if r.Namespace == p.Namespace && r.leased() && !p.NoHeld {
			held[r.Worker]++
		}
	}
	var out []store.Worker
	for key, w := range s.workers {
		if key.namespace != p.Namespace {
			continue
		}
		row := cloneWorker(*w)
		row.Held = held[w.ID]
		if !w.SeenAt.Add(w.TTL).After(now) || !w.AskedAt.IsZero() && !w.AskedAt.Add(w.Answers).After(now) {
			row.Status = store.Offline
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b store.Worker) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
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

func (s *Store) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) ([]store.Workflow, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Workflow
	for key, w := range s.workflows {
		if key.namespace == p.Namespace && oneOf(p.Names, w.Name) {
			w.Meta = bytes.Clone(w.Meta)
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b store.Workflow) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (s *Store) SetPaused(ctx context.Context, p store.SetPausedParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key := target{p.Namespace, p.Queue, p.Workflow}
	_, already := s.paused[key]
	switch {
	case !p.Paused:
		delete(s.paused, key)
		if already {
			s.hub.Publish(store.Hint{Kind: store.HintRescan}) // a workflow's runs may be in any queue
		}
	case !already:
		s.paused[key] = clock(p.Now)
	}
	return nil
}

func (s *Store) ListPaused(ctx context.Context, p store.ListPausedParams) ([]store.PausedTarget, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.PausedTarget
	for key, since := range s.paused {
		if key.namespace == p.Namespace {
			out = append(out, store.PausedTarget{Queue: key.queue, Workflow: key.workflow, Since: since})
		}
	}
	slices.SortFunc(out, func(a, b store.PausedTarget) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
	})
	return out, nil
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
