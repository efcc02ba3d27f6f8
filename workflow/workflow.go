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

// Workflow is a named function that takes an In and gives an Out.
type Workflow[In, Out any] struct {
	fn    func(Context, In) (Out, error)
	name  string
	queue string
	retry exec.Policy
	graph json.RawMessage
	err   error
}

// Definition is a [Workflow] of whatever types, as worker.Register takes it.
type Definition interface {
	// Define gives the definition its codec.
	Define(codec engine.Codec) *exec.Definition
}

// maxGraph leaves room in store.MaxMeta for what is kept beside the graph.
const maxGraph = store.MaxMeta - 4<<10

// New defines a workflow. The name identifies it in the store: runs that exist
// need a workflow of their name. What is wrong with a definition is reported by
// Register and Start.
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
	w := &Workflow[In, Out]{fn: fn, name: o.name, queue: o.queue, retry: o.retry}
	w.err = errors.Join(store.ValidateName("workflow", name), store.ValidateName("workflow", o.name), store.ValidateName("queue", o.queue))
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

// Name is the workflow's name in the store, with its version.
func (w *Workflow[In, Out]) Name() string { return w.name }

// Define implements [Definition].
func (w *Workflow[In, Out]) Define(codec engine.Codec) *exec.Definition {
	return &exec.Definition{
		Name: w.name, Queue: w.queue, Retry: w.retry, Graph: w.graph, Codec: codec, Err: w.err,
		Invoke: func(b *exec.Branch, input []byte) ([]byte, error) {
			var in In
			if err := decodeOwn(b, codec, input, &in, "the input of workflow %q", w.name); err != nil {
				return nil, fmt.Errorf("%w. A restart keeps the input: start another run with one that fits, or restart this one with code that takes it", err)
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

// Start starts a run with one durable write and returns its handle. Errors are
// those of [engine.Engine.Start].
func (w *Workflow[In, Out]) Start(ctx context.Context, eng *engine.Engine, in In, opts ...engine.StartOption) (Handle[Out], error) {
	data, opts, err := w.encode(eng, in, opts)
	if err != nil {
		return Handle[Out]{}, err
	}
	return startRun[Out](ctx, eng, w.name, data, opts)
}

// Each is one start of many: an input with options of its own.
type Each[In any] struct {
	In      In
	Options []engine.StartOption
}

// StartMany starts many runs with few writes. The handles come in the order of
// the inputs; when it fails, those of the inputs that were not started are zero.
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
	// The definition's own queue goes first, so that an option can override it.
	return data, append([]engine.StartOption{engine.Queue(w.queue)}, opts...), nil
}

// Handle returns the handle of a run that was started elsewhere. The run is not
// looked at.
func (w *Workflow[In, Out]) Handle(eng *engine.Engine, id store.ID) Handle[Out] {
	return Handle[Out]{eng: eng, id: id}
}
