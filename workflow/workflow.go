package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Workflow is a named function that takes an In and returns an Out. Create one with [New]. It does not
// change and is safe for concurrent use.
type Workflow[In, Out any] struct {
	fn     func(Context, In) (Out, error)
	name   string
	queue  string
	retry  exec.Policy
	graph  json.RawMessage
	pinned bool
	under  []boundLimit[In]
	err    error
}

// Definition is a [Workflow] of any types, as worker.Worker.Register accepts it. Only [Workflow]
// implements it.
type Definition interface {
	// Name returns the workflow's name in the store, with its version.
	Name() string
	// Queue returns the workflow's default queue.
	Queue() string

	define(codec engine.Codec) *exec.Definition
}

// maxGraph leaves room in store.MaxMeta for what is stored with the graph.
const maxGraph = store.MaxMeta - 4<<10

// New defines a workflow. The name identifies it in the store: existing runs need a workflow of their
// name. New never fails. A definition that is not valid (a name that [store.ValidateName] refuses, a
// nil function, a wrong graph) makes worker.Worker.Register, Start and the like fail with
// store.ErrInvalid or store.ErrTooLarge.
func New[In, Out any](name string, fn func(Context, In) (Out, error), opts ...Option) *Workflow[In, Out] {
	o := options{name: name, retry: exec.Policy{Attempts: 1, Initial: time.Second, Factor: 2, Max: time.Minute}}
	for _, opt := range opts {
		opt(&o)
	}
	if o.version != "" {
		o.name += "@" + o.version
	}
	if o.queue == "" {
		o.queue = o.name
	}
	w := &Workflow[In, Out]{fn: fn, name: o.name, queue: o.queue, retry: o.retry, pinned: o.pinned}
	w.err = errors.Join(store.ValidateName("workflow", name), store.ValidateName("workflow", o.name), store.ValidateName("queue", o.queue))
	bound, err := bind[In](o.under)
	if w.under = bound; err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("workflow %q: %w", name, err))
	}
	if o.graph != nil {
		if w.graph = o.graph; !json.Valid(o.graph) {
			w.err = errors.Join(w.err, store.Invalid("workflow "+name, "its graph is not valid JSON"))
		} else if len(o.graph) > maxGraph {
			w.err = errors.Join(w.err, &store.TooLargeError{Field: "the graph of workflow " + name, Size: len(o.graph), Limit: maxGraph})
		}
	}
	if fn == nil {
		w.err = errors.Join(w.err, store.Invalid("workflow "+name, "its function is nil"))
	}
	return w
}

// Name returns the workflow's name in the store, with its version.
func (w *Workflow[In, Out]) Name() string { return w.name }

// Queue returns the workflow's default queue.
func (w *Workflow[In, Out]) Queue() string { return w.queue }

// define implements [Definition].
func (w *Workflow[In, Out]) define(codec engine.Codec) *exec.Definition {
	limits, needs := defined(w.under)
	return &exec.Definition{
		Limits: limits, Needs: needs,
		Name: w.name, Queue: w.queue, Retry: w.retry, Graph: w.graph, Pinned: w.pinned, Codec: codec, Err: w.err,
		Invoke: func(b *exec.Branch, input []byte) ([]byte, error) {
			var in In
			if err := decodeOwn(b, codec, input, &in, "the input of workflow %q", w.name); err != nil {
				return nil, fmt.Errorf("%w. A restart keeps the input: start a new run with a valid input, or restart this one with code that accepts it", err)
			}
			out, err := w.fn(Context{branch: b, codec: codec}, in)
			if err != nil {
				return nil, continueWith[In](b, w.name, codec, err)
			}
			data, err := codec.Marshal(out)
			if b.Invocation().CheckInStep(err) != nil {
				return nil, fmt.Errorf("the output of workflow %q, a %T, cannot be encoded: %w", w.name, out, err)
			}
			return data, nil
		},
	}
}

// Start creates a run with one durable write and returns its handle. Errors are those of
// [engine.Engine.Start], and that of the codec if it cannot encode the input.
func (w *Workflow[In, Out]) Start(ctx context.Context, eng *engine.Engine, in In, opts ...engine.StartOption) (Handle[Out], error) {
	data, opts, err := w.encode(eng, in, opts)
	if err != nil {
		return Handle[Out]{}, err
	}
	return startRun[Out](ctx, eng, w.name, data, opts)
}

// Each is one of the starts of [Workflow.StartMany]: an input with options of its own.
type Each[In any] struct {
	In      In
	Options []engine.StartOption
}

// StartMany creates many runs with few writes. The handles are in the order of the inputs. Errors are
// those of [engine.Engine.StartMany]. If it fails, the handles of inputs that were not started are
// zero.
func (w *Workflow[In, Out]) StartMany(ctx context.Context, eng *engine.Engine, inputs []Each[In]) ([]Handle[Out], error) {
	return startRuns[Out](ctx, eng, w.name, inputs, func(in Each[In]) (engine.Item, error) {
		data, opts, err := w.encode(eng, in.In, in.Options)
		return engine.Item{Input: data, Options: opts}, err
	})
}

func (w *Workflow[In, Out]) encode(eng *engine.Engine, in In, opts []engine.StartOption) ([]byte, []engine.StartOption, error) {
	if w.err != nil {
		return nil, nil, w.err
	}
	data, err := encodeInput(eng, w.name, in)
	if err != nil {
		return nil, nil, err
	}
	uses, err := usesFor(w.under, in)
	if err != nil {
		return nil, nil, fmt.Errorf("start of workflow %q: %w", w.name, err)
	}
	// What the definition says goes first, so that an option can override it.
	return data, append([]engine.StartOption{engine.Queue(w.queue), engine.Under(uses...)}, opts...), nil
}

// Handle returns the handle of a run that was started elsewhere. It does not check that the run exists,
// or that it is a run of this workflow.
func (w *Workflow[In, Out]) Handle(eng *engine.Engine, id store.ID) Handle[Out] {
	return Handle[Out]{eng: eng, id: id}
}
