package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Exit codes. They are documented in the help and do not change.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
	exitRunFailed   = 6
	exitRunCanceled = 7
	exitTimeout     = 8
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    success
  1    another failure, or doctor found a fault
  2    invalid command, flag or value; nothing was changed
  3    not found: no such run, workflow, schedule, ...
  4    conflict: the run is final, the id is taken, or the state has changed
  5    database unavailable; the same command may succeed later
  6    the awaited run failed
  7    the awaited run was canceled
  8    --timeout expired before the run was final
  130  interrupted`

// codedError is an error that names its exit code.
type codedError struct {
	code int
	err  error // nil: everything has been printed
}

func (e *codedError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *codedError) Unwrap() error { return e.err }

// usage returns an error with exit code 2.
func usage(format string, args ...any) error {
	return &codedError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var coded *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, store.ErrNotFound), errors.Is(err, engine.ErrUnknownWorkflow):
		return exitNotFound
	case errors.Is(err, store.ErrFinished), errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrAlreadyExists), errors.Is(err, engine.ErrUnanswered):
		return exitConflict
	case store.Retryable(err), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge), errors.Is(err, engine.ErrPlain):
		return exitUsage
	}
	return exitFailed
}
