package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/workflow"
)

// plan is a flow that was checked.
type plan[In, Out any] struct {
	name        string
	order       []*checked // each behind those that it waits for
	index       map[*node]int
	outputs     []Input[Out]
	handlerName string
	handler     func(ctx workflow.Context, in any, failed *NodeError) (Maybe[Out], error)
}

// run is one execution of a flow by one worker. Each replay computes all of it anew.
type run struct {
	in      any
	index   map[*node]int
	futures []*workflow.Future[outcome] // a node only looks at those before it
	decided *workflow.Promise[verdict]
	quiet   *workflow.Promise[None] // resolved when no step runs any more, after a decision
	never   *workflow.Promise[None] // never resolved: for nodes that are abandoned

	mu      sync.Mutex
	left    int  // nodes that have not ended
	stopped bool // the end of the flow is decided: no node begins any more
	busy    int  // steps that run
}

// outcome is how a node has ended.
type outcome struct {
	state state
	value any
}

type state uint8

const (
	done state = 1 + iota
	skipped
)

// verdict is how the flow ends.
type verdict struct {
	failed      *NodeError // this node failed
	interrupted error      // the run is canceled, or its deadline has passed
	completed   bool       // a node has ended the flow, with output
	output      any
}

// execute is the workflow's function. It records nothing itself: each node does, in its own branch,
// and the end of the flow follows from those records.
func (p *plan[In, Out]) execute(ctx workflow.Context, in In) (Out, error) {
	var zero Out
	r := &run{
		in: in, index: p.index, futures: make([]*workflow.Future[outcome], len(p.order)), left: len(p.order),
		decided: workflow.NewPromise[verdict](ctx), quiet: workflow.NewPromise[None](ctx), never: workflow.NewPromise[None](ctx),
	}
	for i, n := range p.order {
		r.futures[i] = workflow.Go(ctx, n.name, func(ctx workflow.Context) (outcome, error) { return r.node(ctx, n), nil })
	}
	v, err := r.decided.Get(ctx)
	if err != nil {
		return zero, err
	}
	if v.failed != nil || v.interrupted != nil {
		r.wait(ctx)
	}
	switch {
	case v.interrupted != nil:
		return zero, v.interrupted
	case p.handler != nil && (v.failed != nil || v.completed):
		return p.settle(ctx, r, v)
	case v.failed != nil:
		return zero, v.failed
	case v.completed:
		out, _ := v.output.(Out)
		return out, nil
	}
	t := &taking{ctx: ctx, run: r, in: in}
	for _, out := range p.outputs {
		if !t.skipped(out.needs()) {
			return out.take(t)
		}
	}
	if len(p.outputs) == 0 {
		return zero, nil
	}
	return zero, workflow.Permanent(fmt.Errorf("flow %q has no output: every node that could provide it was skipped; pass a flow.Const to Flow.Output as its last input", p.name))
}

// settle records the decision before the handler acts on it, and follows a decision that an earlier
// execution has recorded. A failure is recorded as a failed step, so that the next attempt of the
// run deletes it together with the work of the handler.
func (p *plan[In, Out]) settle(ctx workflow.Context, r *run, v verdict) (Out, error) {
	type end struct {
		out Maybe[Out]
		err error
	}
	e, err := workflow.Go(ctx, p.handlerName, func(ctx workflow.Context) (end, error) {
		out, err := workflow.Step(ctx, "outcome", func(context.Context) (Maybe[Out], error) {
			if v.failed != nil {
				return Nothing[Out](), v.failed
			}
			out, _ := v.output.(Out)
			return Some(out), nil
		}, workflow.Attempts(1))
		var recorded *workflow.StepError
		if !errors.As(err, &recorded) {
			return end{out, err}, nil
		}
		r.wait(ctx)
		failed := nodeErrorOf(recorded.Failure)
		out, err = p.handler(ctx, r.in, failed)
		switch {
		case interruption(err):
		case err != nil:
			err = fmt.Errorf("%w; the failure handler %q failed as well: %w", failed, p.handlerName, err)
		case !out.OK:
			err = failed
		}
		return end{out, err}, nil
	}).Get(ctx)
	if err == nil {
		err = e.err
	}
	return e.out.Value, err
}

// node runs a node to its end. A node that fails or is abandoned has no outcome: its branch, and
// the branches that wait for it, stay until the run's function returns. The branch must not return,
// because its history may continue: in an earlier execution it may have got further before the end
// of the flow was decided.
func (r *run) node(ctx workflow.Context, n *checked) outcome {
	t := &taking{ctx: ctx, run: r, n: n, in: r.in}
	err := r.perform(t)
	for i := 0; err == nil && t.own.state == done && i < len(n.ends); i++ {
		var v verdict
		if v.output, v.completed, err = n.ends[i].take(t); v.completed && err == nil {
			r.decide(v)
		}
	}
	switch {
	case interruption(err):
		r.decide(verdict{interrupted: err})
	case err != nil && workflow.ErrorCode(err) != codeLeftOff:
		r.decide(verdict{failed: &NodeError{Node: n.name, Err: err}})
	}
	if err != nil {
		_, _ = r.never.Get(ctx)
	}
	r.mu.Lock()
	r.left--
	last := r.left == 0
	r.mu.Unlock()
	if last {
		r.decide(verdict{})
	}
	return t.own
}

