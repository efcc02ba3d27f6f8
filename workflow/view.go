package workflow

import (
	"context"
	"iter"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// View is a value that a run publishes for programs outside, such as its progress: the answer to a
// query that is read from the record and needs no worker.
//
//	var Progress = workflow.NewView[Percent]("progress")
//
// The run publishes values with [View.Publish]; programs read the last one with [View.Get], at any
// time, also after the run's end, and follow the values with [View.Watch]. Views are kept with the
// run's flow state, under keys of their own that [State] cannot write and the predicates of
// [WaitForState] do not see. They stay when the run continues as new or is restarted.
type View[T any] struct{ name string }

// NewView returns the view of a name. A name that is not valid, or is longer than 245 bytes, is
// reported when the view is used.
func NewView[T any](name string) View[T] { return View[T]{name} }

// Name returns the view's name.
func (v View[T]) Name() string { return v.name }

func (v View[T]) key() (string, error) {
	if err := store.ValidateName("view name", v.name); err != nil {
		return "", err
	}
	key := exec.ViewPrefix + v.name
	return key, store.ValidateName("view name", key)
}

// Publish publishes a value:
//
//   - In a workflow's function, Progress.Publish(ctx, v), the value is committed with a record of its own, once: a
//     replay does not publish again.
//   - In a step, Progress.Publish(workflow.InStep(ctx), v), it is committed with the step's result: a
//     reader that sees one sees the other. If the step's attempt fails, or its worker dies, nothing
//     is published. Of several values the last one counts. In a [StepTx] it is part of the transaction.
//
// It fails with store.ErrInvalid for a name that is not valid, in a generator, and outside a run, and
// with store.ErrTooLarge for a value over the store's limit. In a workflow's function it fails with [ErrCanceled] or
// [ErrDeadline], and in a step with [ErrTakenOver] or the cause of ctx.
func (v View[T]) Publish(in StateScope, value T) error {
	key, err := v.key()
	if err != nil {
		return err
	}
	data, err := encodeValue(in, value, "the value of view %q, a %T", v.name, value)
	if err != nil {
		return err
	}
	return in.publish(store.StateWrite{Key: key, Value: data})
}

// Published is a value of a view.
type Published[T any] struct {
	Value T
	// Version increases with every change of the run's flow state and views.
	Version int64
	At      time.Time // when it was committed, by the store's clock
}

// Get returns the value that a run published last. Ok is false if it has published none. It needs no
// worker, and works on final runs too. With a view of the engine (see [engine.Engine.InTx]) it reads
// inside the transaction. It fails with store.ErrNotFound if there is no such run, or with a
// [*DecodeError].
func (v View[T]) Get(ctx context.Context, eng *engine.Engine, run store.ID) (value T, ok bool, err error) {
	key, err := v.key()
	if err != nil {
		return value, false, err
	}
	entries, err := eng.GetState(ctx, run, key)
	if err != nil || len(entries) == 0 {
		return value, false, err
	}
	p, err := v.decode(eng, &entries[0])
	return p.Value, err == nil, err
}

// Watch returns the values that a run publishes: first the present one, if there is one, then each
// change. A reader that is slow, or a run that publishes quickly, skips values between, but never the
// last one. The sequence ends after the last value of a run that is final, or with an error:
// store.ErrNotFound, a [*DecodeError], the context's error, or engine.ErrClosed.
//
// Hints of the store report changes at once; without them the watch polls.
func (v View[T]) Watch(ctx context.Context, eng *engine.Engine, run store.ID) iter.Seq2[Published[T], error] {
	return func(yield func(Published[T], error) bool) {
		key, err := v.key()
		if err != nil {
			yield(Published[T]{}, err)
			return
		}
		for e, err := range eng.WatchState(ctx, run, key, DefaultPoll) {
			var p Published[T]
			if err == nil {
				p, err = v.decode(eng, &e)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func (v View[T]) decode(eng *engine.Engine, e *store.StateEntry) (Published[T], error) {
	p := Published[T]{Version: e.Version, At: e.UpdatedAt}
	err := decodeInto(eng.Codec(), e.Value, &p.Value, "the value of view %q", v.name)
	if err != nil {
		var none T
		p.Value = none
	}
	return p, err
}
