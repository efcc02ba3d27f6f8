package engine

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Errors that callers match with errors.Is, beside those of package store.
var (
	// ErrUnknownWorkflow: no worker has ever registered a workflow of that name.
	ErrUnknownWorkflow = errors.New("unknown workflow")
	// ErrNoWorker: no worker that takes the workflow from the run's queue is online (see
	// [TriggerOnline]).
	ErrNoWorker = errors.New("no worker is online")
	// ErrFailed: the awaited run failed. The error is a [*RunError].
	ErrFailed = errors.New("run failed")
	// ErrCanceled: the awaited run was canceled. The error is a [*RunError].
	ErrCanceled = errors.New("run canceled")
	// ErrNondeterministic: the awaited run failed because its records do not fit
	// its workflow's code. The error is a [*RunError] that names the step.
	ErrNondeterministic = errors.New("history does not fit the code")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("engine closed")
)

// RunError is how an awaited run ended that did not complete. It matches
// [ErrFailed] or [ErrCanceled].
type RunError struct {
	Run      store.ID
	Workflow string
	Status   store.Status
	Failure  *store.Failure
}

func (e *RunError) Error() string {
	msg := "no reason was recorded"
	if e.Failure != nil {
		msg = e.Failure.Message
	}
	return fmt.Sprintf("run %s of workflow %q %s: %s", e.Run, e.Workflow, e.Status, msg)
}

// Is matches [ErrFailed], [ErrCanceled] and [ErrNondeterministic].
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

// Unwrap gives the recorded failure.
func (e *RunError) Unwrap() error {
	if e.Failure == nil {
		return nil
	}
	return e.Failure
}
