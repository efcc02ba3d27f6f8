package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Step does a piece of work once. When fn succeeds, its result is recorded, and from then
// on Step returns the recorded result. Everything recorded before is durable when fn
// begins. The result comes back as it was encoded and decoded, the first time as in a
// replay.
//
// Fn is tried again as the options say ([Attempts], [Backoff], [Timeout], [NonRetryable]).
// When it has failed for good, the error is a [*StepError], which is recorded as well. When
// the run is canceled or its deadline passes, fn's context ends and the error matches
// [ErrCanceled] or [ErrDeadline]; nothing is recorded.
//
// The name, with the number of its use in the branch, identifies the step in the run's
// records. Names need not differ: in a loop, the step of each round is another use of the
// name.
func Step[T any](ctx Context, name string, fn func(ctx context.Context) (T, error), opts ...StepOption) (T, error) {
	var result T
	if fn == nil {
		return result, store.Invalid("step "+name, "its function is nil")
	}
	o := applyStep(opts)
	if o.Err != nil {
		return result, fmt.Errorf("step %s: %w", name, o.Err)
	}
	data, err := ctx.branch.Step(name, o, nil, func(sctx context.Context) ([]byte, error) {
		v, err := fn(sctx)
		if err != nil {
			return nil, err
		}
		return encode(ctx, name, v)
	})
	if err != nil {
		return result, public(err)
	}
	return result, decode(ctx, name, data, &result)
}

// Do is [Step] without a result.
func Do(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) error {
	if fn == nil {
		return store.Invalid("step "+name, "its function is nil")
	}
	o := applyStep(opts)
	if o.Err != nil {
		return fmt.Errorf("step %s: %w", name, o.Err)
	}
	_, err := ctx.branch.Step(name, o, nil, func(sctx context.Context) ([]byte, error) { return nil, fn(sctx) })
	return public(err)
}

func decode[T any](ctx Context, name string, data []byte, v *T) error {
	return decodeOwn(ctx.branch, ctx.codec, data, v, "the record of step %q", name)
}

// Sleep waits for d, counted from the first time that the run reaches it, across crashes and
// outages. With 0 or less it does not wait. A sleeping run holds no slot and no goroutine. Sleep fails
// with [ErrCanceled] or [ErrDeadline].
func Sleep(ctx Context, name string, d time.Duration) error {
	return ctx.branch.Sleep(name, d, time.Time{})
}

// SleepUntil waits until a time by the store's clock. For a time in the past, and for the zero time, it
// does not wait. Otherwise it is like [Sleep].
func SleepUntil(ctx Context, name string, t time.Time) error {
	if t.IsZero() {
		return Sleep(ctx, name, 0)
	}
	return ctx.branch.Sleep(name, 0, t.Truncate(time.Microsecond).UTC())
}

// Value records what fn returns, once. Use it for values that may differ each time, such as a
// setting that is read or a random choice. fn must be quick and have no side effects: it runs again
// after a crash that happened before its record was written. Value fails if the codec cannot encode
// what fn returns. The functions [Now], [NewID] and [Random] use Value: their errors are the same, and
// the name identifies their records as it does for [Step].
func Value[T any](ctx Context, name string, fn func() T) (T, error) {
	var v T
	if fn == nil {
		return v, store.Invalid("value "+name, "its function is nil")
	}
	data, err := ctx.branch.Value(name, func() ([]byte, error) {
		data, err := ctx.codec.Marshal(fn())
		if ctx.branch.Invocation().CheckInStep(err) != nil {
			return nil, fmt.Errorf("value %q, a %T, cannot be encoded: %w", name, v, err)
		}
		return data, nil
	})
	if err != nil {
		return v, err
	}
	return v, decode(ctx, name, data, &v)
}

// Now records the present time, by the store's clock as the worker knows it, and returns
// it.
func Now(ctx Context, name string) (time.Time, error) {
	return Value(ctx, name, func() time.Time { return ctx.branch.Now().UTC() })
}

// NewID records a new unique ID and returns it.
func NewID(ctx Context, name string) (store.ID, error) { return Value(ctx, name, store.NewID) }

// Random records a seed and returns a source of random numbers that gives the same numbers
// at each replay.
func Random(ctx Context, name string) (*rand.Rand, error) {
	seed, err := Value(ctx, name, func() [2]uint64 { return [2]uint64{rand.Uint64(), rand.Uint64()} })
	if err != nil {
		return nil, err
	}
	return rand.New(rand.NewPCG(seed[0], seed[1])), nil
}
