package worker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ramp is what a worker does about [Share]: its own, and those of workers of other builds.
type ramp struct {
	given bool // an option has set the share
	share float64

	mu     sync.Mutex
	others []store.Worker     // online ones of other builds, when they were last listed
	listed time.Time          // when that was
	left   map[buildLane]bool // lanes that runs were left to; each is watched until no worker serves it
}

// buildLane is a workflow in a queue, as one build takes it.
type buildLane struct{ build, queue, workflow string }

const (
	// shareLabel is the label that shows a worker's share.
	shareLabel = "pawl.share"
	// othersFor is how long a list of the other builds' workers is used.
	othersFor = 2 * time.Second
	// silent is how long another build's idle worker must not have reported to be asked whether
	// it is alive.
	silent = 20 * time.Second
	// watchEvery is how often a worker with a share looks whether those that it has left runs to
	// are still there.
	watchEvery = 10 * time.Second
	// lapseEvery is how often some worker of the namespace looks for runs that were left to a
	// build without online workers.
	lapseEvery = 5 * time.Minute
	lapseLock  = "pawl.ramp"
	// lapseRest is how many times as long as such a look takes there is none.
	lapseRest = 20
)

// check reports what is wrong with the share.
func (r *ramp) check(build string) error {
	switch {
	case !r.given:
		return nil
	case math.IsNaN(r.share) || r.share <= 0 || r.share > 1:
		return store.Invalid("share", fmt.Sprintf("%v is out of range; want a share above 0 and at most 1: worker.Share(0.1) takes a tenth of the new runs", r.share))
	case build == "":
		return store.Invalid("share", "a worker with a share needs a build; set it with worker.Build")
	}
	return nil
}

// partial reports whether the worker leaves runs to other builds.
func (r *ramp) partial() bool { return r.given && r.share < 1 }

// takes reports whether a run is within the share. The answer depends on nothing else.
func (r *ramp) takes(id store.ID) bool {
	sum := sha256.Sum256(id[:])
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < r.share
}

// labels adds the share to the labels of a registration.
func (r *ramp) labels(labels map[string]string) map[string]string {
	if !r.given {
		return labels
	}
	all := map[string]string{shareLabel: strconv.FormatFloat(r.share, 'g', -1, 64)}
	maps.Copy(all, labels)
	return all
}

// served reports whether an online worker of a lane's build takes runs from it.
func served(workers []store.Worker, l buildLane) bool {
	return slices.ContainsFunc(workers, func(w store.Worker) bool { return w.Build == l.build && w.Serves(l.queue, l.workflow) })
}

// target returns the build that runs of a queue and workflow are left to: one without a share if
// there is one, of these the one with the most workers, and of these the first by name. It is
// empty if no other build serves them.
func (r *ramp) target(queue, workflow string) (build string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := map[string]int{}
	for i := range r.others {
		if w := &r.others[i]; w.Serves(queue, workflow) {
			votes[w.Build]++
			if w.Labels[shareLabel] == "" {
				votes[w.Build] += store.MaxPage
			}
		}
	}
	for name, n := range votes {
		if best := votes[build]; n > best || n == best && name < build {
			build = name
		}
	}
	return build
}

// listedOthers returns the online workers of other builds, as they were last listed.
func (r *ramp) listedOthers() []store.Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.others
}

// watch remembers that runs are left to a lane.
func (r *ramp) watch(l buildLane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil {
		r.left = make(map[buildLane]bool)
	}
	r.left[l] = true
}

// deserted returns the lanes that runs were left to and that no worker serves any more.
func (r *ramp) deserted() (lanes []buildLane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.left {
		if !served(r.others, l) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

func (r *ramp) forget(l buildLane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.left, l)
}

// online lists the online workers. Idle ones are asked for a sign of life; the answers count the
// next time.
func (w *Worker) online(ctx context.Context) ([]store.Worker, error) {
	list, err := store.AllWorkers(ctx, w.store, store.ListWorkersParams{Namespace: w.namespace, NoHeld: true})
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(o store.Worker) bool { return o.Status != store.Online })
	if slices.ContainsFunc(list, func(o store.Worker) bool { return o.Answers > 0 && o.Build != w.cfg.Build }) {
		_, err = w.store.AskWorkers(ctx, store.AskWorkersParams{Namespace: w.namespace, Silent: silent})
	}
	return list, err
}

