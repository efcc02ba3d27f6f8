package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Retention says how long final runs are kept after their end, by how they ended. Zero keeps them
// for ever, and a negative value makes worker.Worker.Run fail. Keep runs for at least as long as a
// program may ask for a result.
type Retention struct {
	Completed time.Duration `json:"completed,omitempty"`
	Failed    time.Duration `json:"failed,omitempty"`
	Canceled  time.Duration `json:"canceled,omitempty"`
}

// KeepFor keeps final runs for d, however they ended.
func KeepFor(d time.Duration) Retention { return Retention{Completed: d, Failed: d, Canceled: d} }

// Retain sets how long final runs are kept: those of the named workflows or, without names,
// of all workflows that have no retention of their own. The default is for ever. Workers on
// this engine register it with their workflows. Whichever worker of the namespace does the
// housekeeping follows it, even after the program that registered it is gone. The latest
// registration counts.
//
// A run is deleted with its steps, state and signals. A child is kept as long as its parent
// is not final; then the retention of its own workflow counts. Keep children at least as
// long as their parents, so that a parent that is restarted or looked at has them.
func Retain(r Retention, workflows ...string) Option {
	return func(e *Engine) {
		if len(workflows) == 0 {
			e.retention[""] = r
		}
		for _, name := range workflows {
			e.retention[name] = r
		}
	}
}

// workflowMeta is what the engine keeps with a registered workflow.
type workflowMeta struct {
	Retention  Retention        `json:"retention,omitzero"`
	Graph      json.RawMessage  `json:"graph,omitempty"`
	Encryption Encryption       `json:"encryption,omitempty"` // of the workers' codec
	Under      []exec.LimitNeed `json:"under,omitempty"`
}

// registration is how a worker registers a workflow, with its graph, if it has one, its limits,
// and what this engine knows of it. It fails with store.ErrInvalid or store.ErrTooLarge when
// that is wrong.
func (e *Engine) registration(workflow, queue string, graph json.RawMessage, needs []exec.LimitNeed) (store.Workflow, error) {
	r, ok := e.retention[workflow]
	if !ok {
		r = e.retention[""]
	}
	v := store.Workflow{Name: workflow, Queue: queue}
	for _, d := range []time.Duration{r.Completed, r.Failed, r.Canceled} {
		if d < 0 {
			return v, store.Invalid("retention", fmt.Sprintf("%v for workflow %q is negative; use 0 to keep runs forever", d, workflow))
		}
	}
	enc := EncryptionOf(e.codec)
	if r == (Retention{}) && graph == nil && enc == EncryptionNone && len(needs) == 0 {
		return v, nil
	}
	meta, err := json.Marshal(workflowMeta{Retention: r, Graph: graph, Encryption: enc, Under: needs})
	if len(meta) > store.MaxMeta {
		return v, &store.TooLargeError{Field: fmt.Sprintf("the metadata of workflow %q (mostly its graph)", workflow), Size: len(meta), Limit: store.MaxMeta}
	}
	v.Meta = meta
	return v, err
}

// RetentionOf returns the registered retention of each workflow that has one, by name.
func (e *Engine) RetentionOf(ctx context.Context) (map[string]Retention, error) {
	found, err := e.listWorkflow(ctx)
	if err != nil {
		return nil, fmt.Errorf("registered workflows: %w", err)
	}
	all := make(map[string]Retention)
	for _, v := range found {
		var m workflowMeta
		if json.Unmarshal(v.Meta, &m) == nil && m.Retention != (Retention{}) {
			all[v.Name] = m.Retention
		}
	}
	return all, nil
}

// Purge deletes the final runs that a filter selects, with everything that belongs to them,
// oldest first and in bounded batches. It returns how many it has deleted. Zero fields of
// the filter select every final run. Children of parents that are not final are kept. When
// it fails, what was deleted stays deleted; the same call again does the rest.
func (e *Engine) Purge(ctx context.Context, f PurgeFilter) (int, error) {
	if e.fault != nil {
		return 0, e.fault
	}
	// All batches have the same action, which the first one records.
	record := e.acts(ctx, "purge", "runs", fmt.Sprintf("workflow %q, statuses %v, older than %v, at most %d", f.Workflow, f.Statuses, f.OlderThan, f.Limit))
	n, err := e.purge(ctx, f, record, nil)
	e.actedOn(ctx, record, err)
	return n, err
}

