package patterns

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Trip is booked as a whole or not at all.
type Trip struct {
	ID    string
	Parts []string // flight, hotel, car
}

// Agency books and cancels under a reference that the caller makes up. Booking the
// same reference again is the same booking; canceling one that does not exist
// does nothing.
type Agency interface {
	Book(ctx context.Context, ref, part string) error
	Cancel(ctx context.Context, ref string) error
}

// BookTrip books all parts of a trip, and cancels those it has when one fails, or when the
// trip itself is canceled.
func BookTrip(agency Agency) *workflow.Workflow[Trip, []string] {
	return workflow.New("book-trip", func(ctx workflow.Context, t Trip) ([]string, error) {
		var refs []string
		for _, part := range t.Parts {
			ref := t.ID + "-" + part
			// Noted before it is booked: a step that failed may have booked all the same.
			refs = append(refs, ref)
			err := workflow.Do(ctx, "book", func(ctx context.Context) error { return agency.Book(ctx, ref, part) })
			if err != nil {
				return nil, errors.Join(err, workflow.Cleanup(ctx, time.Hour, func(ctx workflow.Context) error {
					return compensate(ctx, agency, refs)
				}))
			}
		}
		return refs, nil
	})
}

// compensate undoes what was done, the last first. It tries for as long as it takes:
// there is no way on from half a compensation.
func compensate(ctx workflow.Context, agency Agency, refs []string) error {
	for _, ref := range slices.Backward(refs) {
		err := workflow.Do(ctx, "cancel", func(ctx context.Context) error { return agency.Cancel(ctx, ref) }, workflow.Attempts(-1))
		if err != nil {
			return err
		}
	}
	return nil
}
