package sqlkit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Micro is a stored time: microseconds since 1970.
func Micro(t int64) time.Time { return time.UnixMicro(t).UTC() }

// Span is a duration in microseconds, rounded up: nothing happens before its time.
func Span(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// AtMost is a bound for a statement; 0: none.
func AtMost(n int) int64 { return cmp.Or(int64(n), math.MaxInt64) }

// MaxScan is how many runs a listing or a count may look at.
func MaxScan(n int) int { return cmp.Or(n, store.DefaultScan) }

// JSON returns the text of a JSON column.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("sqlkit: " + err.Error()) // only plain structs and slices come here
	}
	return string(b)
}

// storedFailure has JSON tags that distinguish empty details from none.
type storedFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Stack   string `json:"stack"`
	Details []byte `json:"details"`

	Permanent bool `json:"permanent"`
}

// FailureText returns the text of a failure column; empty, for NULL, if there is no failure.
func FailureText(f *store.Failure) string {
	if f == nil {
		return ""
	}
	return JSON(storedFailure(*f))
}

// CanceledWithParent is the failure of runs that are canceled with their parent.
var CanceledWithParent = FailureText(&store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})

// storedStepFailure is the content of a step's failure column if earlier attempts failed: a
// storedFailure with more fields.
type storedStepFailure struct {
	storedFailure
	None    bool            `json:"none,omitempty"` // the step has no failure
	Earlier []storedAttempt `json:"earlier,omitempty"`
}

type storedAttempt struct {
	Attempt int    `json:"attempt"`
	At      int64  `json:"at"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// StepFailureText returns the text of a step's failure column; empty, for NULL, if no attempt has
// failed.
func StepFailureText(f *store.Failure, earlier []store.FailedAttempt) string {
	if len(earlier) == 0 {
		return FailureText(f)
	}
	s := storedStepFailure{None: f == nil}
	if f != nil {
		s.storedFailure = storedFailure(*f)
	}
	for _, a := range earlier {
		s.Earlier = append(s.Earlier, storedAttempt{a.Attempt, a.StartedAt.UnixMicro(), a.Code, a.Message})
	}
	return JSON(s)
}

func (s *storedStepFailure) read(text string, step *store.Step) error {
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return fmt.Errorf("decode the stored failure of a step: %w", err)
	}
	if step.Failure = nil; !s.None {
		step.Failure = (*store.Failure)(&s.storedFailure)
	}
	step.Earlier = nil
	for _, a := range s.Earlier {
		step.Earlier = append(step.Earlier, store.FailedAttempt{Attempt: a.Attempt, StartedAt: Micro(a.At), Code: a.Code, Message: a.Message})
	}
	return nil
}

// PinText returns a pin as its column stores it: JSON; empty for none.
func PinText(p *store.Pin) string {
	if p == nil {
		return ""
	}
	return JSON(p)
}
