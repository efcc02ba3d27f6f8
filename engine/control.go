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

// Cancel cancels a run, and its children with it.
//
//   - A run that never started, or has recorded nothing, ends at once.
//   - A run that a worker has ends as soon as its code has learned of the cancel and cleaned
//     up.
//   - Any other run is claimed once more, whatever it waits for and even if it is paused, so
//     that it can clean up: see workflow.Cleanup. Until then it is canceling, and calls that
//     wait for it continue to wait. A paused queue or workflow holds it back.
//
// Cancel does not wait for the end. The reason becomes the message of the run's failure. Canceling a
// run that is canceled or canceling already does nothing. Cancel fails with store.ErrFinished for a
// run that has completed or failed, and with store.ErrNotFound.
func (e *Engine) Cancel(ctx context.Context, id store.ID, reason string) error {
	return e.control(ctx, id, "cancel", reason, func(ctx context.Context, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: []store.ID{id}, Reason: reason, Record: record})
	})
}

// ForceCancel ends a run at once, whoever has it. It is for a run that stays canceling
// because its code ignores its context, or because its worker hangs. The worker has then
// lost the run and cannot change it any more, so that it is safe even if the worker is
// alive. What the code does outside the store continues until it notices, and its
// workflow.Cleanup does not run.
//
// Children are canceled as by [Engine.Cancel]. Errors are those of Cancel.
func (e *Engine) ForceCancel(ctx context.Context, id store.ID, reason string) error {
	return e.control(ctx, id, "forced cancel", reason, func(ctx context.Context, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: []store.ID{id}, Reason: reason, Force: true, Record: record})
	})
}

// Pause stops a run until [Engine.Resume]: at once if no worker holds it, otherwise as soon as the
// steps in progress have ended. Its timers continue, and signals that reach the run are kept for
// it. Children are not paused. A run that is paused or canceling stays as it is. Pause fails with
// store.ErrFinished for a final run, and with store.ErrNotFound.
func (e *Engine) Pause(ctx context.Context, id store.ID) error {
	return e.control(ctx, id, "pause", "", func(ctx context.Context, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: []store.ID{id}, Record: record})
	})
}

// Resume gives a paused run the status that it had, so that it continues. A run that is not paused
// stays as it is. Resume fails with store.ErrFinished for a final run, and with store.ErrNotFound.
func (e *Engine) Resume(ctx context.Context, id store.ID) error {
	doubt := false // whether a request whose answer was lost may have resumed the run
	return e.control(ctx, id, "resume", "", func(ctx context.Context, record []store.Action) ([]store.ControlResult, error) {
		res, err := e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: []store.ID{id}, Resume: true, Record: record})
		switch {
		case err != nil:
			doubt = doubt || errors.Is(err, store.ErrOutcomeUnknown)
		case errors.Is(res[0].Err, store.ErrOutcomeUnknown):
			doubt = true
		case doubt && errors.Is(res[0].Err, store.ErrFinished):
			res[0].Err = nil // it was resumed, and has ended since
		}
		return res, err
	})
}

// Restart makes a failed or canceled run pending again, with the same ID. It continues after the
// steps that it has completed. What failed is tried again, without the old deadline. Restart fails
// with store.ErrNotFound; with store.ErrConflict if the run is neither failed nor canceled (a run
// that is canceling: wait for its end first); and with store.ErrAlreadyExists if another run holds
// its external id.
func (e *Engine) Restart(ctx context.Context, id store.ID) error {
	res, err := e.restart(ctx, []store.ID{id})
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		return fmt.Errorf("restart of run %s: %w", id, err)
	}
	return nil
}

// restart restarts runs and counts them.
func (e *Engine) restart(ctx context.Context, ids []store.ID) (results []store.ControlResult, err error) {
	if e.fault != nil {
		return nil, e.fault
	}
	record := e.acts(ctx, "restart", "", "", ids...)
	doubt := false // whether a request whose answer was lost may have restarted runs
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		results, err = e.store.Restart(ctx, store.RestartParams{Namespace: e.namespace, IDs: ids, Record: record})
		doubt = doubt || errors.Is(err, store.ErrOutcomeUnknown)
		return err
	})
	if err != nil {
		e.actedOn(ctx, record, err)
		return nil, err
	}
	var restarted []store.ID
	for i := range results {
		switch res := &results[i]; {
		case res.Err == nil:
			restarted = append(restarted, ids[i])
		case doubt && errors.Is(res.Err, store.ErrConflict):
			res.Err = nil // the request whose answer was lost has restarted it
		}
	}
	e.acted(ctx, record, func(i int) error { return results[i].Err })
	e.countStarted(ctx, telemetry.FromRestart, restarted...)
	return results, nil
}

// countStarted counts runs of which the ids alone are at hand.
func (e *Engine) countStarted(ctx context.Context, origin string, ids ...store.ID) {
	if !e.telemetry().Counting() || len(ids) == 0 {
		return
	}
	runs, err := e.store.Get(ctx, store.GetParams{Namespace: e.namespace, IDs: ids, NoInput: true, MaxBytes: 1})
	if err != nil {
		return
	}
	for _, r := range runs {
		e.telemetry().Started(origin, store.RunCount{Queue: r.Queue, Workflow: r.Workflow, Count: 1})
	}
}

