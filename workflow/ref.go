package workflow

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Reference names a workflow whose function is elsewhere. A program that only starts runs
// and waits for them needs just the name and the types. Queue, retries and retention are
// those with which workers have registered the workflow.
//
//	var Fulfil = workflow.Ref[Order, Receipt]("fulfil-order")
//
// A workflow may run another one as its child by a Reference: see [Callable]. Signals and state need
// no function either: see [NewSignal] and [NewState].
type Reference[In, Out any] struct {
	name string
	keys *refKeys[In]
}

// Ref returns a reference. The name is that of [Workflow.Name], with the version if there
// is one ("fulfil-order@2"). A name that is not valid, or that no worker has registered, is
// reported by Start.
func Ref[In, Out any](name string) Reference[In, Out] { return Reference[In, Out]{name: name} }

// Name returns the workflow's name in the store, with its version.
func (r Reference[In, Out]) Name() string { return r.name }

// Start creates a run with one durable write and returns its handle. Errors are those of
// [engine.Engine.Start].
func (r Reference[In, Out]) Start(ctx context.Context, eng *engine.Engine, in In, opts ...engine.StartOption) (Handle[Out], error) {
	data, opts, err := r.encode(eng, in, opts)
	if err != nil {
		return Handle[Out]{}, err
	}
	return startRun[Out](ctx, eng, r.name, data, opts)
}

// StartMany creates many runs, as [Workflow.StartMany] does.
func (r Reference[In, Out]) StartMany(ctx context.Context, eng *engine.Engine, inputs []Each[In]) ([]Handle[Out], error) {
	return startRuns[Out](ctx, eng, r.name, inputs, func(in Each[In]) (engine.Item, error) {
		data, opts, err := r.encode(eng, in.In, in.Options)
		return engine.Item{Input: data, Options: opts}, err
	})
}

func (r Reference[In, Out]) encode(eng *engine.Engine, in In, opts []engine.StartOption) ([]byte, []engine.StartOption, error) {
	data, err := encodeInput(eng, r.name, in)
	if err != nil {
		return nil, nil, err
	}
	keys, err := r.keys.uses(in)
	if err != nil {
		return nil, nil, fmt.Errorf("start of workflow %q: %w", r.name, err)
	}
	all := make([]engine.StartOption, 0, len(keys)+len(opts))
	for _, k := range keys {
		all = append(all, engine.LimitKey(k.Limit, k.Key))
	}
	return data, append(all, opts...), nil
}

// Handle returns the handle of a run that was started elsewhere. It does not check that the
// run exists.
func (r Reference[In, Out]) Handle(eng *engine.Engine, id store.ID) Handle[Out] {
	return Handle[Out]{eng: eng, id: id}
}

// Find returns the handle of the run of an external id, as [Workflow.Find] does.
func (r Reference[In, Out]) Find(ctx context.Context, eng *engine.Engine, externalID string, opts ...engine.FindOption) (Handle[Out], error) {
	return findRun[Out](ctx, eng, r.name, externalID, opts)
}

// Find returns the handle of the run of an external id (see [engine.ExternalID]): the run that
// holds the id, or else the one that was created last. For a run that was started with a suffix,
// pass [engine.FindSuffix]. It fails with store.ErrNotFound, or with store.ErrConflict if that run
// is of another workflow.
func (w *Workflow[In, Out]) Find(ctx context.Context, eng *engine.Engine, externalID string, opts ...engine.FindOption) (Handle[Out], error) {
	return findRun[Out](ctx, eng, w.name, externalID, opts)
}

func findRun[Out any](ctx context.Context, eng *engine.Engine, workflow, externalID string, opts []engine.FindOption) (Handle[Out], error) {
	run, err := eng.Find(ctx, externalID, opts...)
	if err != nil {
		return Handle[Out]{}, err
	}
	if run.Workflow != workflow {
		return Handle[Out]{}, fmt.Errorf("run %s of external id %q is of workflow %q, not %q: %w", run.ID, externalID, run.Workflow, workflow, store.ErrConflict)
	}
	return Handle[Out]{eng: eng, id: run.ID, existing: true}, nil
}

// Callable is a workflow that another one runs: [Child], [Map], [Reduce], [Generate] and the functions
// like them take a [*Workflow], or a [Reference] to one that other programs define. Only these two
// types implement it.
//
// Children that are started by a Reference go to the queue with which workers have registered the
// workflow when they are started. If no worker has registered it, they wait in the queue of the
// workflow's name.
type Callable[In, Out any] interface {
	// Name returns the workflow's name in the store, with its version.
	Name() string

	callee() callee
	types(In) Out // lets the compiler infer the types
}

// callee is a workflow that another one runs.
type callee struct {
	name  string
	queue string                                 // empty: that with which workers have registered it
	open  bool                                   // its limits are those with which workers have registered it
	uses  func(in any) ([]store.LimitUse, error) // of an open one: those whose keys are known
	err   error
}

// calleeOf returns the workflow that another one is to run; of describes the child, for messages.
func calleeOf[In, Out any](of string, c Callable[In, Out]) (callee, error) {
	w, defined := c.(*Workflow[In, Out])
	if c == nil || defined && w == nil {
		return callee{}, store.Invalid(of, "its workflow is nil")
	}
	called := c.callee()
	if called.err != nil {
		return callee{}, fmt.Errorf("%s: %w", of, called.err)
	}
	return called, nil
}

func (w *Workflow[In, Out]) callee() callee {
	uses := func(in any) ([]store.LimitUse, error) { return usesFor(w.under, *in.(*In)) }
	if len(w.under) == 0 {
		uses = nil
	}
	return callee{name: w.name, queue: w.queue, uses: uses, err: w.err}
}

func (w *Workflow[In, Out]) types(In) (out Out) { return out }

func (r Reference[In, Out]) callee() callee {
	c := callee{name: r.name, open: true}
	if r.keys != nil {
		c.uses = func(in any) ([]store.LimitUse, error) { return r.keys.uses(*in.(*In)) }
	}
	return c
}

func (r Reference[In, Out]) types(In) (out Out) { return out }

func encodeInput[In any](eng *engine.Engine, workflow string, in In) ([]byte, error) {
	data, err := eng.Codec().Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("the input of workflow %q, a %T, cannot be encoded: %w", workflow, in, err)
	}
	return data, nil
}

func startRun[Out any](ctx context.Context, eng *engine.Engine, workflow string, input []byte, opts []engine.StartOption) (Handle[Out], error) {
	started, err := eng.Start(ctx, workflow, input, opts...)
	return Handle[Out]{eng: eng, id: started.ID, existing: started.Existing}, err
}

func startRuns[Out, In any](ctx context.Context, eng *engine.Engine, workflow string, inputs []Each[In], encode func(Each[In]) (engine.Item, error)) ([]Handle[Out], error) {
	handles := make([]Handle[Out], len(inputs))
	items := make([]engine.Item, len(inputs))
	for i, in := range inputs {
		var err error
		if items[i], err = encode(in); err != nil {
			return handles, fmt.Errorf("item %d: %w", i, err)
		}
	}
	started, err := eng.StartMany(ctx, workflow, items)
	for i, s := range started {
		if !s.ID.IsZero() {
			handles[i] = Handle[Out]{eng: eng, id: s.ID, existing: s.Existing}
		}
	}
	return handles, err
}
