package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// Cancel cancels a run. One that never started, or has recorded nothing, ends at once. One
// that a worker has ends as soon as its code has heard of it and cleaned up. Any other is
// claimed once more, whatever it waited for and though it is paused, so that it can clean
// up: see workflow.Cleanup. Until then it is canceling, and who waits for it waits on; a
// paused queue or workflow holds it back. Its children follow. A canceled run stays
// canceled; one that has completed or failed gives store.ErrFinished.
func (e *Engine) Cancel(ctx context.Context, id store.ID, reason string) error {
	return e.control(ctx, id, "cancel", reason, func(ctx context.Context) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: []store.ID{id}, Reason: reason})
	})
}

// ForceCancel ends a run at once, whoever has it: for one that stays canceling because
// its code does not heed its context, or whose worker hangs. Its worker has lost it and
// cannot change it any more, so that this is safe beside a worker that lives; but what
// the code does outside goes on until it notices, and its workflow.Cleanup does not
// run. Children are canceled as by [Engine.Cancel]. One that has completed or failed
// gives store.ErrFinished.
func (e *Engine) ForceCancel(ctx context.Context, id store.ID, reason string) error {
	return e.control(ctx, id, "forced cancel", reason, func(ctx context.Context) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: []store.ID{id}, Reason: reason, Force: true})
	})
}

// Pause keeps a run from going on until [Engine.Resume]: at once when no worker has
// it, otherwise as soon as the step that is under way has ended. Its times go on, and
// what reaches it waits for it. Children are not paused. A run that is paused, or
// canceling, stays as it is; a final one gives store.ErrFinished.
func (e *Engine) Pause(ctx context.Context, id store.ID) error {
	return e.control(ctx, id, "pause", "", func(ctx context.Context) ([]store.ControlResult, error) {
		return e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: []store.ID{id}})
	})
}

// Resume lets a paused run go on as what it was; one that is not paused stays as it
// is. A final run gives store.ErrFinished.
func (e *Engine) Resume(ctx context.Context, id store.ID) error {
	return e.control(ctx, id, "resume", "", func(ctx context.Context) ([]store.ControlResult, error) {
		return e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: []store.ID{id}, Resume: true})
	})
}

// Restart lets a failed or canceled run go on from what it completed. What failed
// is tried again, without the old deadline. store.ErrConflict when the run is
// neither failed nor canceled (one that is canceling will be), store.ErrAlreadyExists when another active run has
// its external id.
func (e *Engine) Restart(ctx context.Context, id store.ID) error {
	if err := e.Record(ctx, "restart", "", "", id); err != nil {
		return err
	}
	doubt := false
	err := e.retry(ctx, func(ctx context.Context) error {
		err := e.store.Restart(ctx, store.RestartParams{Namespace: e.namespace, ID: id})
		if doubt && errors.Is(err, store.ErrConflict) {
			return nil // the request whose answer was lost has restarted it
		}
		doubt = doubt || errors.Is(err, store.ErrOutcomeUnknown)
		return err
	})
	if err != nil {
		return fmt.Errorf("restart of run %s: %w", id, err)
	}
	if !doubt {
		e.countStarted(ctx, telemetry.FromRestart, id)
	}
	return nil
}

// countStarted counts a run of which the id alone is at hand.
func (e *Engine) countStarted(ctx context.Context, origin string, id store.ID) {
	if !e.Telemetry().Counting() {
		return
	}
	runs, err := e.store.Get(ctx, store.GetParams{Namespace: e.namespace, IDs: []store.ID{id}, NoInput: true, MaxBytes: 1})
	if err == nil && len(runs) == 1 {
		e.Telemetry().Started(origin, store.RunCount{Queue: runs[0].Queue, Workflow: runs[0].Workflow, Count: 1})
	}
}

