package backend

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Registry, schedules and journal are records of package storekit, which a transaction holds
// (see tx.go).

// act runs a verb that writes records and returns nothing.
func act(ctx context.Context, s *Store, invalid error, now time.Time, do func(*tx) error) error {
	_, err := update(ctx, s, invalid, now, func(t *tx) (struct{}, error) { return struct{}{}, do(t) })
	return err
}

// record records the action of an item of a call, if the call has a Record (P30).
func (t *tx) record(namespace string, record []store.Action, item int, changed bool) {
	check(storekit.RecordItem(t, namespace, record, item, changed, t.now))
}

// rescan tells everybody to look again.
func (t *tx) rescan() { t.hints = append(t.hints, store.Hint{Kind: store.HintRescan}) }

// PutWorker implements [store.Registry].
func (s *Store) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error { return storekit.PutWorker(t, &p, t.now) })
}

// RemoveWorker implements [store.Registry].
func (s *Store) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	return act(ctx, s, p.Validate(), noTime, func(t *tx) error { return storekit.RemoveWorker(t, &p) })
}

// AskWorkers implements [store.Registry].
func (s *Store) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (int, error) {
		asked, err := storekit.AskWorkers(t, &p, t.now)
		if asked > 0 {
			t.rescan()
		}
		return asked, err
	})
}

// ListWorkers implements [store.Registry].
func (s *Store) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (store.WorkerPage, error) {
		held := func(worker string) (int64, error) { return int64(len(t.ids(heldKey(p.Namespace, worker).All()))), nil }
		return storekit.ListWorkers(t, &p, held, t.now)
	})
}

// ListBuilds implements [store.Registry].
func (s *Store) ListBuilds(ctx context.Context, p store.ListBuildsParams) (store.BuildPage, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (store.BuildPage, error) {
		pinned, runs := map[string]int64{}, map[string]int64{}
		pins := keyOf(kindPinned).Name(p.Namespace)
		after, err := p.Position()
		if err != nil {
			return store.BuildPage{}, err
		}
		rest := pins.All()
		if after != "" {
			rest.From = pins.Name(after).End()
		}
		for k := range t.scan(rest, false) {
			name, _, _ := bytes.Cut(k.Key[len(pins):], []byte{0})
			pinned[string(name)]++
		}
		most, seen := cmp.Or(p.MaxScan, store.DefaultScan), 0
		active := store.RunFilter{Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}}
		for id := range t.listed(p.Namespace, &active, listing{}) {
			if seen++; seen > most {
				break
			}
			runs[t.run(p.Namespace, id).Build]++
		}
		return storekit.ListBuilds(t, &p, pinned, runs, seen > most, t.now)
	})
}

// PutWorkflows implements [store.Registry].
func (s *Store) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error { return storekit.PutWorkflows(t, &p, t.now) })
}

// ListWorkflows implements [store.Registry].
func (s *Store) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.WorkflowPage, error) { return storekit.ListWorkflows(t, &p) })
}

// PauseTarget implements [store.Registry].
func (s *Store) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error {
		resumed, err := storekit.PauseTarget(t, &p, t.now)
		if resumed {
			t.rescan() // a workflow's runs may be in any queue
		}
		return err
	})
}

// ListPaused implements [store.Registry].
func (s *Store) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.PausedPage, error) { return storekit.ListPaused(t, &p) })
}

// Lock implements [store.Registry].
func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (store.LockResult, error) { return storekit.TakeLock(t, &p, t.now) })
}

// PutSchedule implements [store.Schedules].
func (s *Store) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	return update(ctx, s, p.Validate(s.limits), p.Now, func(t *tx) (store.Schedule, error) {
		t.rescan()
		return storekit.PutSchedule(t, &p, t.now)
	})
}

// DeleteSchedule implements [store.Schedules].
func (s *Store) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error { return storekit.DeleteSchedule(t, &p, t.now) })
}

// ListSchedules implements [store.Schedules].
func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (store.SchedulePage, error) { return storekit.ListSchedules(t, &p, t.now) })
}

// Fire implements [store.Schedules].
func (s *Store) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return update(ctx, s, p.Validate(s.limits), p.Now, func(t *tx) (store.FireResult, error) {
		create := func(n *store.NewRun) (store.CreateResult, error) { return t.create(p.Namespace, n), nil }
		return storekit.Fire(t, &p, create, t.now)
	})
}

// ListFirings implements [store.Schedules].
func (s *Store) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.FiringPage, error) { return storekit.ListFirings(t, &p) })
}

// Record implements [store.Journal].
func (s *Store) Record(ctx context.Context, p store.RecordParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error { return storekit.RecordActions(t, &p, t.now) })
}

// ListActions implements [store.Journal].
func (s *Store) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.ActionPage, error) { return storekit.ListActions(t, &p) })
}
