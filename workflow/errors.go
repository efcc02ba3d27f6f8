package workflow

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// StepError is the error of a step that has failed for good. It is made from the step's record, so
// that it is the same live and replayed. The original error value is not kept: match the error with
// [ErrorCode], or find the [*store.Failure] with errors.As.
type StepError struct {
	Key      store.StepKey
	Attempts int // how often the step was tried
	// Failure is the recorded failure of the last attempt: its code, message and Go type,
	// and the stack of a panic.
	Failure *store.Failure
}

// Error returns a text with the step's key and the failure's message.
func (e *StepError) Error() string {
	return (&exec.FailedStep{Key: e.Key, Attempts: e.Attempts, Failure: e.Failure}).Error()
}

// Unwrap returns Failure.
func (e *StepError) Unwrap() error { return e.Failure }

// public turns an error of package exec into the public one.
func public(err error) error {
	switch e := err.(type) {
	case *exec.FailedStep:
		return &StepError{Key: e.Key, Attempts: e.Attempts, Failure: e.Failure}
	case *exec.DecodeError:
		return &DecodeError{What: e.What, Type: e.Type, Err: e.Err}
	}
	return err
}

// Errors of operations, matched with errors.Is.
var (
	// ErrCanceled: the run is canceled. No operation begins any more.
	ErrCanceled = errCanceled() // "the run was canceled"
	// ErrDeadline: the run's deadline has passed. No operation begins any more.
	ErrDeadline = errDeadline() // "the run's deadline has passed"
	// ErrConcurrent: an operation began in a branch while another one was in progress there.
	ErrConcurrent = errConcurrent() // "concurrent use of one branch"
	// ErrShutdown is the cause with which a step's context ends when its worker shuts down
	// and the grace period is over. The step is run again by another worker.
	ErrShutdown = errShutdown() // "the worker shuts down"
	// ErrTakenOver is the cause with which a step's context ends when another worker has
	// taken over the run. What the step returns is not recorded.
	ErrTakenOver = errTakenOver() // "the run was taken over by another worker"
)

func errCanceled() error   { return exec.ErrCanceled }
func errDeadline() error   { return exec.ErrDeadline }
func errConcurrent() error { return exec.ErrConcurrent }
func errShutdown() error   { return exec.ErrShutdown }
func errTakenOver() error  { return exec.ErrLeaseLost }

// Failure codes that [ErrorCode] returns in addition to those given with [Coded].
const (
	CodeError            = "error"            // any other error
	CodePanic            = "panic"            // the code panicked
	CodeTimeout          = "timeout"          // a step's attempt took longer than its [Timeout]
	CodeTooLarge         = "too-large"        // a payload exceeds the store's limit
	CodeCanceled         = "canceled"         // the run was canceled
	CodeCrashed          = "crashed"          // the run's leases expired too often: see worker.MaxCrashes
	CodeDeadline         = "deadline"         // the run's deadline passed
	CodeNondeterministic = "nondeterministic" // the run's records do not fit its code
	CodeMark             = "mark"             // the run's code uses a mark wrongly: see [Changed]
	CodeDeadlock         = "deadlock"         // every branch waits for another one: see [Future.Get]
	CodeUnreadable       = "unreadable"       // the run waits: the store could not read its data
	CodeCodec            = "codec"            // the run waits: the worker's codec could not open a payload
	CodeDecode           = "decode"           // a payload does not fit the code's type: see [DecodeError]
	CodeExited           = "exited"           // the code ended its goroutine with runtime.Goexit
	CodeItems            = "items-failed"     // too many items of a map or a generator failed: see [ItemsError]
	CodeRestarted        = "restarted"        // a child was restarted before its parent had read why it ended
	CodeTags             = "tags"             // tags were refused: see [SetTags]
	CodeStream           = "stream"           // a stream refused values: see [Stream.Append]
)

// Permanent marks an error as permanent: the step or run that returns it is not tried again. The
// returned error wraps err and keeps its code. It returns nil for nil. Errors that match
// store.ErrTooLarge or [ErrConcurrent] are always permanent.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	c := exec.Coded{Permanent: true, Err: err}
	var inner *exec.Coded
	if errors.As(err, &inner) {
		c.Code = inner.Code
	}
	return &c
}

// RetryAfter makes the next attempt of the step, generator or run wait for d instead of its
// backoff: for example, for the time in a server's Retry-After header. With 0 or less, the next
// attempt follows at once. It does not change the number of attempts. The returned error wraps err.
// It returns nil for nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &exec.Later{After: max(d, 1), Err: err}
}

// Coded gives an error a code, which is recorded and which [ErrorCode] returns. The returned error wraps
// err; if err has a code already, the new one counts. It returns nil for nil.
func Coded(code string, err error) error {
	if err == nil {
		return nil
	}
	var inner *exec.Coded
	return &exec.Coded{Code: code, Permanent: errors.As(err, &inner) && inner.Permanent, Err: err}
}

// ErrorCode returns the code of a step's or a run's error: one given with [Coded], or one
// of the Code constants. It returns [CodeError] for any other error and the empty string
// for nil.
func ErrorCode(err error) string {
	if err == nil {
		return ""
	}
	var failure *store.Failure
	if errors.As(err, &failure) {
		return failure.Code
	}
	return exec.Fail(err).Code
}
