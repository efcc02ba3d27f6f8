package turso

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/store"
)

// The server sends no more than 10 MB in answer to one call, unless it was told
// otherwise, and less than that of step outputs is asked for. What is too much all
// the same is asked for again in smaller parts.

// claimBytes bounds the step outputs that come with a claim.
const claimBytes = 4 << 20

// Claim implements store.Leases.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if p.MaxBytes == 0 || p.MaxBytes > claimBytes {
		p.MaxBytes = claimBytes
	}
	for {
		got, err := s.Core.Claim(ctx, p)
		if !errors.Is(err, errTooMuch) {
			return got, err
		}
		switch {
		case p.Wanted() > 1:
			p.Max = p.Wanted() / 2
		case p.MaxBytes > 1:
			p.MaxBytes = 1 // the steps are paged
		default:
			return got, err
		}
		s.Expect()
	}
}

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	runs, err := s.Core.Get(ctx, p)
	if n := len(p.IDs); errors.Is(err, errTooMuch) && n > 1 {
		first, second := p, p
		first.IDs, second.IDs = p.IDs[:n/2], p.IDs[n/2:]
		if runs, err = s.Get(ctx, first); err == nil {
			var more []store.Run
			more, err = s.Get(ctx, second)
			runs = append(runs, more...)
		}
	}
	return runs, err
}

// fewer halves the limit of a page; false: it is as small as it can be.
func fewer(limit *int) bool {
	n, err := store.Page(*limit)
	*limit = n / 2
	return err == nil && n > 1
}

// Children implements store.Runs.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) ([]store.Run, error) {
	runs, err := s.Core.Children(ctx, p)
	first := p
	if !errors.Is(err, errTooMuch) || !fewer(&first.Limit) {
		return runs, err
	}
	// A page that is not full would look like the last one.
	limit, _ := store.Page(p.Limit)
	for runs = nil; len(runs) < limit; {
		first.Limit = min(first.Limit, limit-len(runs))
		more, err := s.Children(ctx, first)
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
		if len(more) < first.Limit {
			break
		}
		first.After = more[len(more)-1].Ordinal
	}
	return runs, nil
}

// Steps implements store.Runs.
func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	for {
		page, err := s.Core.Steps(ctx, p)
		if !errors.Is(err, errTooMuch) || !fewer(&p.Limit) {
			return page, err
		}
	}
}

// ListSchedules implements store.Schedules.
func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	for {
		page, err := s.Core.ListSchedules(ctx, p)
		if !errors.Is(err, errTooMuch) || !fewer(&p.Limit) {
			return page, err
		}
	}
}