func (e *Engine) control(ctx context.Context, id store.ID, verb, details string, call func(context.Context) ([]store.ControlResult, error)) error {
	if err := e.Record(ctx, verb, "", details, id); err != nil {
		return err
	}
	err := e.retry(ctx, func(ctx context.Context) error {
		res, err := call(ctx)
		if err == nil {
			e.Telemetry().Ended(res[0].Ended)
			err = res[0].Err
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s of run %s in namespace %q: %w", verb, id, e.namespace, err)
	}
	return nil
}

// PauseQueue keeps all runs of a queue from being claimed until [Engine.ResumeQueue].
// Runs that execute go on; starts go into the queue and wait. The queue need not
// exist yet. Pausing what is paused does nothing.
func (e *Engine) PauseQueue(ctx context.Context, queue string) error {
	return e.setPaused(ctx, store.SetPausedParams{Queue: queue, Paused: true})
}

// ResumeQueue ends [Engine.PauseQueue].
func (e *Engine) ResumeQueue(ctx context.Context, queue string) error {
	return e.setPaused(ctx, store.SetPausedParams{Queue: queue})
}

// PauseWorkflow keeps all runs of a workflow, in whatever queue, from being claimed
// until [Engine.ResumeWorkflow], as [Engine.PauseQueue] does for a queue.
func (e *Engine) PauseWorkflow(ctx context.Context, workflow string) error {
	return e.setPaused(ctx, store.SetPausedParams{Workflow: workflow, Paused: true})
}

// ResumeWorkflow ends [Engine.PauseWorkflow].
func (e *Engine) ResumeWorkflow(ctx context.Context, workflow string) error {
	return e.setPaused(ctx, store.SetPausedParams{Workflow: workflow})
}

func (e *Engine) setPaused(ctx context.Context, p store.SetPausedParams) error {
	p.Namespace = e.namespace
	verb, target := "resume", "queue "+p.Queue
	if p.Paused {
		verb = "pause"
	}
	if p.Workflow != "" {
		target = "workflow " + p.Workflow
	}
	if err := e.Record(ctx, verb, target, ""); err != nil {
		return err
	}
	err := e.retry(ctx, func(ctx context.Context) error { return e.store.SetPaused(ctx, p) })
	if err == nil {
		return nil
	}
	if p.Workflow != "" {
		return fmt.Errorf("%s of workflow %q: %w", verb, p.Workflow, err)
	}
	return fmt.Errorf("%s of queue %q: %w", verb, p.Queue, err)
}

// Paused lists the queues and workflows that are paused. Paused runs are had from
// [Engine.List] by their status.
func (e *Engine) Paused(ctx context.Context) (paused []store.PausedTarget, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		paused, err = store.AllPaused(ctx, e.store, store.ListPausedParams{Namespace: e.namespace})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("what is paused in namespace %q: %w", e.namespace, err)
	}
	return paused, nil
}

// ForkOption says where a fork begins.
type ForkOption func(*forkPlan)

type forkPlan struct {
	id       store.ID
	step     string
	position int64
}

// FromStep lets the fork run a step again, with all that follows it. The step is
// named as [store.StepKey.String] writes it: "charge", "charge#2" for the second use
// of the name, "branch/charge" in a branch.
func FromStep(step string) ForkOption { return func(p *forkPlan) { p.step = step } }

// FromPosition is [FromStep] by the step's Position.
func FromPosition(position int64) ForkOption { return func(p *forkPlan) { p.position = position } }

// ForkID sets the new run's ID. Forking twice with one ID is one fork.
func ForkID(id store.ID) ForkOption { return func(p *forkPlan) { p.id = id } }

// Forked is the outcome of a fork.
type Forked struct {
	ID store.ID // of the new run
	// Kept are the steps whose recorded outcome the new run takes over; Again are
	// those that the old run has a record of and the new one runs anew.
	Kept, Again []store.StepKey
}

// Fork makes a new run out of a run of any status: with the same workflow, queue,
// priority and input, and with the outcomes of the steps that had completed before
// the step given, or of all completed ones when none is (but for those of a
// workflow.Cleanup that a cancel has caused). The rest is run anew, with
// idempotency keys of the new run. The fork has no parent, external id, deadline,
// flow state or signals of the old run, which is left alone.
//
// store.ErrNotFound when there is no such run or step; the error names the steps
// that there are.
func (e *Engine) Fork(ctx context.Context, id store.ID, opts ...ForkOption) (Forked, error) {
	var plan forkPlan
	for _, opt := range opts {
		opt(&plan)
	}
	if plan.id.IsZero() {
		plan.id = store.NewID()
	}
	steps, err := e.Steps(ctx, id)
	if err != nil {
		return Forked{}, fmt.Errorf("fork: %w", err)
	}
	p := store.ForkParams{Namespace: e.namespace, ID: id, New: plan.id}
	before := int64(-1)
	if plan.step != "" || plan.position != 0 {
		i := slices.IndexFunc(steps, func(s store.Step) bool {
			return (plan.step == "" || s.StepKey.String() == plan.step) && (plan.position == 0 || s.Position == plan.position)
		})
		if i < 0 {
			return Forked{}, fmt.Errorf("fork of run %s: %s: %w; %s", id, plan, store.ErrNotFound, stepNames(steps))
		}
		p.Before, before = &steps[i].StepKey, steps[i].Position
	}
	if p.Before == nil {
		// What cleaned up after a cancel belongs to the old course alone.
		i := slices.IndexFunc(steps, func(s store.Step) bool {
			return s.Name == exec.CleanupLimit && s.Kind == store.KindSleep && s.Status != store.StepCompleted
		})
		if i >= 0 {
			p.Before, before = &steps[i].StepKey, steps[i].Position
		}
	}
	forked := Forked{ID: plan.id}
	for _, s := range steps {
		if s.Status == store.StepCompleted && (before < 0 || s.Position < before) {
			forked.Kept = append(forked.Kept, s.StepKey)
		} else {
			forked.Again = append(forked.Again, s.StepKey)
		}
	}
	if err := e.Record(ctx, "fork", "", fmt.Sprintf("as run %s", plan.id), id); err != nil {
		return Forked{}, err
	}
	var made store.CreateResult
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		made, err = e.store.Fork(ctx, p)
		return err
	})
	if err != nil {
		return Forked{}, fmt.Errorf("fork of run %s: %w", id, err)
	}
	if !made.Repeated {
		e.countStarted(ctx, telemetry.FromFork, plan.id)
	}
	return forked, nil
}

func (p forkPlan) String() string {
	switch {
	case p.position == 0:
		return fmt.Sprintf("step %q", p.step)
	case p.step == "":
		return fmt.Sprintf("step at position %d", p.position)
	}
	return fmt.Sprintf("step %q at position %d", p.step, p.position)
}

// stepNames lists what may be forked from, the first and the last of many.
func stepNames(steps []store.Step) string {
	if len(steps) == 0 {
		return "it has no recorded step"
	}
	const most = 20
	names := make([]string, 0, most+1)
	for i, s := range steps {
		if len(steps) > most && i == most/2 {
			names = append(names, "...")
		}
		if len(steps) <= most || i < most/2 || i >= len(steps)-most/2 {
			names = append(names, s.StepKey.String())
		}
	}
	return "its steps are " + strings.Join(names, ", ")
}
