package turso

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// By default the server sends at most 10 MB in answer to one call. This package asks for less than
// that. If an answer is still too large, the call is repeated in smaller parts.

// answerBytes limits each kind of payload in an answer. A claim returns four kinds, and a payload
// grows by a third in transit.
const answerBytes = 3 << 19

func atMost(n int) int {
	if n == 0 {
		return answerBytes
	}
	return min(n, answerBytes)
}

// callBytes limits the payloads that are sent to the server in one request: a replica forwards at
// most 4 MB.
const callBytes = 5 << 19

// The server ends a transaction that takes more than five seconds. A request may have many items if
// one statement handles all of them, and few if each has statements of its own.
const (
	callItems    = 500
	controlItems = 100
)

// Claim implements store.Leases.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.MaxBytes = atMost(p.MaxBytes)
	for {
		got, err := s.core.Claim(ctx, p)
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
	if p.MaxBytes > 0 {
		p.MaxBytes = atMost(p.MaxBytes)
	}
	runs, err := s.core.Get(ctx, p)
	if errors.Is(err, errTooMuch) && p.MaxBytes > 1 {
		p.MaxBytes = 1 // only the first is complete
		return s.core.Get(ctx, p)
	}
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

// fewer halves the limit of a page. It returns false if the limit cannot get smaller.
func fewer(limit *int) bool {
	n, err := store.Page(*limit)
	*limit = n / 2
	return err == nil && n > 1
}

// Children implements store.Runs.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	if p.MaxBytes > 0 {
		p.MaxBytes = atMost(p.MaxBytes)
	}
	page, err := s.core.Children(ctx, p)
	if errors.Is(err, errTooMuch) && p.MaxBytes > 1 {
		p.MaxBytes = 1 // only the first is complete
		return s.core.Children(ctx, p)
	}
	first := p
	if !errors.Is(err, errTooMuch) || !fewer(&first.Limit) {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	for len(runs) < limit {
		first.Limit = min(first.Limit, limit-len(runs))
		more, err := s.Children(ctx, first)
		if err != nil {
			return store.ChildPage{}, err
		}
		runs = append(runs, more.Children...)
		if more.Next == 0 {
			break
		}
		first.After = more.Next
	}
	return p.PageOf(runs), nil
}

// Steps implements store.Runs.
func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	p.MaxBytes = atMost(p.MaxBytes)
	for {
		page, err := s.core.Steps(ctx, p)
		if !errors.Is(err, errTooMuch) || !fewer(&p.Limit) {
			return page, err
		}
	}
}

// ListSchedules implements store.Schedules.
func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	for {
		page, err := s.core.ListSchedules(ctx, p)
		if !errors.Is(err, errTooMuch) || !fewer(&p.Limit) {
			return page, err
		}
	}
}

// Inbox implements store.Coordination.
func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	p.MaxBytes = atMost(p.MaxBytes)
	in, err := s.core.Inbox(ctx, p)
	if errors.Is(err, errTooMuch) && p.MaxBytes > 1 {
		p.MaxBytes = 1 // the rest is paged
		in, err = s.core.Inbox(ctx, p)
	}
	return in, err
}

// GetState implements store.Coordination.
func (s *Store) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	if p.MaxBytes > 0 {
		p.MaxBytes = atMost(p.MaxBytes)
	}
	all, err := s.core.GetState(ctx, p)
	if !errors.Is(err, errTooMuch) || p.MaxBytes > 0 {
		return all, err
	}
	limit := p.Limit
	p.MaxBytes = answerBytes
	for all = nil; limit == 0 || len(all) < limit; p.After = all[len(all)-1].Key {
		if limit > 0 {
			p.Limit = limit - len(all)
		}
		more, err := s.core.GetState(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			break
		}
		all = append(all, more...)
	}
	return all, nil
}

// Create implements store.Runs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	apart := slices.ContainsFunc(p.Runs, func(r store.NewRun) bool { return r.Debounce != "" || r.Signal != nil })
	return inParts(p.Runs, func(r *store.NewRun) int {
		if apart { // each run has statements of its own
			return max(callBytes/controlItems, r.Size())
		}
		return r.Size()
	},
		func(part []store.NewRun) ([]store.CreateResult, error) {
			q := p
			q.Runs = part
			return s.core.Create(ctx, q)
		},
		func(err error) store.CreateResult { return store.CreateResult{Err: err} })
}

// Signal implements store.Coordination.
func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return inParts(recordings(p.Signals, p.Record), func(r *recorded[store.NewSignal]) int { return max(callBytes/controlItems, r.item.Size()) },
		func(part []recorded[store.NewSignal]) ([]store.SignalResult, error) {
			q := p
			q.Signals, q.Record = apart(part)
			return s.core.Signal(ctx, q)
		},
		func(err error) store.SignalResult { return store.SignalResult{Err: err} })
}

// Commit implements store.Leases.
func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sent := map[store.ID]bool{} // by earlier parts
	return inParts(p.Commits, (*store.Commit).Size,
		func(part []store.Commit) ([]store.CommitResult, error) {
			q := p
			if q.Commits = part; len(part) < len(p.Commits) {
				return s.commitPart(ctx, q, sent)
			}
			return s.core.Commit(ctx, q)
		},
		func(err error) store.CommitResult { return store.CommitResult{Err: err} })
}

