package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Signal is a kind of message to runs, with a payload of type T.
//
//	var Approved = workflow.NewSignal[Approval]("approved")
//
// The signals of a run wait until the run receives them, in the order in which they were
// sent. Each is received once.
type Signal[T any] struct{ name string }

// NewSignal returns a kind of signal. A name that is not valid is reported when the signal
// is used.
func NewSignal[T any](name string) Signal[T] { return Signal[T]{name} }

// Name returns the signal's name.
func (s Signal[T]) Name() string { return s.name }

// ErrTimeout means that a wait has ended because its time was over.
var ErrTimeout = errors.New("timed out")

// Receive waits for the next signal of this kind and takes it. The wait may last for
// months: the run sleeps meanwhile. It fails with [ErrCanceled] or [ErrDeadline].
//
// A payload that cannot be decoded into T gives a [*DecodeError], and so does one that is not
// encrypted if the codec requires encryption. The signal stays unread, and the error is recorded.
// The code may continue, and the next Receive passes the signal over, live and replayed alike. When
// the run is tried again or restarted, the record is deleted, as is a failed step with what
// followed it, and the signal is received again, perhaps by corrected code. [ContinueAsNew] drops
// the signals that were passed over.
//
// If the codec cannot open a payload (engine.ErrCodec), the signal stays as it is, and the
// run is left to a worker whose codec can.
func (s Signal[T]) Receive(ctx Context) (T, error) { return s.receive(ctx, -1) }

// ReceiveTimeout is [Signal.Receive] that waits for at most d, counted from the first time that the
// run reaches it. Then it fails with [ErrTimeout], which is recorded. With 0 or less it only takes a
// signal that has already arrived.
func (s Signal[T]) ReceiveTimeout(ctx Context, d time.Duration) (T, error) {
	return s.receive(ctx, max(d, 0))
}

func (s Signal[T]) receive(ctx Context, d time.Duration) (T, error) {
	var v, none T
	timedOut, err := ctx.branch.Signal(s.name, d, func(payload []byte) error { return s.decode(ctx.codec, payload, &v) })
	switch {
	case err != nil:
		return none, public(err)
	case timedOut:
		return none, fmt.Errorf("signal %q: %w", s.name, ErrTimeout)
	}
	return v, nil
}

// ReceiveMany waits until most signals of this kind have arrived, or until within has passed since the
// run first reached it, and takes those that have arrived, at most that number, in the order of sending. The
// result may be empty. The signals are recorded together, in the commit that takes them: none is lost,
// and none is taken twice. The run sleeps meanwhile. It fails with [ErrCanceled] or [ErrDeadline], and
// then takes nothing.
//
// most is from 1 to 1000. With a within of 0 or less, ReceiveMany does not wait. A batch may be smaller
// than most if its payloads exceed a mebibyte, or half the store's payload limit; then further signals
// are left for the next call. A batch ends before a payload that cannot be decoded. If that is the
// first one, ReceiveMany fails and passes it over as [Signal.Receive] does.
func (s Signal[T]) ReceiveMany(ctx Context, most int, within time.Duration) ([]T, error) {
	if most < 1 || most > exec.MaxSignals {
		return nil, store.Invalid("signal "+s.name, fmt.Sprintf("a batch of %d signals is not between 1 and %d", most, exec.MaxSignals))
	}
	var got []T
	begin := func() { got = nil }
	err := ctx.branch.Signals(s.name, most, max(within, 0), begin, func(payload []byte) error {
		var v T
		err := s.decode(ctx.codec, payload, &v)
		if err == nil {
			got = append(got, v)
		}
		return err
	})
	if err != nil {
		return nil, public(err)
	}
	return got, nil
}

func (s Signal[T]) decode(codec exec.Codec, payload []byte, v *T) error {
	return decodeInto(codec, payload, v, "the payload of signal %q", s.name)
}

// SendOption configures the sending of a signal.
type SendOption func(*store.NewSignal)

// SendKey makes sending idempotent across calls and processes: a run receives one signal of
// each name and key, the first, for as long as the run is kept. With SendTo that holds for
// all runs of the external id together. A later signal with the same key is dropped, even
// if its payload differs.
func SendKey(key string) SendOption {
	return func(n *store.NewSignal) { n.ID = store.DeriveID(store.ID{}, "signal\x00"+n.Name+"\x00"+key) }
}

// SendSuffix makes [Signal.SendTo] send to the run that was started with [engine.Suffix]. Other
// calls ignore it.
func SendSuffix(s string) SendOption { return func(n *store.NewSignal) { n.Suffix = s } }

// Send sends a signal to a run, durably. It fails with store.ErrNotFound, store.ErrFinished for a
// run that is final, store.ErrInvalid for a name that is not valid, or store.ErrTooLarge. A call
// delivers the signal once, even if an answer is lost and the request is repeated. Two calls
// deliver two signals, unless both have the same [SendKey].
func (s Signal[T]) Send(ctx context.Context, eng *engine.Engine, run store.ID, v T, opts ...SendOption) error {
	return s.With(v).send(ctx, eng, store.NewSignal{Run: run}, opts)
}

// SendTo sends a signal to the run that holds an external id (see [engine.ExternalID]), as
// [Signal.Send] does. For a run that was started with a suffix, pass [SendSuffix].
func (s Signal[T]) SendTo(ctx context.Context, eng *engine.Engine, externalID string, v T, opts ...SendOption) error {
	return s.With(v).send(ctx, eng, store.NewSignal{ExternalID: externalID}, opts)
}

// Message is a signal with its payload, for [Handle.Signal] and [Workflow.SignalWithStart]. Make one with [Signal.With].
type Message struct {
	name    string
	payload any
	opts    []SendOption
}

// With returns the message that consists of this signal and a payload, to be sent with these options.
func (s Signal[T]) With(v T, opts ...SendOption) Message { return Message{s.name, v, opts} }

// send sends the message to the run that to names.
func (m Message) send(ctx context.Context, eng *engine.Engine, to store.NewSignal, opts []SendOption) error {
	data, err := eng.Codec().Marshal(m.payload)
	if err != nil {
		return fmt.Errorf("the payload of signal %q, a %T, cannot be encoded: %w", m.name, m.payload, err)
	}
	to.Name, to.Payload = m.name, data
	for _, opt := range slices.Concat(m.opts, opts) {
		opt(&to)
	}
	return eng.Signal(ctx, to)
}
