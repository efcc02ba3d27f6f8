package sqlitecore

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

func notFound(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), store.ErrNotFound)
}

func exists(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrAlreadyExists, fmt.Sprintf(format, args...))
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrConflict, fmt.Sprintf(format, args...))
}

func finished(id store.ID, status store.Status) error {
	return fmt.Errorf("run %v is %v: %w", id, status, store.ErrFinished)
}

// inPart is the error of a call of which another write has applied a part already.
func inPart(some bool, err error) error {
	if !some || errors.Is(err, store.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%v: a part of the call was applied before: %w", err, store.ErrOutcomeUnknown)
}