// perform waits for what the node needs, does its work and records its outcome.
func (r *run) perform(t *taking) error {
	n := t.n
	for _, d := range n.deps {
		t.outcome(d)
	}
	if r.skips(t) {
		t.own.state = skipped
		return nil
	}
	for _, c := range n.whens {
		if !r.goesOn() {
			return errLeftOff
		}
		holds, err := c.ask(t)
		switch {
		case err != nil:
			return err
		case !holds:
			t.own.state = skipped
			return nil
		}
	}
	if !r.goesOn() {
		return errLeftOff
	}
	value, err := n.exec(t)
	if err == nil {
		t.own = outcome{done, value}
	}
	return err
}

// skips reports whether the node is skipped because other nodes were skipped.
func (r *run) skips(t *taking) bool {
	n := t.n
	for _, in := range n.inputs {
		if t.skipped(in.needs()) {
			return true
		}
	}
	for _, c := range n.whens {
		if t.skipped(c.from.needs()) {
			return true
		}
	}
	for _, d := range n.after {
		if !n.evenIfSkipped && t.outcome(d).state == skipped {
			return true
		}
	}
	for _, d := range n.instead {
		if t.outcome(d).state == done {
			return true
		}
	}
	return false
}

// answer is the record of a condition.
type answer struct {
	Holds  bool `json:"holds"`
	Failed bool `json:"failed,omitempty"` // the step that follows has the answer
}

// ask records whether the condition holds. If the condition returns an error, ask records a failed
// step, which the next attempt of the run deletes.
func (c condition) ask(t *taking) (bool, error) {
	test, err := c.take(t)
	if err != nil {
		return false, err
	}
	a, err := workflow.Value(t.ctx, c.record(), func() answer {
		holds, err := test()
		return answer{Holds: holds && err == nil, Failed: err != nil}
	})
	if err != nil || !a.Failed {
		return a.Holds, err
	}
	return work(t, "ask "+c.text, func(context.Context) (bool, error) { return test() })
}

// step does the work of a node that is a step.
func step[T any](t *taking, fn func(context.Context) (T, error)) (T, error) {
	if !t.n.ignore && !t.n.void {
		return work(t, t.n.name, fn)
	}
	var zero T
	w := &turn{run: t.run}
	err := workflow.Do(t.ctx, t.n.name, func(ctx context.Context) error {
		_, err := attempt(ctx, w, fn)
		return err
	}, w.options(t.n)...)
	w.end()
	return zero, err
}

// work runs a step, and reports while the step runs to those that wait for running steps.
func work[T any](t *taking, name string, fn func(context.Context) (T, error)) (T, error) {
	w := &turn{run: t.run}
	v, err := workflow.Step(t.ctx, name, func(ctx context.Context) (T, error) { return attempt(ctx, w, fn) }, w.options(t.n)...)
	w.end()
	return v, err
}

// attempt is one attempt of a step, which may not begin when the flow has stopped.
func attempt[T any](ctx context.Context, w *turn, fn func(context.Context) (T, error)) (T, error) {
	if !w.begin() {
		var zero T
		return zero, errLeftOff
	}
	return fn(ctx)
}

// codeLeftOff is the code of a step whose attempt began too late: the flow had stopped.
const codeLeftOff = "left-off"

var errLeftOff = workflow.Permanent(workflow.Coded(codeLeftOff, errors.New("stopped because the flow ended, early or after another node failed")))

// interruption reports whether an operation was refused because the run was interrupted.
func interruption(err error) bool {
	return errors.Is(err, workflow.ErrCanceled) || errors.Is(err, workflow.ErrDeadline)
}

// decide sets how the flow ends, if that is not decided yet.
func (r *run) decide(v verdict) {
	r.mu.Lock()
	first := !r.stopped
	r.stopped = true
	r.mu.Unlock()
	if first {
		r.decided.Resolve(v, nil)
	}
}

func (r *run) goesOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped
}

// wait returns when no step runs any more. It is called after a decision.
func (r *run) wait(ctx workflow.Context) {
	r.mu.Lock()
	quiet := r.busy == 0
	r.mu.Unlock()
	if !quiet {
		_, _ = r.quiet.Get(ctx)
	}
}

// turn tracks a step: it is on while an attempt runs and until the attempt's end is recorded, and
// off while the step waits for its next attempt.
type turn struct {
	run *run
	on  bool
}

// options returns the options of the node, and the one with which a failed attempt ends the turn.
func (t *turn) options(n *checked) []workflow.StepOption {
	return append(n.steps[:len(n.steps):len(n.steps)], workflow.RetryIf(func(error) bool { return t.pause() }))
}

// begin reports whether an attempt may run, and marks it as running.
func (t *turn) begin() bool {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	if !t.run.stopped {
		t.on = true
		t.run.busy++
	}
	return t.on
}

// pause marks that the step waits for its next attempt. It returns false if there will be none.
func (t *turn) pause() bool {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	if t.run.stopped {
		return false
	}
	if t.on {
		t.on = false
		t.run.busy--
	}
	return true
}

// end marks that the step has ended and its end is recorded.
func (t *turn) end() {
	t.run.mu.Lock()
	if t.on {
		t.on = false
		t.run.busy--
	}
	quiet := t.run.stopped && t.run.busy == 0
	t.run.mu.Unlock()
	if quiet {
		t.run.quiet.Resolve(None{}, nil)
	}
}
