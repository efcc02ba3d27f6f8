package workflow

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ChildOption configures a child run.
type ChildOption func(*exec.ChildOptions)

// OnParentClose says what becomes of a child that is not final when its parent is:
// store.CloseCancel (the default) cancels it, with store.CloseAbandon it goes on.
func OnParentClose(p store.ClosePolicy) ChildOption {
	return func(o *exec.ChildOptions) { o.OnClose = p }
}

// Detach starts a child that nobody waits for: it goes on when its parent is final,
// and [ChildRun.Get] refuses to wait for it.
func Detach() ChildOption {
	return func(o *exec.ChildOptions) { o.Detached, o.OnClose = true, store.CloseAbandon }
}

// ChildQueue puts the child into another queue than its workflow's, which a worker that has
// the child's workflow must serve: see worker.Queues.
func ChildQueue(name string) ChildOption { return func(o *exec.ChildOptions) { o.Queue = name } }

// ChildPriority sets the child's priority, from -100 to 100; higher is claimed
// first. Default: 0, whatever the parent's.
func ChildPriority(p int) ChildOption { return func(o *exec.ChildOptions) { o.Priority = p } }

// ChildDelay starts the child no earlier than d from when it is made.
func ChildDelay(d time.Duration) ChildOption { return func(o *exec.ChildOptions) { o.Delay = d } }

// ChildTimeout gives the child a deadline, counted from when it is made.
func ChildTimeout(d time.Duration) ChildOption { return func(o *exec.ChildOptions) { o.Timeout = d } }

// Child runs a workflow as a child of this run and returns its output. Any worker
// that has registered the workflow may take the child; this run sleeps meanwhile,
// and holds no slot.
//
// A child that failed or was canceled gives an [*engine.RunError] with its id and
// its failure, which matches engine.ErrFailed or engine.ErrCanceled, live and
// replayed alike. When this run is canceled or its deadline passes, the error
// matches [ErrCanceled] or [ErrDeadline]; the child is canceled with it, unless
// [OnParentClose] says otherwise.
//
// The child is started once, also when this run is taken over. When this run is
// tried again or restarted after the child has failed, another child is started; so
// it is for a child that was canceled with this run. The child's own attempts are
// its workflow's affair ([RunAttempts]).
//
// For many children of one kind use [Map], which counts them together.
func Child[In, Out any](ctx Context, name string, wf *Workflow[In, Out], in In, opts ...ChildOption) (Out, error) {
	var out Out
	c, err := StartChild(ctx, name, wf, in, opts...)
	if err != nil {
		return out, err
	}
	return c.Get(ctx)
}

// ChildRun is a child run that [StartChild] has started, in this pass of the
// workflow's function.
type ChildRun[Out any] struct {
	child    *exec.Child
	workflow string
}

// StartChild starts a child run without waiting for it; otherwise it is like
// [Child]. The child exists when the run's next record is durable, a moment later.
//
// When it fails and this run is tried again, what followed StartChild is done again,
// too, and children that were started there are started anew; the old ones are
// canceled.
func StartChild[In, Out any](ctx Context, name string, wf *Workflow[In, Out], in In, opts ...ChildOption) (*ChildRun[Out], error) {
	data, err := wf.item(ctx, "child "+name, in)
	if err != nil {
		return nil, err
	}
	o := exec.ChildOptions{Workflow: wf.name, Queue: wf.queue}
	for _, opt := range opts {
		opt(&o)
	}
	r := store.NewRun{ID: store.NewID(), Workflow: o.Workflow, Queue: o.Queue, Priority: o.Priority, After: o.Delay, Timeout: o.Timeout}
	if err := r.Validate(store.Limits{}); err != nil {
		return nil, fmt.Errorf("child %q: %w", name, err)
	}
	if o.OnClose > store.CloseAbandon {
		return nil, store.Invalid("child "+name, "its close policy is neither cancel nor abandon")
	}
	c, err := ctx.branch.StartChild(name, o, data)
	if err != nil {
		return nil, err
	}
	return &ChildRun[Out]{child: c, workflow: wf.name}, nil
}

// ID is the child's. Another child takes its place, with another ID, when this run is
// restarted after the child was canceled with it.
func (c *ChildRun[Out]) ID() store.ID { return c.child.ID() }

// Get waits until the child is final and returns its output, or an error as [Child]
// does. It may be called by any branch of the run, in any order, and more than once.
func (c *ChildRun[Out]) Get(ctx Context) (Out, error) {
	var out Out
	end, err := ctx.branch.AwaitChild(c.child)
	if err != nil {
		return out, err
	}
	if end.Status != store.Completed {
		return out, &engine.RunError{Run: c.ID(), Workflow: c.workflow, Status: end.Status, Failure: end.Failure}
	}
	return out, decodeOwn(ctx.branch, ctx.codec, end.Output, &out, "the output of child %s of workflow %q", c.ID(), c.workflow)
}

// item encodes the input of a child; of: what it is, for messages.
func (w *Workflow[In, Out]) item(ctx Context, of string, in In) ([]byte, error) {
	if w == nil {
		return nil, store.Invalid(of, "its workflow is nil")
	}
	if w.err != nil {
		return nil, fmt.Errorf("%s: %w", of, w.err)
	}
	data, err := ctx.codec.Marshal(in)
	if ctx.branch.Invocation().CheckInStep(err) != nil {
		return nil, Permanent(fmt.Errorf("%s: the input of workflow %q, a %T, cannot be encoded: %w", of, w.name, in, err))
	}
	return data, nil
}
