package sqlitecore

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// inPart returns the error of a call of which another write has already applied a part.
func inPart(some bool, err error) error {
	if !some || errors.Is(err, store.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%v: part of the call was applied before that: %w", err, store.ErrOutcomeUnknown)
}
