package storekit

import (
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// PutWorker implements [store.Registry].
func PutWorker(t Records, p *store.PutWorkerParams, now time.Time) error {
	key := Key{KindWorker, p.Namespace, p.Worker.ID}
	var old store.Worker
	exists, err := get(t, key, &old)
	if err != nil {
		return err
	}
	w := p.Worker
	w.TTL, w.Answers = RoundUp(w.TTL), RoundUp(w.Answers)
	w.StartedAt, w.SeenAt, w.AskedAt, w.Held = now, now, time.Time{}, 0
	if exists {
		w.StartedAt = old.StartedAt
	}
	return put(t, key, &w)
}

// RemoveWorker implements [store.Registry].
func RemoveWorker(t Records, p *store.RemoveWorkerParams) error {
	return t.Delete(Key{KindWorker, p.Namespace, p.ID})
}

// WorkerSeen records that a worker has given a sign of life: each Extend is one. A worker
// that was never put is left alone.
func WorkerSeen(t Records, namespace, id string, now time.Time) error {
	key := Key{KindWorker, namespace, id}
	var w store.Worker
	if exists, err := get(t, key, &w); err != nil || !exists {
		return err
	}
	w.SeenAt, w.AskedAt = now, time.Time{}
	return put(t, key, &w)
}

// WorkerAsked reports whether a worker is asked for a sign of life: [store.Claimed].Asked of a
// claim that names a workflow.
func WorkerAsked(t Records, namespace, id string) (bool, error) {
	var w store.Worker
	_, err := get(t, Key{KindWorker, namespace, id}, &w)
	return !w.AskedAt.IsZero(), err
}

// AskWorkers implements [store.Registry]. If it has asked any, a backend with hints
// publishes a HintRescan.
func AskWorkers(t Records, p *store.AskWorkersParams, now time.Time) (asked int, err error) {
	var ask []store.Worker
	for w, err := range each[store.Worker](t, KindWorker, p.Namespace, "", "", false) {
		if err != nil {
			return 0, err
		}
		silent := !w.SeenAt.After(now.Add(-RoundUp(p.Silent)))
		if w.Answers > 0 && w.AskedAt.IsZero() && silent && w.SeenAt.Add(w.TTL).After(now) {
			ask = append(ask, w)
		}
	}
	for _, w := range ask {
		w.AskedAt = now
		if err := put(t, Key{KindWorker, p.Namespace, w.ID}, &w); err != nil {
			return 0, err
		}
	}
	return len(ask), nil
}

// ListWorkers implements [store.Registry]. Held returns how many runs a worker holds; it
// is not asked if p says NoHeld.
func ListWorkers(t Records, p *store.ListWorkersParams, held func(worker string) (int64, error), now time.Time) (out store.WorkerPage, err error) {
	after, err := p.Position()
	if err != nil {
		return out, err
	}
	var more bool
	out.Workers, more, err = page(each[store.Worker](t, KindWorker, p.Namespace, behind(after), "", false), p.Limit, workerSize)
	if err != nil {
		return store.WorkerPage{}, err
	}
	for i := range out.Workers {
		w := &out.Workers[i]
		if isOffline(w, now) {
			w.Status = store.Offline
		}
		if p.NoHeld {
			continue
		}
		if w.Held, err = held(w.ID); err != nil {
			return store.WorkerPage{}, err
		}
	}
	if more {
		out.Next = p.NextCursor(out.Workers[len(out.Workers)-1].ID)
	}
	return out, nil
}

// ListBuilds implements [store.Registry]. Pinned counts the unfinished runs that are pinned to
// each build. Runs counts, by build, those of which it recorded the last step, among the
// p.MaxScan unfinished runs that were created last; capped says that there are more.
func ListBuilds(t Records, p *store.ListBuildsParams, pinned, runs map[string]int64, capped bool, now time.Time) (out store.BuildPage, err error) {
	after, err := p.Position()
	if err != nil {
		return out, err
	}
	builds := map[string]*store.Build{}
	of := func(name string) *store.Build {
		if builds[name] == nil {
			builds[name] = &store.Build{Name: name, Capped: capped}
		}
		return builds[name]
	}
	for w, err := range each[store.Worker](t, KindWorker, p.Namespace, "", "", false) {
		if err != nil {
			return out, err
		}
		if w.Build == "" || isOffline(&w, now) {
			continue
		}
		of(w.Build).Workers++
		if w.Status == store.Online {
			of(w.Build).Online++
		}
	}
	for name, n := range pinned {
		of(name).Pinned = n
	}
	for name, n := range runs {
		of(name).Runs = n
	}
	delete(builds, "")
	limit, err := store.Page(p.Limit)
	for _, name := range slices.Sorted(maps.Keys(builds)) {
		if name <= after {
			continue
		}
		if len(out.Builds) == limit {
			out.Next = p.NextCursor(out.Builds[limit-1].Name)
			break
		}
		out.Builds = append(out.Builds, *builds[name])
	}
	return out, err
}

// isOffline reports whether a worker that was put as online or draining is offline now.
func isOffline(w *store.Worker, now time.Time) bool {
	return !w.SeenAt.Add(w.TTL).After(now) || !w.AskedAt.IsZero() && !w.AskedAt.Add(w.Answers).After(now)
}

// PutWorkflows implements [store.Registry].
func PutWorkflows(t Records, p *store.PutWorkflowsParams, now time.Time) error {
	for _, w := range p.Workflows {
		w.UpdatedAt = now
		if err := put(t, Key{KindWorkflow, p.Namespace, w.Name}, &w); err != nil {
			return err
		}
	}
	return nil
}

// ListWorkflows implements [store.Registry].
func ListWorkflows(t Records, p *store.ListWorkflowsParams) (out store.WorkflowPage, err error) {
	after, err := p.Position()
	if err != nil {
		return out, err
	}
	wanted := oneOf(p.Names)
	all := each[store.Workflow](t, KindWorkflow, p.Namespace, behind(after), "", false)
	named := where(all, func(w *store.Workflow) bool { return wanted(w.Name) })
	var more bool
	out.Workflows, more, err = page(named, p.Limit, func(w *store.Workflow) int { return len(w.Meta) })
	if more {
		out.Next = p.NextCursor(out.Workflows[len(out.Workflows)-1].Name)
	}
	return out, err
}

// oneOf returns a function that reports whether a name is in a list; an empty list has all.
func oneOf(names []string) func(string) bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return func(name string) bool { return len(set) == 0 || set[name] }
}

