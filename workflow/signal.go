package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Signal is a kind of message to runs, with a payload of type T.
//
//	var Approved = workflow.NewSignal[Approval]("approved")
//
// Signals of a run wait for their reader, in the order in which they were sent,
// and are received once.
type Signal[T any] struct{ name string }

// NewSignal names a kind of signal. A wrong name is reported when it is used.
func NewSignal[T any](name string) Signal[T] { return Signal[T]{name} }

// Name is the signal's.
func (s Signal[T]) Name() string { return s.name }

// ErrTimeout: what was waited for did not come in time.
var ErrTimeout = errors.New("timed out")

// Receive waits for the next signal of this kind and takes it. The wait may last
// for months: the run sleeps meanwhile. It fails with [ErrCanceled] or
// [ErrDeadline], or with a [*DecodeError] for a payload that is no T, which is taken.
func (s Signal[T]) Receive(ctx Context) (T, error) { return s.receive(ctx, -1) }

// ReceiveTimeout is [Signal.Receive] that waits for at most d, counted from the
// first time that the run comes here. It fails with [ErrTimeout] then, which is
// recorded; with 0 it takes what is there already.
func (s Signal[T]) ReceiveTimeout(ctx Context, d time.Duration) (T, error) {
	return s.receive(ctx, max(d, 0))
}

func (s Signal[T]) receive(ctx Context, d time.Duration) (T, error) {
	var v T
	data, timedOut, err := ctx.branch.Signal(s.name, d)
	switch {
	case err != nil:
		return v, err
	case timedOut:
		return v, fmt.Errorf("signal %q: %w", s.name, ErrTimeout)
	}
	if err := ctx.codec.Unmarshal(data, &v); err != nil {
		return v, decodeError(v, err, "the payload of signal %q", s.name)
	}
	return v, nil
}

// SendOption configures the sending of a signal.
type SendOption func(*store.NewSignal)

// SendKey makes sending idempotent over calls and processes: a run receives one signal of
// each name and key, the first, for as long as the run is kept. With SendTo that holds for all runs of the
// external id together. A payload that differs the second time is dropped.
func SendKey(key string) SendOption {
	return func(n *store.NewSignal) { n.ID = store.DeriveID(store.ID{}, "signal\x00"+n.Name+"\x00"+key) }
}

// Send sends a signal to a run, durably. It fails with store.ErrNotFound or
// store.ErrFinished. A lost answer is made up for: the signal arrives once. Sent by two
// calls, it arrives twice, unless both have the same [SendKey].
func (s Signal[T]) Send(ctx context.Context, eng *engine.Engine, run store.ID, v T, opts ...SendOption) error {
	return s.send(ctx, eng, store.NewSignal{Run: run}, v, opts)
}

// SendTo sends a signal to the run that holds an external id (see [engine.ID] and
// [engine.Suffix]), as [Signal.Send] does.
func (s Signal[T]) SendTo(ctx context.Context, eng *engine.Engine, externalID, suffix string, v T, opts ...SendOption) error {
	return s.send(ctx, eng, store.NewSignal{ExternalID: externalID, Suffix: suffix}, v, opts)
}

func (s Signal[T]) send(ctx context.Context, eng *engine.Engine, to store.NewSignal, v T, opts []SendOption) error {
	data, err := eng.Codec().Marshal(v)
	if err != nil {
		return fmt.Errorf("the payload of signal %q, a %T, cannot be encoded: %w", s.name, v, err)
	}
	to.Name, to.Payload = s.name, data
	for _, opt := range opts {
		opt(&to)
	}
	return eng.Signal(ctx, to)
}
