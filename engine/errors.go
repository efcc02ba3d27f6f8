package engine

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Errors that callers match with errors.Is, in addition to those of package store.
var (
	// ErrUnknownWorkflow means that no worker has ever registered a workflow with that
	// name (see [RequireRegistered]).
	ErrUnknownWorkflow = errors.New("unknown workflow")
	// ErrNoWorker means that no worker that takes the workflow from the run's queue is
	// online (see [RequireOnline]).
	ErrNoWorker = errors.New("no worker is online")
	// ErrFailed means that the awaited run failed. The error is a [*RunError].
	ErrFailed = errors.New("run failed")
	// ErrCanceled means that the awaited run was canceled. The error is a [*RunError].
	ErrCanceled = errors.New("run canceled")
	// ErrNondeterministic means that the awaited run failed because its history does not
	// match its workflow's code. The error is a [*RunError] that names the step.
	ErrNondeterministic = errors.New("history does not match the code")
	// ErrClosed means that the engine was closed while a call waited: see [Engine.Close].
	ErrClosed = errors.New("engine closed")
)

// RunError is the error of an awaited run that did not complete. It matches [ErrFailed] or
// [ErrCanceled], and [ErrNondeterministic] if that is why the run failed. errors.As finds
// its [*store.Failure].
type RunError struct {
	Run      store.ID
	Workflow string
	Status   store.Status   // Failed or Canceled
	Failure  *store.Failure // the recorded reason; nil: none was recorded
}

// Error returns a text with the run's ID, workflow and status, and the failure's message.
func (e *RunError) Error() string {
	msg := "no reason was recorded"
	if e.Failure != nil {
		msg = e.Failure.Message
	}
	return fmt.Sprintf("run %s of workflow %q %s: %s", e.Run, e.Workflow, e.Status, msg)
}

// Is reports whether target is [ErrFailed], [ErrCanceled] or [ErrNondeterministic] and
// describes the run's end.
func (e *RunError) Is(target error) bool {
	switch target {
	case ErrFailed:
		return e.Status == store.Failed
	case ErrCanceled:
		return e.Status == store.Canceled
	case ErrNondeterministic:
		return e.Failure != nil && e.Failure.Code == exec.CodeNondeterministic
	}
	return false
}

// Unwrap returns the recorded failure; nil if there is none.
func (e *RunError) Unwrap() error {
	if e.Failure == nil {
		return nil
	}
	return e.Failure
}
