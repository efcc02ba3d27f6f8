package deploys_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/conformance/internal/deploys"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// watch is a store that compares each lease with a prediction. When a worker claims a run, it
// checks the run's history against the code of the worker's build. Nothing but the
// lease's holder changes the history from then on, so the prediction is for exactly the
// history that the worker sees.
type watch struct {
	*model.Store
	defs map[string][]workflow.Definition // of each build

	mu     sync.Mutex
	leases map[store.ID]*lease // the last lease of each run
	tally  tally
}

// tally is what a watch has seen.
type tally struct {
	claims     int
	givenBack  int
	executions map[execution]int
	faults     []string
}

// execution is a step of a run.
type execution struct {
	run store.ID
	key store.StepKey
}

// lease is what a worker does with a run that it has claimed.
type lease struct {
	epoch     int64
	build     string
	predicted string // why the history does not fit; empty: it fits
	executed  []store.StepKey
	recorded  int
}

func newWatch() *watch {
	return &watch{Store: model.New(model.Options{}), defs: map[string][]workflow.Definition{}, leases: map[store.ID]*lease{}, tally: tally{executions: map[execution]int{}}}
}

// deployed says which code the workers of a build run.
func (w *watch) deployed(build string, p deploys.Program) {
	_, defs := p.Definitions(deploys.Nap, func(int, string) { w.fault("the check executed a step") })
	w.defs[build] = defs
}

func (w *watch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.faults = append(w.tally.faults, fmt.Sprintf(format, args...))
}

// Claim predicts of each run that it returns whether its history fits the claiming build, if another
// build has recorded it.
func (w *watch) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	claimed, err := w.Store.Claim(ctx, p)
	for i := range claimed.Runs {
		run := &claimed.Runs[i].Run
		why, err := w.unfit(ctx, run.ID, p.Build)
		if err != nil {
			w.fault("check of run %v: %v", run.ID, err)
		}
		if run.Build == p.Build {
			why = "" // a check says what a worker of another build does
		}
		w.mu.Lock()
		w.tally.claims++
		w.leases[run.ID] = &lease{epoch: run.Epoch, build: p.Build, predicted: why}
		w.mu.Unlock()
	}
	return claimed, err
}

// unfit checks the run as it is now, and returns why its history does not fit the build.
func (w *watch) unfit(ctx context.Context, id store.ID, build string) (string, error) {
	eng := engine.New(w.Store, quiet)
	defer eng.Close()
	var export bytes.Buffer
	if err := eng.Export(ctx, &export, id); err != nil {
		return "", err
	}
	report, err := worker.CheckExport(ctx, &export, eng.Codec(), w.defs[build])
	if err != nil || report.OK() {
		return "", err
	}
	return report.Misfits[0].Reason, nil
}

// executes is told of each execution of a step, before the step's function is called.
func (w *watch) executes(step worker.StepCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.executions[execution{step.Run, step.Key}]++
	l := w.leases[step.Run]
	l.executed = append(l.executed, step.Key)
}

// Commit compares what becomes of each lease with its prediction.
func (w *watch) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	leases := make([]*lease, len(p.Commits)) // as they are before the run can be claimed again
	w.mu.Lock()
	for i := range p.Commits {
		leases[i] = w.leases[p.Commits[i].Lease.Run]
	}
	w.mu.Unlock()
	results, err := w.Store.Commit(ctx, p)
	for i := range results {
		if results[i].Err == nil {
			w.committed(leases[i], &p.Commits[i])
		}
	}
	return results, err
}

func (w *watch) committed(l *lease, c *store.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.recorded += len(c.Steps)
	if c.Transition == nil {
		return
	}
	gaveBack := c.Transition.Kind == store.GiveBack
	drained := c.Transition.Kind == store.Release && l.recorded == 0
	say := func(format string, args ...any) {
		w.tally.faults = append(w.tally.faults, fmt.Sprintf("build %s, run %v, epoch %d: ", l.build, c.Lease.Run, l.epoch)+fmt.Sprintf(format, args...))
	}
	if gaveBack {
		w.tally.givenBack++
	}
	switch {
	case gaveBack && l.predicted == "":
		say("gave the run back, which the check did not predict: %+v", *c.Pin)
	case !gaveBack && !drained && l.predicted != "":
		say("%v, but the check predicted that the history does not fit: %s", c.Transition.Kind, l.predicted)
	}
	if (gaveBack || l.predicted != "") && len(l.executed) > 0 {
		say("executed %v under a history that does not fit: %s", l.executed, l.predicted)
	}
	if (gaveBack || l.predicted != "") && l.recorded > 0 {
		say("recorded %d steps under a history that does not fit: %s", l.recorded, l.predicted)
	}
}
