package sqlkit

import (
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// NotFound is an error that matches [store.ErrNotFound].
func NotFound(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), store.ErrNotFound)
}

// Exists is an error that matches [store.ErrAlreadyExists].
func Exists(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrAlreadyExists, fmt.Sprintf(format, args...))
}

// Conflict is an error that matches [store.ErrConflict].
func Conflict(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrConflict, fmt.Sprintf(format, args...))
}

// Finished is the error for a run that is final.
func Finished(id store.ID, status store.Status) error {
	return fmt.Errorf("run %v is %v: %w", id, status, store.ErrFinished)
}

// LeaseLost is the error for a lease that is not the run's present one.
func LeaseLost(l store.Lease) error {
	return fmt.Errorf("run %v, epoch %d: %w", l.Run, l.Epoch, store.ErrLeaseLost)
}

// InAnotherNamespace is the error for an ID that belongs to a run of another namespace.
func InAnotherNamespace(id store.ID) error {
	return Exists("run %v exists in another namespace; ids are made with NewID", id)
}
