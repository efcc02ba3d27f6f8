package workflow

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Stream is a list of values of type T, by name, to which a run and its steps append and from which programs
// read while the run goes on: the tokens of a model, the lines of a log, the rows of a report.
//
//	var Tokens = workflow.NewStream[string]("tokens")
//
// A stream belongs to a run and lives as long as the run. Its items are in one order, which is the same for
// every reader. When an attempt of a step appends for the first time, what an earlier attempt of that step has
// appended to the stream is superseded: see [Item.Reset]. All streams of a run have at most
// store.MaxStreamItems items and store.MaxStreamBytes bytes. An append beyond that fails with store.ErrTooLarge.
type Stream[T any] struct {
	name       string
	withRecord bool
}

// StreamOption configures a stream.
type StreamOption func(*streamOptions)

type streamOptions struct{ withRecord bool }

// WithRecord makes items visible together with the record of the step that appends them: readers see those of a
// step that succeeded, all at once, and nothing of an attempt that failed. The default is at once.
func WithRecord() StreamOption { return func(o *streamOptions) { o.withRecord = true } }

// NewStream returns the stream of a name. A name that is not valid is reported when the stream is used.
func NewStream[T any](name string, opts ...StreamOption) Stream[T] {
	var o streamOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return Stream[T]{name, o.withRecord}
}

// Name returns the stream's name.
func (s Stream[T]) Name() string { return s.name }

// Append appends values from a step. ctx is the step's context or one that is derived from it. When Append
// returns, readers see the values, unless the stream has [WithRecord] or the step is transactional ([StepTx]): then
// they see them with the step's record. Calls may be concurrent; those that come while one is under way
// share the next request, so that a stream of many small values costs few.
//
// It fails with store.ErrTooLarge for a value over the store's limit and for a stream that is full; with
// store.ErrInvalid outside a step, after the step's end, and for more than 1,000 values in one call; with
// store.ErrUnsupported if the store has no streams; with store.ErrConflict if a later attempt of the step has
// begun to write; with [ErrTakenOver] if another worker has taken over the run; and with the cause of ctx. A
// step that returns such an error of the stream is not tried again.
func (s Stream[T]) Append(ctx context.Context, values ...T) error {
	info := exec.Info(ctx)
	if info == nil {
		return store.Invalid(fmt.Sprintf("stream %q", s.name), "Append needs the context of a step; in a workflow's function use AppendInRun")
	}
	items, err := s.encode(info.Codec(), info.Inv, values)
	if err != nil {
		return err
	}
	return info.AppendStream(ctx, s.name, items, s.withRecord)
}

// AppendInRun appends values from the run's function. It is an operation of its own: its record keeps a replay from
// appending again. When it returns, readers see the values, unless the stream has [WithRecord]: then they see
// them soon after, with what the run records next. Errors are those of [Stream.Append], [ErrCanceled] and
// [ErrDeadline]; a run whose streams are full fails.
func (s Stream[T]) AppendInRun(ctx Context, values ...T) error {
	items, err := s.encode(ctx.codec, ctx.branch.Invocation(), values)
	if err != nil {
		return err
	}
	return public(ctx.branch.AppendStream(s.name, items, !s.withRecord))
}

func (s Stream[T]) encode(codec engine.Codec, inv *exec.Invocation, values []T) ([][]byte, error) {
	items := make([][]byte, len(values))
	for i, v := range values {
		data, err := codec.Marshal(v)
		if inv.CheckInStep(err) != nil {
			return nil, fmt.Errorf("value %d for stream %q, a %T, cannot be encoded: %w", i+1, s.name, v, err)
		}
		items[i] = data
	}
	return items, nil
}

// Cursor is a place in a stream of a run, as text. It is valid in every process and does not end. The empty
// cursor is the beginning.
type Cursor string

// Item is a value of a stream, as a reader gets it.
type Item[T any] struct {
	Value T
	// Reset says that the value is the first one of an attempt that has superseded an earlier attempt of the same
	// step: discard the values of that Step and Generation that came before it.
	Reset   bool
	Step    string // that has appended the value: its name, with its branch and its use
	Attempt int
	// Generation is how often the run had continued as new. A step of a later generation is another step.
	Generation int
	// Cursor is the place behind the value. A reader that is given it continues with the next value.
	Cursor Cursor
}

// Read returns the items of the stream of a run behind a cursor, in order, as they appear, until the run ends. It
// works in every process that has an engine on the store. Hints of the store announce items; without
// hints, the store is polled.
//
// An item with [Item.Reset] comes where a step has begun again. A reader that began behind the values that
// were superseded gets it too, and has nothing to discard.
//
// If the reading fails, the last pair has the error: store.ErrNotFound if there is no such run, also if it was
// deleted meanwhile; store.ErrInvalid for a cursor of another stream or another run; [*DecodeError] for a value that
// is not a T; engine.ErrClosed; the context's error. A reader can continue after an error with the cursor of the
// last item. While the store cannot be reached, Read waits.
func (s Stream[T]) Read(ctx context.Context, eng *engine.Engine, run store.ID, from Cursor) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		after, err := s.place(run, from)
		if err != nil {
			yield(Item[T]{}, err)
			return
		}
		for it, err := range eng.Stream(ctx, run, s.name, after) {
			if err != nil {
				yield(Item[T]{}, err)
				return
			}
			item := Item[T]{Reset: it.Reset, Step: it.Step.String(), Attempt: it.Attempt, Generation: it.Generation, Cursor: s.cursor(run, it.Position)}
			if err := decodeInto(eng.Codec(), it.Payload, &item.Value, "item %d of stream %q", it.Position, s.name); err != nil {
				yield(Item[T]{}, err)
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// cursor writes a place: the position, the run, and the stream's name.
func (s Stream[T]) cursor(run store.ID, position int64) Cursor {
	b := binary.AppendUvarint(nil, uint64(position))
	b = append(b, run[:]...)
	return Cursor(base64.RawURLEncoding.EncodeToString(append(b, s.name...)))
}

// place reads a cursor of this stream.
func (s Stream[T]) place(run store.ID, c Cursor) (int64, error) {
	if err := store.ValidateName("stream", s.name); err != nil || c == "" {
		return 0, err
	}
	const again = "; begin with an empty cursor, or pass the Cursor of an item unchanged"
	b, err := base64.RawURLEncoding.DecodeString(string(c))
	position, n := binary.Uvarint(b)
	if err != nil || n <= 0 || len(b) < n+len(run) || position > 1<<63-1 {
		return 0, store.Invalid("cursor", fmt.Sprintf("%.40q is not a cursor of a stream"+again, string(c)))
	}
	var of store.ID
	copy(of[:], b[n:])
	name := strings.ToValidUTF8(string(b[n+len(run):]), "?")
	switch {
	case of != run:
		return 0, store.Invalid("cursor", fmt.Sprintf("it belongs to run %s, not to run %s"+again, of, run))
	case name != s.name:
		return 0, store.Invalid("cursor", fmt.Sprintf("it belongs to stream %q, not to stream %q"+again, name, s.name))
	}
	return int64(position), nil
}
