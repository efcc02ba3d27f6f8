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
// for months: the run sleeps meanwhile. It fails with [ErrCanceled] or [ErrDeadline].
//
// A payload that is no T gives a [*DecodeError], and so does one that is not encrypted where
// the codec insists on it. The signal stays unread, and the error is recorded: the code may
// go on, and the next Receive passes the signal over, live and replayed alike. When the run
// is tried again or restarted, the record is forgotten, like that of a failed step with
// what followed it, and the signal is received again: by code that was mended, perhaps.
// [ContinueAsNew] drops the signals that were passed over.
//
// A payload that the codec cannot open (engine.ErrCodec) is left as it is, and the run to
// a worker whose codec can.
func (s Signal[T]) Receive(ctx Context) (T, error) { return s.receive(ctx, -1) }

// ReceiveTimeout is [Signal.Receive] that waits for at most d, counted from the
// first time that the run comes here. It fails with [ErrTimeout] then, which is
// recorded; with 0 it takes what is there already.
func (s Signal[T]) ReceiveTimeout(ctx Context, d time.Duration) (T, error) {
	return s.receive(ctx, max(d, 0))
}

func (s Signal[T]) receive(ctx Context, d time.Duration) (T, error) {
	var v, none T
	timedOut, err := ctx.branch.Signal(s.name, d, func(payload []byte) error { return s.decode(ctx.codec, payload, &v) })
	switch {
	case err != nil:
		return none, err
	case timedOut:
		return none, fmt.Errorf("signal %q: %w", s.name, ErrTimeout)
	}
	return v, nil
}

func (s Signal[T]) decode(codec exec.Codec, payload []byte, v *T) error {
	return decodeInto(codec, payload, v, "the payload of signal %q", s.name)
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
