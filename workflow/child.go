package workflow

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ChildOption configures a child run.
type ChildOption func(*childOptions)

type childOptions exec.ChildOptions

// OnParentClose sets what happens to a child that is not final when its parent is:
// store.CloseCancel (the default) cancels it, and store.CloseAbandon lets it continue.
func OnParentClose(p store.ClosePolicy) ChildOption {
	return func(o *childOptions) { o.OnClose = p }
}

// Detach starts a child that the parent does not wait for: it continues when its parent is final, and
// [ChildRun.Get] returns an error. Use it with [StartChild]: [Child] starts the child and then returns
// that error.
func Detach() ChildOption {
	return func(o *childOptions) { o.Detached, o.OnClose = true, store.CloseAbandon }
}

// ChildQueue puts the child into another queue than its workflow's. A worker that has the
// child's workflow must serve that queue: see worker.Queues.
func ChildQueue(name string) ChildOption { return func(o *childOptions) { o.Queue = name } }

// ChildPriority sets the child's priority, from -100 to 100. Runs of higher priority are
// claimed first. The default is 0, whatever the parent's priority.
func ChildPriority(p int) ChildOption { return func(o *childOptions) { o.Priority = p } }

// ChildDelay makes the child start no earlier than d after it was created.
func ChildDelay(d time.Duration) ChildOption { return func(o *childOptions) { o.Delay = d } }

// ChildTimeout gives the child a deadline, counted from its creation. The default, also for 0, is none.
func ChildTimeout(d time.Duration) ChildOption { return func(o *childOptions) { o.Timeout = d } }

// ChildTags gives the child tags, as [engine.Tags] does for a start.
func ChildTags(tags map[string]string) ChildOption {
	return func(o *childOptions) { o.Tags.Own = store.Tags(tags).Clone() }
}

// InheritTags gives the child the tags that this run has when it starts the child, in addition to
// those of [ChildTags], whose values win.
func InheritTags() ChildOption { return func(o *childOptions) { o.Tags.Inherit = true } }

// Child runs a workflow as a child of this run and returns its output. Any worker that has
// registered the workflow may take the child. This run sleeps meanwhile and holds no slot.
// To run a workflow that another program defines, pass a [Reference].
//
// For a child that failed or was canceled, the error is an [*engine.RunError] with the
// child's ID and failure. It matches engine.ErrFailed or engine.ErrCanceled, live and
// replayed alike. When this run is canceled or its deadline passes, the error matches
// [ErrCanceled] or [ErrDeadline], and the child is canceled with it, unless [OnParentClose]
// says otherwise.
//
// The child is started once, also if another worker takes over this run. When this run is
// tried again or restarted after the child has failed, another child is started; likewise
// for a child that was canceled with this run. The child's own attempts are set by its
// workflow ([RunAttempts]).
//
// For many children of one kind use [Map], which counts them together.
func Child[In, Out any](ctx Context, name string, wf Callable[In, Out], in In, opts ...ChildOption) (Out, error) {
	var out Out
	c, err := StartChild(ctx, name, wf, in, opts...)
	if err != nil {
		return out, err
	}
	return c.Get(ctx)
}

// ChildRun is a child run that [StartChild] has started. It belongs to the present pass of
// the workflow's function.
type ChildRun[Out any] struct {
	child    *exec.Child
	workflow string
}

// StartChild starts a child run without waiting for it. Otherwise it is like [Child]. The
// child exists once the run's next record is durable, a moment later.
//
// When the child fails and this run is tried again, what followed StartChild is done again
// as well. Children that were started there are started anew, and the old ones are
// canceled.
func StartChild[In, Out any](ctx Context, name string, wf Callable[In, Out], in In, opts ...ChildOption) (*ChildRun[Out], error) {
	called, err := calleeOf("child "+name, wf)
	if err != nil {
		return nil, err
	}
	data, err := encodeItem(ctx, called, "child "+name, in)
	if err != nil {
		return nil, err
	}
	o := childOptions{Workflow: called.name, Queue: called.queue, Open: called.open}
	for _, opt := range opts {
		opt(&o)
	}
	r := store.NewRun{ID: store.NewID(), Workflow: o.Workflow, Queue: cmp.Or(o.Queue, o.Workflow), Priority: o.Priority, After: o.Delay, Timeout: o.Timeout, Tags: o.Tags.Own}
	if err := r.Validate(store.Limits{}); err != nil {
		return nil, fmt.Errorf("child %q: %w", name, err)
	}
	if o.OnClose > store.CloseAbandon {
		return nil, store.Invalid("child "+name, "its close policy is neither cancel nor abandon")
	}
	c, err := ctx.branch.StartChild(name, exec.ChildOptions(o), data)
	if err != nil {
		return nil, err
	}
	return &ChildRun[Out]{child: c, workflow: called.name}, nil
}

// ID returns the child's ID. When this run is restarted after the child was canceled with
// it, another child, with another ID, takes its place.
func (c *ChildRun[Out]) ID() store.ID { return c.child.ID() }

// Get waits until the child is final and returns its output, or an error as [Child] does.
// Any branch of the run may call it, in any order, more than once.
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

// encodeItem encodes the input of a child; of describes the child, for messages.
func encodeItem[In any](ctx Context, called callee, of string, in In) (exec.ChildInput, error) {
	data, err := ctx.codec.Marshal(in)
	if ctx.branch.Invocation().CheckInStep(err) != nil {
		return exec.ChildInput{}, Permanent(fmt.Errorf("%s: the input of workflow %q, a %T, cannot be encoded: %w", of, called.name, in, err))
	}
	input := exec.ChildInput{Data: data}
	if called.uses != nil {
		if input.Under, err = called.uses(&in); err != nil {
			return exec.ChildInput{}, Permanent(fmt.Errorf("%s: %w", of, err))
		}
	}
	return input, nil
}