// PurgeFilter selects final runs to be deleted.
type PurgeFilter struct {
	Workflow  string         // empty: any
	Statuses  []store.Status // empty: any final status
	OlderThan time.Duration  // since their end, by the store's clock
	Limit     int            // how many at most; 0: all
}

// purgeBatch limits the runs that one write deletes.
const purgeBatch = 500

// purge deletes in batches. Between two batches it pauses for as long as the last one
// took, so that at least half of the store's time is left to others. before is called
// before each batch.
func (e *Engine) purge(ctx context.Context, f PurgeFilter, record []store.Action, before func(context.Context) error) (sum int, err error) {
	if f.Limit < 0 {
		return 0, store.Invalid("limit", fmt.Sprintf("%d is negative", f.Limit))
	}
	for {
		if before != nil {
			if err := before(ctx); err != nil {
				return sum, err
			}
		}
		p := store.PurgeParams{Namespace: e.namespace, Workflow: f.Workflow, Statuses: f.Statuses, OlderThan: f.OlderThan, Limit: purgeBatch, Record: record}
		if f.Limit > 0 {
			p.Limit = min(p.Limit, f.Limit-sum)
		}
		from := time.Now()
		unknown, n := false, 0
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			n, err = e.store.Purge(ctx, p)
			unknown = unknown || errors.Is(err, store.ErrOutcomeUnknown)
			return err
		})
		if err != nil {
			return sum, fmt.Errorf("purge: %w", err)
		}
		sum += n
		// A batch whose answer was lost may have been deleted completely.
		if n < p.Limit && !unknown || f.Limit > 0 && sum >= f.Limit {
			return sum, nil
		}
		if e.root != nil {
			continue
		}
		timer := time.NewTimer(max(time.Since(from), 1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return sum, ctx.Err()
		case <-timer.C:
		}
	}
}

const (
	// deadFor is how long a worker must not have reported before its registration is
	// removed. Until then it is listed as offline.
	deadFor = 24 * time.Hour
	// How often retention is checked.
	minTidy = time.Minute
	maxTidy = time.Hour
)

// tidy deletes the runs that retention selects, removes the registrations of workers
// that died long ago, and drops changes that have waited for too long. Pass.Next is when to do it again.
func (h *housekeeper) tidy(ctx context.Context) (pass Pass, err error) {
	e := h.engine
	defer func() { h.tidied.next = pass.Next }()
	workers, deadErr := e.removeDead(ctx)
	dropped, dropErr := e.dropChanges(ctx)
	pass.Workers, pass.Dropped, deadErr = workers, dropped, errors.Join(deadErr, dropErr)
	all, err := e.RetentionOf(ctx)
	if err != nil {
		return pass, errors.Join(deadErr, err)
	}
	h.tidied.kept = all
	// A run may be kept longer by a tenth of the shortest retention.
	every := maxTidy
	for _, r := range all {
		for _, d := range []time.Duration{r.Completed, r.Failed, r.Canceled} {
			if d > 0 {
				every = min(every, max(minTidy, d/10))
			}
		}
	}
	pass.Next = time.Now().Add(every)
	if len(all) == 0 {
		return pass, deadErr
	}
	// The lock stays held after the pass, which tells the others that it was done.
	take := func(ctx context.Context) error {
		asked := time.Now()
		res, err := e.lock(ctx, retentionLock, h.owner, every*9/10)
		switch {
		case err != nil:
			return fmt.Errorf("the lock %q: %w", retentionLock, err)
		case !res.Held:
			pass.Elsewhere = true
			return errElsewhere
		}
		pass.Next = asked.Add(every)
		return nil
	}
	held := time.Time{}
	renew := func(ctx context.Context) error {
		if time.Since(held) < every/4 {
			return nil
		}
		held = time.Now()
		return take(ctx)
	}
	errs := []error{deadErr}
	for workflow, r := range all {
		for d, statuses := range r.byAge() {
			n, err := e.purge(ctx, PurgeFilter{Workflow: workflow, Statuses: statuses, OlderThan: d}, nil, renew)
			pass.Purged += n
			switch {
			case errors.Is(err, errElsewhere):
				return pass, errors.Join(errs...)
			case ctx.Err() != nil:
				return pass, ctx.Err()
			case err != nil:
				errs = append(errs, fmt.Errorf("retention of workflow %q: %w", workflow, err))
			}
		}
	}
	return pass, errors.Join(errs...)
}

