package exec

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Definition is a workflow as a worker needs it.
type Definition struct {
	Name  string
	Queue string
	// Retry is the policy of the run itself: one attempt unless said otherwise.
	Retry Policy
	// Graph is a picture of the workflow as JSON, kept with the definition in the
	// store; nil: none.
	Graph json.RawMessage
	// Invoke runs the workflow's function from the top. Failures of the function
	// come back as an error.
	Invoke func(b *Branch, input []byte) (output []byte, err error)
	// Pinned keeps each run on the build that started it.
	Pinned bool
	// Limits are those that its runs are under, and Needs how.
	Limits []store.Limit
	Needs  []LimitNeed
	// Codec is that of the workflow's payloads.
	Codec Codec
	// Err is what is wrong with the definition, found when it was made.
	Err error
}

// Codec turns payloads into bytes and back, as the engine's does.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// Policy says how often and when something is tried again.
type Policy struct {
	Attempts int // negative: for ever
	Initial  time.Duration
	Factor   float64
	Max      time.Duration
	// Retryable, when set, says whether an error is worth another attempt.
	Retryable func(error) bool
}

// Wait returns how long to wait after the given failed attempt, with jitter of a
// fifth downwards so that what failed together does not come back together;
// ok is false when there is no further attempt.
func (p Policy) Wait(attempt int) (wait time.Duration, ok bool) {
	if p.Attempts >= 0 && attempt >= p.Attempts {
		return 0, false
	}
	f := float64(p.Initial) * math.Pow(p.Factor, float64(attempt-1))
	if limit := float64(p.Max); p.Max > 0 && f > limit {
		f = limit
	}
	f = min(f, float64(maxWait))
	return time.Duration(f * (1 - 0.2*rand.Float64())), true
}

// maxWait bounds a wait that grows without a limit of its own: a store keeps durations of up to 250 years.
const maxWait = 200 * 365 * 24 * time.Hour

// Failure codes that the engine writes into records, beside those of package
// store and those that users give.
const (
	CodeError            = "error"
	CodePanic            = "panic"
	CodeTimeout          = "timeout"
	CodeExited           = "exited" // runtime.Goexit in user code
	CodeTooLarge         = "too-large"
	CodeCrashed          = "crashed"
	CodeDeadline         = "deadline"
	CodeNondeterministic = "nondeterministic"
	CodeDeadlock         = "deadlock" // every branch waits for another one
	// CodeUnreadable is the failure of a run that waits because the store could not give
	// what belongs to it.
	CodeUnreadable = "unreadable"
	// CodeCodec is the failure of a run that waits because the worker that took it could not
	// open a payload.
	CodeCodec = "codec"
	// CodeDecode is the failure of a payload that does not fit the code's type.
	CodeDecode   = "decode"
	CodeCanceled = store.FailureCanceled
)