func (e *Engine) control(ctx context.Context, id store.ID, verb, details string, call func(context.Context, []store.Action) ([]store.ControlResult, error)) error {
	if e.fault != nil {
		return e.fault
	}
	record := e.acts(ctx, verb, "", details, id)
	err := e.retry(ctx, func(ctx context.Context) error {
		res, err := call(ctx, record)
		if err == nil {
			e.telemetry().Ended(res[0].Ended)
			err = res[0].Err
		}
		return err
	})
	e.actedOn(ctx, record, err)
	if err != nil {
		return fmt.Errorf("%s of run %s in namespace %q: %w", verb, id, e.namespace, err)
	}
	return nil
}

// PauseQueue keeps the runs of a queue from being claimed until [Engine.ResumeQueue]. Runs
// that are executing continue, and so do runs that a worker is claiming at this moment. New runs
// enter the queue and wait. The queue need not exist yet. Pausing a paused queue does nothing.
func (e *Engine) PauseQueue(ctx context.Context, queue string) error {
	return e.pauseTarget(ctx, store.PauseTargetParams{Queue: queue})
}

// ResumeQueue ends [Engine.PauseQueue]. Resuming a queue that is not paused does nothing.
func (e *Engine) ResumeQueue(ctx context.Context, queue string) error {
	return e.pauseTarget(ctx, store.PauseTargetParams{Queue: queue, Resume: true})
}

// PauseWorkflow keeps the runs of a workflow, in any queue, from being claimed until
// [Engine.ResumeWorkflow]. Otherwise it is like [Engine.PauseQueue].
func (e *Engine) PauseWorkflow(ctx context.Context, workflow string) error {
	return e.pauseTarget(ctx, store.PauseTargetParams{Workflow: workflow})
}

// ResumeWorkflow ends [Engine.PauseWorkflow]. Resuming a workflow that is not paused does
// nothing.
func (e *Engine) ResumeWorkflow(ctx context.Context, workflow string) error {
	return e.pauseTarget(ctx, store.PauseTargetParams{Workflow: workflow, Resume: true})
}

func (e *Engine) pauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	p.Namespace = e.namespace
	verb, target := "pause", "queue "+p.Queue
	if p.Resume {
		verb = "resume"
	}
	if p.Workflow != "" {
		target = "workflow " + p.Workflow
	}
	if e.fault != nil {
		return e.fault
	}
	p.Record = e.acts(ctx, verb, target, "")
	err := e.retry(ctx, func(ctx context.Context) error { return e.store.PauseTarget(ctx, p) })
	e.actedOn(ctx, p.Record, err)
	if err == nil {
		return nil
	}
	if p.Workflow != "" {
		return fmt.Errorf("%s of workflow %q: %w", verb, p.Workflow, err)
	}
	return fmt.Errorf("%s of queue %q: %w", verb, p.Queue, err)
}

// Paused returns the queues and workflows that are paused. To list paused runs, use
// [Engine.List] with status Paused.
func (e *Engine) Paused(ctx context.Context) (paused []store.PausedTarget, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		paused, err = store.AllPaused(ctx, e.store, store.ListPausedParams{Namespace: e.namespace})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pauses of namespace %q: %w", e.namespace, err)
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

// FromStep makes the fork run a step again, with everything that follows it. The step is
// named as [store.StepKey.String] writes it: "charge", "charge#2" for the second use of the
// name, "branch/charge" in a branch.
func FromStep(step string) ForkOption { return func(p *forkPlan) { p.step = step } }

// FromPosition is [FromStep] with the step given by its Position.
func FromPosition(position int64) ForkOption { return func(p *forkPlan) { p.position = position } }

// ForkID sets the new run's ID. Two forks with the same ID create one run. By default, and for the
// zero ID, a new one is made.
func ForkID(id store.ID) ForkOption { return func(p *forkPlan) { p.id = id } }

// Forked is the outcome of a fork.
type Forked struct {
	ID store.ID // of the new run
	// Kept are the steps whose recorded outcomes the new run has. Again are the other recorded
	// steps of the old run; the new run executes them if it reaches them.
	Kept, Again []store.StepKey
}

// Fork makes a new run out of a run of any status. The new run has the same workflow,
// queue, priority and input, and the outcomes of the steps that had completed before the
// step given by [FromStep] or [FromPosition], or of all completed steps if none is given.
// Steps of a workflow.Cleanup that a cancel has caused are left out. The rest is run anew,
// with idempotency keys of the new run. The fork has no parent, external id, deadline, flow
// state or signals. The old run is not affected.
//
// It fails with store.ErrNotFound if there is no such run or step. The error names the
// steps of the run.
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
		// The cleanup after a cancel belongs only to the old course.
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
	p.Record = e.acts(ctx, "fork", "", fmt.Sprintf("as run %s", plan.id), id)
	var made store.CreateResult
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		made, err = e.store.Fork(ctx, p)
		return err
	})
	e.actedOn(ctx, p.Record, err)
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

// stepNames lists the steps that a fork can begin at: the first and the last of many.
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
