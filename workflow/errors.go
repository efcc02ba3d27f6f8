package workflow

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// StepError is the error of a step that has failed for good. It is made of what is
// recorded, and therefore the same live and replayed: Failure has the code, the
// message, the Go type's name and the stack of a panic.
type StepError = exec.FailedStep

// Permanent marks an error as not worth another attempt. Nil stays nil.
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

// RetryAfter gives an error how long the next attempt of its step, generator or run is to
// wait, instead of the backoff: what a server's Retry-After says, for example. It gives no
// further attempt: the number of those stays as it is. Nil stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &exec.Later{After: max(d, 1), Err: err}
}

// Coded gives an error a code, by which [ErrorCode] knows it again in a record.
// Nil stays nil.
func Coded(code string, err error) error {
	if err == nil {
		return nil
	}
	var inner *exec.Coded
	return &exec.Coded{Code: code, Permanent: errors.As(err, &inner) && inner.Permanent, Err: err}
}

// ErrorCode returns the code of a step's or a run's error: one given with [Coded],
// or one of the Code constants; [CodeError] for any other error, empty for nil.
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
