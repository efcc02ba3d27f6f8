package postgres

import (
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
