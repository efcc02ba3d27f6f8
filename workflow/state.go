package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// State is a key of a run's flow state, with values of type T.
//
//	var Offset = workflow.NewState[int64]("consumer_offset")
//
// Flow state belongs to a run and lives as long as the run. The run's function, its steps
// and programs outside read it, write it and wait for it, to coordinate their work. See
// [StateScope] for what each of them may do.
type State[T any] struct{ key string }

// NewState returns the state of a key. A key that is not valid is reported when the state
// is used.
func NewState[T any](key string) State[T] { return State[T]{key} }

// Key returns the state's key.
func (s State[T]) Key() string { return s.key }

// A StateScope is where flow state is read and written:
//
//   - a [Context], in a workflow's function. Operations are recorded: a write is
//     committed with its record, once; a read returns at each replay what it read the
//     first time.
//   - [InStep], in a step. Operations act at once; a step that is tried again does
//     them again. Writes of a worker that has lost the run to another are refused.
//   - [OfRun], from outside.
type StateScope interface {
	encoder() exec.Codec
	// read decodes the value of a key that exists.
	read(key string, take func(value []byte) error) (ok bool, err error)
	// check handles an error of the codec.
	check(err error) error
	write(w store.StateWrite) error
	publish(w store.StateWrite) error
	wait(name string, w exec.StateWait) (timedOut bool, err error)
}

// A LiveScope is a [StateScope] whose operations act at once: that of a step, or of a
// program outside.
type LiveScope interface {
	StateScope
	readVersion(key string) (e store.StateEntry, err error)
	compare(w store.StateWrite) (version int64, err error)
}

// Set writes a value. It fails with store.ErrInvalid for a key that is not valid, and with
// store.ErrTooLarge for a value over the store's limit; then nothing is written and the run
// can continue. Further errors depend on the scope:
//
//   - In a workflow's function, [ErrCanceled] or [ErrDeadline].
//   - In a step, [ErrTakenOver] if another worker has taken over the run, and the cause of
//     ctx if that has ended. Set returns when the value is durable. In the transaction of a
//     [StepTx] the write is part of the transaction: it is gone if that rolls back.
//   - From outside, store.ErrNotFound or store.ErrFinished.
func (s State[T]) Set(in StateScope, v T) error {
	data, err := s.encode(in, v)
	if err != nil {
		return err
	}
	if err := s.own(); err != nil {
		return err
	}
	return in.write(store.StateWrite{Key: s.key, Value: data})
}

// Get returns the value as it is now. Ok is false if the key does not exist. Errors are those of
// [State.Set], and a [*DecodeError] for a value that cannot be decoded into T. In a workflow's
// function that error is recorded, and the value is read again when the run is tried again or
// restarted.
//
// In the transaction of a [StepTx], Get reads what the transaction has written. Another key
// is store.ErrInvalid there: read it before the step.
func (s State[T]) Get(in StateScope) (v T, ok bool, err error) {
	var none T
	if ok, err = in.read(s.key, func(data []byte) error { return s.decode(in.encoder(), data, &v) }); err != nil {
		return none, ok, err
	}
	return v, ok, nil
}

// Delete removes the key. Deleting a key that does not exist is not an error. Errors are those of
// [State.Set].
func (s State[T]) Delete(in StateScope) error {
	if err := s.own(); err != nil {
		return err
	}
	return in.write(store.StateWrite{Key: s.key, Delete: true})
}

// own refuses keys of views.
func (s State[T]) own() error {
	if exec.IsView(s.key) {
		return store.Invalid("state key", fmt.Sprintf("%q begins with %q, as the keys of views do; use a View", s.key, exec.ViewPrefix))
	}
	return nil
}

// GetVersion is [State.Get] that also returns the version of the value, for
// [State.CompareAndSet]. The version of a key that does not exist is 0.
func (s State[T]) GetVersion(in LiveScope) (v T, version int64, err error) {
	e, err := in.readVersion(s.key)
	if err != nil || e.Version == 0 {
		return v, 0, err
	}
	return v, e.Version, in.check(s.decode(in.encoder(), e.Value, &v))
}

// CompareAndSet writes a value if the key still has that version (0: if it still does not
// exist), and returns the new version. Otherwise it fails with store.ErrConflict, and
// nothing is written. If an answer is lost, it fails with store.ErrOutcomeUnknown: the
// value may have been written; read it again. Other errors are those of [State.Set]. It is
// not possible in the transaction of a [StepTx] (store.ErrInvalid).
func (s State[T]) CompareAndSet(in LiveScope, version int64, v T) (int64, error) {
	data, err := s.encode(in, v)
	if err != nil {
		return 0, err
	}
	if err := s.own(); err != nil {
		return 0, err
	}
	return in.compare(store.StateWrite{Key: s.key, Value: data, IfVersion: &version})
}

// Read returns the value that a predicate of [WaitForState] sees. Ok is false if the key
// does not exist.
func (s State[T]) Read(r FlowStateReader) (v T, ok bool, err error) {
	e, ok := r.view[s.key]
	if !ok {
		return v, false, nil
	}
	return v, true, r.check(s.decode(r.codec, e.Value, &v))
}