// tidied is the result of a pass of tidy.
type tidied struct {
	kept map[string]Retention // by workflow
	next time.Time            // when to tidy again
}

// purgePage is how many runs are read to find when the next one is to be deleted.
const purgePage = 100

// nextPurge returns when retention, as the last tidy has read it, next deletes a run, by
// this machine's clock, and not before tidy is to be called again; zero means that it
// keeps all runs that are final now. It reads the hundred final runs that ended first, of
// the statuses that some retention deletes. If all of these are kept for longer than
// later ones may be, it returns when a later one may be deleted first.
func (h *housekeeper) nextPurge(ctx context.Context) (next time.Time, err error) {
	statuses, shortest := retained(h.tidied.kept)
	if len(statuses) == 0 {
		return time.Time{}, nil
	}
	e := h.engine
	var now, answered time.Time
	var page store.RunPage
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		if now, err = e.store.Clock(ctx); err != nil {
			return err
		}
		answered = time.Now()
		page, err = e.list(ctx, store.ListParams{Filter: store.RunFilter{Statuses: statuses}, ByEnd: true, OldestFirst: true, Limit: purgePage})
		return err
	})
	if err != nil {
		return h.tidied.next, fmt.Errorf("find the final runs that ended first: %w", err)
	}
	for i := range page.Runs {
		r := &page.Runs[i]
		if d := h.tidied.kept[r.Workflow].of(r.Status); d > 0 {
			next = earliest(next, r.FinishedAt.Add(d))
		}
	}
	if page.Next != "" {
		next = earliest(next, page.Runs[len(page.Runs)-1].FinishedAt.Add(shortest))
	}
	if next.IsZero() {
		return next, nil
	}
	if next = answered.Add(next.Sub(now)); next.Before(h.tidied.next) {
		return h.tidied.next, nil
	}
	return next, nil
}

// retained returns the final statuses that some retention deletes, and the shortest time
// for which a run is kept.
func retained(all map[string]Retention) (statuses []store.Status, shortest time.Duration) {
	for _, status := range []store.Status{store.Completed, store.Failed, store.Canceled} {
		deletes := false
		for _, r := range all {
			if d := r.of(status); d > 0 {
				deletes = true
				if shortest == 0 || d < shortest {
					shortest = d
				}
			}
		}
		if deletes {
			statuses = append(statuses, status)
		}
	}
	return statuses, shortest
}

// of returns how long a run with this final status is kept; zero means forever.
func (r Retention) of(status store.Status) time.Duration {
	switch status {
	case store.Completed:
		return r.Completed
	case store.Failed:
		return r.Failed
	case store.Canceled:
		return r.Canceled
	}
	return 0
}

var errElsewhere = errors.New("another process holds the lock")

// byAge groups the final statuses by how long runs are kept.
func (r Retention) byAge() map[time.Duration][]store.Status {
	ages := make(map[time.Duration][]store.Status)
	for _, status := range []store.Status{store.Completed, store.Failed, store.Canceled} {
		if d := r.of(status); d > 0 {
			ages[d] = append(ages[d], status)
		}
	}
	return ages
}

// removeDead removes the registrations of workers that have not reported for deadFor.
func (e *Engine) removeDead(ctx context.Context) (removed int, err error) {
	var workers []store.Worker
	var now time.Time
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		if now, err = e.store.Clock(ctx); err == nil {
			workers, err = store.AllWorkers(ctx, e.store, store.ListWorkersParams{Namespace: e.namespace})
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("workers: %w", err)
	}
	for _, w := range workers {
		if w.Status != store.Offline || w.Held > 0 || now.Sub(w.SeenAt) < deadFor {
			continue
		}
		err := e.retry(ctx, func(ctx context.Context) error {
			return e.store.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: e.namespace, ID: w.ID})
		})
		if err != nil {
			return removed, fmt.Errorf("remove dead worker %q: %w", w.ID, err)
		}
		removed++
	}
	return removed, nil
}
