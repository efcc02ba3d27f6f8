package workflow

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// SignalWithStart sends a signal to the run that holds an external id, or starts the run if none is
// active, in one durable write:
//
//	run, err := Batch.SignalWithStart(ctx, eng, Config{}, Item.With(it),
//		engine.ExternalID("customer-42", engine.WhileActive))
//
// Of any number of concurrent calls for one external id, one starts the run, and the run receives the
// signals of all of them. No signal is lost because the run ends meanwhile: it reaches that run before
// its end, or the next one. The run that a call starts has the signal when its code begins.
//
// The options need an [engine.ExternalID]. Its policy is that of a run that the call starts. With
// engine.WhileActive, the next call after the run's end starts another run. With engine.Forever there
// is one run, and after its end calls fail with store.ErrFinished. The input and the options are
// those of a run that the call starts; a run that it finds keeps its own, and inputs are not compared.
// [Handle.Existing] says that the signal went to an existing run.
//
// A call delivers its signal once, even if an answer is lost and the request is repeated. Two calls
// deliver two signals, unless both messages have the same [SendKey]: then the second one returns the
// run that has received the first, also after its end. Errors are those of [engine.Engine.Start]; it
// fails with store.ErrConflict if the run is of another workflow.
func (w *Workflow[In, Out]) SignalWithStart(ctx context.Context, eng *engine.Engine, in In, m Message, opts ...engine.StartOption) (Handle[Out], error) {
	return signalWithStart[Out](ctx, eng, m, w.starting(eng, in, opts))
}

// SignalWithStart sends a signal to the run of an external id, or starts it, as
// [Workflow.SignalWithStart] does.
func (r Reference[In, Out]) SignalWithStart(ctx context.Context, eng *engine.Engine, in In, m Message, opts ...engine.StartOption) (Handle[Out], error) {
	return signalWithStart[Out](ctx, eng, m, r.starting(eng, in, opts))
}

// WithStart returns the run that holds an external id as a target of requests, and starts the run if
// none is active (update-with-start):
//
//	balance, err := Deposit.Ask(ctx, Account.WithStart(eng, Opening{}, engine.ExternalID("acc-7")), 100)
//
// The request and the start are one durable write. What [Workflow.SignalWithStart] says of the run, the
// external id and the options holds here, too. A request with a [SendKey] that is sent again has the
// same answer, also after the run's end.
func (w *Workflow[In, Out]) WithStart(eng *engine.Engine, in In, opts ...engine.StartOption) Target {
	return target{eng: eng, start: w.starting(eng, in, opts)}
}

// WithStart returns the run of an external id, which is started if none is active, as a target of
// requests, as [Workflow.WithStart] does.
func (r Reference[In, Out]) WithStart(eng *engine.Engine, in In, opts ...engine.StartOption) Target {
	return target{eng: eng, start: r.starting(eng, in, opts)}
}

// starting is a start that delivers a signal.
type starting struct {
	workflow string
	input    []byte
	opts     []engine.StartOption
	err      error
}

func (w *Workflow[In, Out]) starting(eng *engine.Engine, in In, opts []engine.StartOption) *starting {
	data, opts, err := w.encode(eng, in, opts)
	return &starting{w.name, data, opts, err}
}

func (r Reference[In, Out]) starting(eng *engine.Engine, in In, opts []engine.StartOption) *starting {
	data, opts, err := r.encode(eng, in, opts)
	return &starting{r.name, data, opts, err}
}

// started starts the run with the signal, or delivers it.
func (s *starting) started(ctx context.Context, eng *engine.Engine, n store.NewSignal) (engine.Started, error) {
	if s.err != nil {
		return engine.Started{}, s.err
	}
	sig := engine.WithSignal(store.StartSignal{ID: n.ID, Name: n.Name, Payload: n.Payload})
	return eng.Start(ctx, s.workflow, s.input, append(s.opts[:len(s.opts):len(s.opts)], sig)...)
}

// send is started for a signal that asks for an answer.
func (s *starting) send(ctx context.Context, eng *engine.Engine, n store.NewSignal) (engine.Asked, error) {
	if n.ID.IsZero() {
		n.ID = store.NewID()
	}
	started, err := s.started(ctx, eng, n)
	return engine.Asked{Run: started.ID, Signal: n.ID}, err
}

func signalWithStart[Out any](ctx context.Context, eng *engine.Engine, m Message, s *starting) (Handle[Out], error) {
	data, err := eng.Codec().Marshal(m.payload)
	if err != nil {
		return Handle[Out]{}, fmt.Errorf("the payload of signal %q, a %T, cannot be encoded: %w", m.name, m.payload, err)
	}
	n := store.NewSignal{Name: m.name, Payload: data}
	for _, opt := range m.opts {
		opt(&n)
	}
	started, err := s.started(ctx, eng, n)
	return Handle[Out]{eng: eng, id: started.ID, existing: started.Existing}, err
}