// commitPart commits a part of a call. A transition for a run that an earlier part contained is
// refused, as it is within one part.
func (s *Store) commitPart(ctx context.Context, p store.CommitParams, sent map[store.ID]bool) ([]store.CommitResult, error) {
	results := make([]store.CommitResult, len(p.Commits))
	var list []store.Commit
	var places []int
	for i, m := range p.Commits {
		if sent[m.Lease.Run] {
			results[i].Err = store.Invalid("commits", fmt.Sprintf("the call has two commits of run %v", m.Lease.Run))
			continue
		}
		list, places = append(list, m), append(places, i)
	}
	p.Commits = list
	got, err := s.core.Commit(ctx, p)
	if err != nil {
		return nil, err
	}
	for k, i := range places {
		results[i], sent[list[k].Lease.Run] = got[k], true
	}
	return results, nil
}

// Cancel implements store.Runs.
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return controls(p.IDs, p.Record, func(part []store.ID, record []store.Action) ([]store.ControlResult, error) {
		q := p
		q.IDs, q.Record = part, record
		return s.core.Cancel(ctx, q)
	})
}

// Pause implements store.Runs.
func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return controls(p.IDs, p.Record, func(part []store.ID, record []store.Action) ([]store.ControlResult, error) {
		q := p
		q.IDs, q.Record = part, record
		return s.core.Pause(ctx, q)
	})
}

// Unpin implements store.Runs.
func (s *Store) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return controls(p.IDs, p.Record, func(part []store.ID, record []store.Action) ([]store.ControlResult, error) {
		q := p
		q.IDs, q.Record = part, record
		return s.core.Unpin(ctx, q)
	})
}

// Restart implements store.Runs.
func (s *Store) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return controls(p.IDs, p.Record, func(part []store.ID, record []store.Action) ([]store.ControlResult, error) {
		q := p
		q.IDs, q.Record = part, record
		return s.core.Restart(ctx, q)
	})
}

// recorded is an item of a call with the action that records it, if the call has a Record.
type recorded[T any] struct {
	item   T
	action *store.Action
}

// recordings joins the items of a call with its Record.
func recordings[T any](items []T, record []store.Action) []recorded[T] {
	out := make([]recorded[T], len(items))
	for i := range items {
		out[i].item = items[i]
		if len(record) > 0 {
			out[i].action = &record[i]
		}
	}
	return out
}

// apart returns the items and the Record of a part.
func apart[T any](part []recorded[T]) (items []T, record []store.Action) {
	for i := range part {
		items = append(items, part[i].item)
		if part[i].action != nil {
			record = append(record, *part[i].action)
		}
	}
	return items, record
}

// controls sends a call that controls runs, in parts.
func controls(ids []store.ID, record []store.Action, send func([]store.ID, []store.Action) ([]store.ControlResult, error)) ([]store.ControlResult, error) {
	return inParts(recordings(ids, record), func(*recorded[store.ID]) int { return callBytes / controlItems },
		func(part []recorded[store.ID]) ([]store.ControlResult, error) { return send(apart(part)) },
		func(err error) store.ControlResult { return store.ControlResult{Err: err} })
}

// inParts sends a call in parts of callBytes and callItems, in order. An item that is too large for
// the server by itself gets that error as its own result, so that it does not stop the others.
func inParts[T, R any](items []T, size func(*T) int, send func([]T) ([]R, error), refuse func(error) R) ([]R, error) {
	if len(items) == 0 {
		return send(items)
	}
	results := make([]R, 0, len(items))
	for len(items) > 0 {
		n, total := 0, 0
		for n < min(len(items), callItems) {
			if total += size(&items[n]); n > 0 && total > callBytes {
				break
			}
			n++
		}
		got, err := sendPart(items[:n], send, refuse)
		switch {
		case err == nil:
		case len(results) == 0 || errors.Is(err, store.ErrOutcomeUnknown):
			return nil, err
		default:
			return nil, fmt.Errorf("%v: part of the call was applied before that: %w", err, store.ErrOutcomeUnknown)
		}
		results, items = append(results, got...), items[n:]
	}
	return results, nil
}

// sendPart sends a part. If the part is too large or takes too long, sendPart sends it in halves.
func sendPart[T, R any](part []T, send func([]T) ([]R, error), refuse func(error) R) ([]R, error) {
	results, err := send(part)
	large := errors.Is(err, store.ErrTooLarge)
	switch n := len(part); {
	case n > 1 && (large || errors.Is(err, sqlitecore.ErrTooLong)):
		return inPartsOf(part[:n/2], part[n/2:], send, refuse)
	case large:
		return []R{refuse(err)}, nil
	}
	return results, err
}

func inPartsOf[T, R any](first, second []T, send func([]T) ([]R, error), refuse func(error) R) ([]R, error) {
	results, err := sendPart(first, send, refuse)
	if err != nil {
		return nil, err
	}
	more, err := sendPart(second, send, refuse)
	if err != nil && !errors.Is(err, store.ErrOutcomeUnknown) {
		err = fmt.Errorf("%v: part of the call was applied before that: %w", err, store.ErrOutcomeUnknown)
	}
	return append(results, more...), err
}

// Answers implements store.Coordination.
func (s *Store) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	if p.MaxBytes > 0 {
		p.MaxBytes = atMost(p.MaxBytes)
	}
	results, err := s.core.Answers(ctx, p)
	if errors.Is(err, errTooMuch) && p.MaxBytes > 1 {
		p.MaxBytes = 1 // only the first is complete
		return s.core.Answers(ctx, p)
	}
	if n := len(p.Asks); errors.Is(err, errTooMuch) && n > 1 {
		first, second := p, p
		first.Asks, second.Asks = p.Asks[:n/2], p.Asks[n/2:]
		if results, err = s.Answers(ctx, first); err == nil {
			var more []store.AnswerResult
			more, err = s.Answers(ctx, second)
			results = append(results, more...)
		}
	}
	return results, err
}