// pausedKey names what is paused. Names have no control characters.
func pausedKey(namespace, queue, workflow string) Key {
	return Key{KindPaused, namespace, queue + "\x00" + workflow}
}

// PauseTarget implements [store.Registry]. If it has resumed a queue or a workflow, a backend
// with hints publishes a HintRescan.
func PauseTarget(t Records, p *store.PauseTargetParams, now time.Time) (resumed bool, err error) {
	key := pausedKey(p.Namespace, p.Queue, p.Workflow)
	already, err := t.Get(key)
	if err == nil {
		err = RecordItem(t, p.Namespace, p.Record, 0, p.Resume == (already != nil), now)
	}
	switch {
	case err != nil:
		return false, err
	case p.Resume && already != nil:
		return true, t.Delete(key)
	case !p.Resume && already == nil:
		return false, put(t, key, store.PausedTarget{Queue: p.Queue, Workflow: p.Workflow, Since: now})
	}
	return false, nil
}

// Paused reports whether the queue or the workflow of a lane is paused: its runs are not
// claimed.
func Paused(t Records, namespace string, l Lane) (bool, error) {
	queue, err := t.Get(pausedKey(namespace, l.Queue, ""))
	if err != nil || queue != nil {
		return queue != nil, err
	}
	workflow, err := t.Get(pausedKey(namespace, "", l.Workflow))
	return workflow != nil, err
}

// ListPaused implements [store.Registry].
func ListPaused(t Records, p *store.ListPausedParams) (out store.PausedPage, err error) {
	after, err := p.Position()
	if err != nil {
		return out, err
	}
	from := ""
	if after != (store.PausedTarget{}) {
		from = behind(pausedKey("", after.Queue, after.Workflow).Name)
	}
	var more bool
	out.Paused, more, err = page(each[store.PausedTarget](t, KindPaused, p.Namespace, from, "", false), p.Limit, nil)
	if more {
		out.Next = p.NextCursor(out.Paused[len(out.Paused)-1])
	}
	return out, err
}

// lock is a lock as it is stored.
type lock struct {
	Owner string
	Until time.Time
}

// TakeLock implements [store.Registry].Lock.
func TakeLock(t Records, p *store.LockParams, now time.Time) (store.LockResult, error) {
	key := Key{KindLock, p.Namespace, p.Name}
	var l lock
	_, err := get(t, key, &l)
	switch {
	case err != nil:
		return store.LockResult{}, err
	case l.Owner != p.Owner && l.Until.After(now):
		return store.LockResult{Owner: l.Owner, Until: l.Until}, nil
	case p.For == 0:
		return store.LockResult{}, t.Delete(key)
	}
	l = lock{p.Owner, After(now, p.For)}
	return store.LockResult{Held: true, Owner: l.Owner, Until: l.Until}, put(t, key, &l)
}