func (s State[T]) encode(in StateScope, v T) ([]byte, error) {
	return encodeValue(in, v, "the value of state %q, a %T", s.key, v)
}

func encodeValue(in StateScope, v any, what string, args ...any) ([]byte, error) {
	data, err := in.encoder().Marshal(v)
	if in.check(err) != nil {
		return nil, fmt.Errorf(what+", cannot be encoded: %w", append(args, err)...)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

func (s State[T]) decode(codec exec.Codec, data []byte, v *T) error {
	return decodeInto(codec, data, v, "the value of state %q", s.key)
}

// FlowStateReader is a run's flow state at one moment, for the predicate of [WaitForState].
// [State.Read] reads a key of it.
type FlowStateReader struct {
	view  exec.View
	codec exec.Codec
	check func(error) error
}

// Has reports whether a key exists.
func (r FlowStateReader) Has(key string) bool {
	_, ok := r.view[key]
	return ok
}

// Len returns the number of keys.
func (r FlowStateReader) Len() int { return len(r.view) }

// CoordErrorState is the state with which the parts of a run tell each other to stop. Set it, with
// the reason, to stop the others:
//
//	workflow.CoordErrorState.Set(workflow.InStep(ctx), "the source is gone")
//
// Every [WaitForState] on the run then ends with an error that matches [ErrCoordination],
// until the key is deleted. The key is "coord.error".
var CoordErrorState = NewState[string]("coord.error")

// ErrCoordination means that a wait has ended because [CoordErrorState] is set. The error's text has the
// reason. The error is permanent: a step or a run that returns it fails for good, with
// [CodeCoordination].
var ErrCoordination = errors.New("coord.error is set")

// CodeCoordination is the failure code of a step or a run that ended with
// [ErrCoordination].
const CodeCoordination = "coordination"

// WaitOption configures a wait for flow state.
type WaitOption func(*stateWait)

type stateWait exec.StateWait

// DefaultPoll is how often [WaitForState] looks at the state, unless [PollInterval] sets
// another interval.
const DefaultPoll = 250 * time.Millisecond

// PollInterval sets how often a wait looks at the state if it is not notified of a change. It is a
// fallback: a change wakes the wait at once. A run that has left memory does not poll. The default,
// also for 0 or less, is [DefaultPoll].
func PollInterval(d time.Duration) WaitOption {
	return func(w *stateWait) {
		if w.Poll = d; d <= 0 {
			w.Poll = DefaultPoll
		}
	}
}

// WaitTimeout limits a wait, which then fails with [ErrTimeout]. In a workflow's function it counts
// from the first time that the run reaches the wait. With 0 or less the wait looks once. The default
// is no limit.
func WaitTimeout(d time.Duration) WaitOption {
	return func(w *stateWait) { w.Timeout = max(d, 0) }
}

// WaitForState waits until pred returns true for the run's flow state. Pred must be quick
// and do nothing but read. It is called whenever the state has changed, with all of the
// state as it is at one moment. An error of pred ends the wait, and so does [CoordErrorState],
// which is looked at first.
//
//   - In a workflow's function the wait is durable: the run sleeps meanwhile, a change by
//     anyone wakes it, and the end of the wait is recorded, also an [ErrTimeout]. An error
//     of pred is recorded and comes back as a [*StepError]; it is not retried by itself. The
//     wait fails with [ErrCanceled] or [ErrDeadline] as soon as the run is canceled or its
//     deadline passes. A panic of pred fails the run.
//   - In a step it waits in memory and keeps the run's slot, so a long wait belongs in the
//     workflow's function. It ends at once with the cause of ctx: [ErrCanceled], [ErrTakenOver],
//     [ErrShutdown] or another. It is not possible in the transaction of a [StepTx]
//     (store.ErrInvalid).
//   - From outside it ends when the run does, with store.ErrFinished or engine.ErrCanceled.
//     Further errors are those of [engine.Engine.WaitState].
//
// The name identifies the wait in the run's records, as that of a step does.
func WaitForState(in StateScope, name string, pred func(FlowStateReader) (bool, error), opts ...WaitOption) error {
	if pred == nil {
		return store.Invalid("wait "+name, "its predicate is nil")
	}
	w := stateWait{Timeout: -1, Poll: DefaultPoll}
	for _, opt := range opts {
		opt(&w)
	}
	codec := in.encoder()
	w.Holds = func(view exec.View) (bool, error) {
		if e, ok := view[CoordErrorState.key]; ok {
			var why string
			if err := codec.Unmarshal(e.Value, &why); errors.Is(err, engine.ErrCodec) && !errors.Is(err, engine.ErrPlain) {
				return false, in.check(err)
			} else if err != nil {
				why = string(e.Value) // set by a program without a codec
			}
			return false, &exec.Coded{Code: CodeCoordination, Permanent: true, Err: fmt.Errorf("%w: %s", ErrCoordination, why)}
		}
		return pred(FlowStateReader{exec.WithoutViews(view), codec, in.check})
	}
	timedOut, err := in.wait(name, exec.StateWait(w))
	if timedOut {
		return fmt.Errorf("wait %q: %w", name, ErrTimeout)
	}
	return err
}

func (c Context) encoder() exec.Codec   { return c.codec }
func (c Context) check(err error) error { return c.branch.Invocation().CheckInStep(err) }
func (c Context) read(key string, take func([]byte) error) (bool, error) {
	ok, err := c.branch.State(key, take)
	return ok, public(err)
}
func (c Context) write(w store.StateWrite) error   { return c.branch.SetState(w) }
func (c Context) publish(w store.StateWrite) error { return public(c.branch.Publish(w)) }
func (c Context) wait(name string, w exec.StateWait) (bool, error) {
	timedOut, err := c.branch.WaitState(name, w)
	err = public(err)
	var failed *StepError
	if errors.As(err, &failed) && failed.Failure.Code == CodeCoordination {
		err = coordinationError{failed}
	}
	return timedOut, err
}

// coordinationError is a recorded [ErrCoordination].
type coordinationError struct{ *StepError }

func (e coordinationError) Is(target error) bool { return target == ErrCoordination }
func (e coordinationError) Unwrap() error        { return e.StepError }

// InStep returns the flow state of the run whose step ctx belongs to. ctx limits the operations; it
// may be derived from the step's context.
func InStep(ctx context.Context) LiveScope {
	info := exec.Info(ctx)
	if info == nil {
		return nowhere{store.Invalid("state", "InStep needs the context of a step; outside a run use OfRun")}
	}
	return stepScope{ctx, info}
}

type stepScope struct {
	ctx  context.Context
	info *exec.StepInfo
}

func (s stepScope) encoder() exec.Codec { return s.info.Codec() }

func (s stepScope) check(err error) error { return s.info.Inv.CheckInStep(err) }

func (s stepScope) read(key string, take func([]byte) error) (bool, error) {
	e, ok, err := s.info.State(s.ctx, key)
	if err != nil || !ok {
		return ok, err
	}
	return true, s.check(take(e.Value))
}

func (s stepScope) readVersion(key string) (store.StateEntry, error) {
	e, _, err := s.info.State(s.ctx, key)
	return e, err
}

func (s stepScope) write(w store.StateWrite) error { return s.info.SetState(s.ctx, w) }

func (s stepScope) publish(w store.StateWrite) error { return s.info.Publish(s.ctx, w) }

func (s stepScope) compare(w store.StateWrite) (int64, error) { return s.info.CompareState(s.ctx, w) }

func (s stepScope) wait(name string, w exec.StateWait) (bool, error) {
	return s.info.WaitState(s.ctx, w)
}

// OfRun returns the flow state of a run, from outside. With a view of the engine (see
// [engine.Engine.InTx]), reads and writes are part of its transaction.
func OfRun(ctx context.Context, eng *engine.Engine, run store.ID) LiveScope {
	return runScope{ctx, eng, run}
}

type runScope struct {
	ctx context.Context
	eng *engine.Engine
	run store.ID
}

func (s runScope) encoder() exec.Codec { return s.eng.Codec() }

func (s runScope) check(err error) error { return err }

func (s runScope) read(key string, take func([]byte) error) (bool, error) {
	entries, err := s.eng.GetState(s.ctx, s.run, key)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	return true, take(entries[0].Value)
}

func (s runScope) readVersion(key string) (store.StateEntry, error) {
	entries, err := s.eng.GetState(s.ctx, s.run, key)
	if err != nil || len(entries) == 0 {
		return store.StateEntry{}, err
	}
	return entries[0], nil
}

func (s runScope) write(w store.StateWrite) error {
	_, err := s.eng.SetState(s.ctx, s.run, w)
	return err
}

func (s runScope) publish(store.StateWrite) error {
	return store.Invalid("view", "only the run itself publishes its views, in its function or in a step")
}

func (s runScope) compare(w store.StateWrite) (int64, error) {
	entries, err := s.eng.SetState(s.ctx, s.run, w)
	if err != nil {
		return 0, err
	}
	return entries[0].Version, nil
}

func (s runScope) wait(name string, w exec.StateWait) (bool, error) {
	held, err := s.eng.WaitState(s.ctx, s.run, func(entries []store.StateEntry) (bool, error) {
		view := make(exec.View, len(entries))
		for _, e := range entries {
			view[e.Key] = e
		}
		return w.Holds(view)
	}, w.Timeout, w.Poll)
	return !held && err == nil, err
}

// nowhere is the scope of a context that does not belong to a step.
type nowhere struct{ err error }

func (n nowhere) encoder() exec.Codec                           { return engine.JSON{} }
func (n nowhere) check(err error) error                         { return err }
func (n nowhere) read(string, func([]byte) error) (bool, error) { return false, n.err }
func (n nowhere) readVersion(string) (store.StateEntry, error)  { return store.StateEntry{}, n.err }
func (n nowhere) write(store.StateWrite) error                  { return n.err }
func (n nowhere) publish(store.StateWrite) error                { return n.err }
func (n nowhere) compare(store.StateWrite) (int64, error)       { return 0, n.err }
func (n nowhere) wait(string, exec.StateWait) (bool, error)     { return false, n.err }