// look lists the workers of other builds, unless that was done lately. After a failure, those
// that were listed before count.
func (w *Worker) look(ctx context.Context) {
	r := &w.ramp
	r.mu.Lock()
	fresh := time.Since(r.listed) < othersFor
	r.mu.Unlock()
	if fresh {
		return
	}
	var list []store.Worker
	err := limited(ctx, w.shortTimeout(), func(ctx context.Context) (err error) {
		list, err = w.online(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.log.Warn("failed to list the workers of other builds", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = time.Now()
	if err == nil {
		r.others = slices.DeleteFunc(list, func(o store.Worker) bool { return o.Build == "" || o.Build == w.cfg.Build })
	}
}

// shortTimeout limits a call that the claim loop waits for.
func (w *Worker) shortTimeout() time.Duration { return min(w.callTimeout(), 5*time.Second) }

// leave gives new runs back that are not within the share and that another build serves. It
// returns the runs that the worker keeps.
func (w *Worker) leave(ctx context.Context, invs []*exec.Invocation) (kept []*exec.Invocation) {
	if !w.ramp.partial() || ctx.Err() != nil {
		return invs
	}
	pins := make(map[*exec.Invocation]*store.Pin)
	var left []*exec.Invocation
	for _, inv := range invs {
		run := inv.Run()
		if w.ramp.takes(run.ID) || !inv.Fresh() {
			kept = append(kept, inv)
			continue
		}
		w.look(ctx)
		build := w.ramp.target(run.Queue, run.Workflow)
		if build == "" {
			kept = append(kept, inv)
			continue
		}
		w.ramp.watch(buildLane{build, run.Queue, run.Workflow})
		pins[inv] = &store.Pin{Build: build, By: w.cfg.Build, Ramp: true}
		left = append(left, inv)
	}
	each(left, func(inv *exec.Invocation) { inv.Leave(pins[inv]) })
	return kept
}

// takeUp unpins the runs that another build's share has left to this one, so that from now on
// they are like any other. It returns the runs to execute. If it fails, these runs are released:
// no run that is executed is pinned because of a share.
func (w *Worker) takeUp(invs []*exec.Invocation) []*exec.Invocation {
	var ids []store.ID
	var ramped, others []*exec.Invocation
	for _, inv := range invs {
		if pin := inv.Run().Pin; pin != nil && pin.Ramp {
			ids, ramped = append(ids, inv.Lease().Run), append(ramped, inv)
		} else {
			others = append(others, inv)
		}
	}
	if len(ids) == 0 {
		return invs
	}
	err := limited(w.stop, w.shortTimeout(), func(ctx context.Context) error { return w.unpin(ctx, ids) })
	if err == nil {
		for _, inv := range ramped {
			inv.Unpinned()
		}
		return invs
	}
	w.log.Warn("failed to unpin runs that another build's share left to this build; releasing them", "runs", len(ids), "error", err)
	each(ramped, func(inv *exec.Invocation) { inv.PutOff(time.Second) })
	return others
}

// unpin unpins runs. A run that is not pinned any more is no error.
func (w *Worker) unpin(ctx context.Context, ids []store.ID) error {
	for ids := range slices.Chunk(ids, store.MaxBatch) {
		if _, err := w.store.Unpin(ctx, store.UnpinParams{Namespace: w.namespace, IDs: ids}); err != nil {
			return err
		}
	}
	return nil
}

// watchLoop unpins the runs that this worker has left to lanes that no worker serves any more.
func (w *Worker) watchLoop(ctx context.Context) {
	for sleep(ctx, watchEvery) {
		w.look(ctx)
		for _, l := range w.ramp.deserted() {
			filter := store.RunFilter{PinnedTo: []string{l.build}, Queue: l.queue, Workflow: l.workflow}
			if err := w.lapse(ctx, w.ramp.listedOthers(), filter); err == nil {
				w.ramp.forget(l)
			} else if ctx.Err() == nil {
				w.log.Error("failed to unpin runs that this worker's share left to a build without online workers; retrying", "build", l.build, "in", watchEvery, "error", err)
			}
		}
	}
}

// lapseLoop does the same for the shares of all workers, which may be gone.
func (w *Worker) lapseLoop(ctx context.Context) {
	for wait := tidyAgain + rand.N(tidyAgain); sleep(ctx, max(wait, w.poll)); wait = lapseEvery {
		w.lapseAll(ctx)
	}
}

// lapseAll does it once, unless another worker has done it lately.
func (w *Worker) lapseAll(ctx context.Context) {
	if err := w.tryLapseAll(ctx); err != nil && ctx.Err() == nil {
		w.log.Error("failed to look for runs that were left to a build without online workers; retrying", "error", err)
	}
}

func (w *Worker) tryLapseAll(ctx context.Context) error {
	builds, err := store.AllBuilds(ctx, w.store, store.ListBuildsParams{Namespace: w.namespace, MaxScan: 1})
	if err != nil {
		return err
	}
	builds = slices.DeleteFunc(builds, func(b store.Build) bool { return b.Pinned == 0 })
	if len(builds) == 0 {
		return nil
	}
	take := func(d time.Duration) (bool, error) {
		lock, err := w.store.Lock(ctx, store.LockParams{Namespace: w.namespace, Name: lapseLock, Owner: w.id, For: d})
		return lock.Held, err
	}
	if held, err := take(lapseEvery * 9 / 10); err != nil || !held {
		return err
	}
	workers, err := w.online(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, b := range builds {
		if err := w.lapse(ctx, workers, store.RunFilter{PinnedTo: []string{b.Name}}); err != nil {
			return err
		}
	}
	// A list reads all unfinished runs that are pinned to the build. If there are many, it is done
	// less often.
	if rest := lapseRest * time.Since(began); rest > lapseEvery {
		_, err = take(rest)
	}
	return err
}

// lapse unpins the runs of a filter that a share has left to a build of which none of the workers
// serves them. Such a run never sleeps: see takeUp.
func (w *Worker) lapse(ctx context.Context, workers []store.Worker, filter store.RunFilter) error {
	filter.Statuses = []store.Status{store.Pending, store.Running, store.Paused, store.Canceling}
	for p := (store.ListParams{Namespace: w.namespace, Filter: filter, Limit: store.MaxPage}); ; {
		page, err := w.store.List(ctx, p)
		if err != nil {
			return err
		}
		var ids []store.ID
		for i := range page.Runs {
			run := &page.Runs[i]
			if run.Pin != nil && run.Pin.Ramp && !served(workers, buildLane{run.Pin.Build, run.Queue, run.Workflow}) {
				ids = append(ids, run.ID)
			}
		}
		if len(ids) > 0 {
			if err := w.unpin(ctx, ids); err != nil {
				return err
			}
			w.log.Info("unpinned runs that a share had left to a build without online workers", "build", filter.PinnedTo[0], "runs", len(ids))
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return nil
		}
	}
}
