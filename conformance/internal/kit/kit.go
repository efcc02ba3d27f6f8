// Package kit holds what all tiers of the conformance suite use and what depends on none of
// them: the names and values of cases, and how values are shown and compared.
package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Began is where every case's clock starts: far from any real clock, so that a
// backend that ignores Now is found out, and with microseconds.
var Began = time.Date(2031, 5, 6, 7, 8, 9, 123457000, time.UTC)

// The names that cases use where the name does not matter.
const (
	Queue       = "q"
	Workflow    = "wf"
	Worker      = "w1"
	KidQueue    = "kids"
	KidWorkflow = "kid"
	Lease       = time.Minute + 4321*time.Microsecond // no round number, so that rounding shows
)

// Sentinels are the errors of P16, of which an error matches exactly one.
var Sentinels = []error{
	store.ErrNotFound, store.ErrAlreadyExists, store.ErrLeaseLost, store.ErrConflict, store.ErrFinished, store.ErrInvalid,
	store.ErrTooLarge, store.ErrUnsupported, store.ErrUnavailable, store.ErrOutcomeUnknown,
}

// Show writes a value for a failure.
func Show(v any) string {
	switch v := v.(type) {
	case []byte:
		switch {
		case v == nil:
			return "nil bytes"
		case len(v) > 300:
			return fmt.Sprintf("%d bytes %q...", len(v), v[:40])
		}
		return fmt.Sprintf("%d bytes %q", len(v), v)
	case time.Time:
		if v.IsZero() {
			return "no time"
		}
		return v.Format(time.RFC3339Nano)
	case *store.Failure:
		if v == nil {
			return "no failure"
		}
		return fmt.Sprintf("%+v", *v)
	case error:
		return fmt.Sprintf("%T %q", v, v)
	case nil:
		return "nil"
	}
	return fmt.Sprintf("%+v", v)
}

// Complete is the transition of a run that completes.
func Complete(out string) *store.Transition {
	return &store.Transition{Kind: store.CompleteRun, Output: []byte(out)}
}

// FailWith is the transition of a run that fails with a code.
func FailWith(code string) *store.Transition {
	return &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: code, Message: "went wrong"}}
}

// SleepFor is the transition of a run that sleeps for a time.
func SleepFor(d time.Duration) *store.Transition {
	return &store.Transition{Kind: store.Sleep, After: d}
}

// Step is a completed step's record.
func Step(pos int64, name, out string) store.StepRecord {
	return store.StepRecord{
		StepKey: store.StepKey{Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Position: pos, Index: int(pos - 1), Attempt: 1, Output: []byte(out),
	}
}

// Patient repeats a call that says it was not applied: under contention that is
// a fair answer, for a while.
func Patient[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for range 1000 {
		v, err := call()
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return v, err
		}
		runtime.Gosched()
	}
	return call()
}

// Digest makes a digest of the kind that a letter names.
func Digest(scheme byte, of string) []byte {
	return append(bytes.Repeat([]byte{scheme}, store.DigestScheme), of...)
}

// ManyItems is how many runs there are where it is to be many.
func ManyItems() int {
	if Race || testing.Short() {
		return 600
	}
	return 10_000
}
