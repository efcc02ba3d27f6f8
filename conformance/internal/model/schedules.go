package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// schedule is a schedule with its firings.
type schedule struct {
	store.Schedule
	firings []store.Firing // by At
}

func (s *schedule) row() store.Schedule {
	out := s.Schedule
	out.Input, out.Meta = bytes.Clone(s.Input), bytes.Clone(s.Meta)
	return out
}

func noSchedule(name string) error { return fmt.Errorf("schedule %q: %w", name, store.ErrNotFound) }

func (s *Store) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	if err := s.enter(ctx, p.Validate(s.limits)); err != nil {
		return store.Schedule{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	key := name{p.Namespace, p.Schedule.Name}
	sc := s.schedules[key]
	if sc == nil {
		sc = &schedule{Schedule: store.Schedule{CreatedAt: now}}
		s.schedules[key] = sc
	}
	put := p.Schedule
	put.Input, put.Meta, put.NextAt = bytes.Clone(put.Input), bytes.Clone(put.Meta), micro(put.NextAt)
	put.LastAt, put.CreatedAt, put.UpdatedAt = sc.LastAt, sc.CreatedAt, now
	if again := sc.UpdatedAt.Add(time.Microsecond); again.After(now) {
		put.UpdatedAt = again
	}
	sc.Schedule = put
	s.note(p.Namespace, p.Record, 0, true, now)
	s.hint(store.Hint{Kind: store.HintRescan})
	return sc.row(), nil
}

func (s *Store) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key := name{p.Namespace, p.Name}
	if s.schedules[key] == nil {
		return noSchedule(p.Name)
	}
	delete(s.schedules, key)
	s.note(p.Namespace, p.Record, 0, true, clock(p.Now))
	return nil
}

func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	var pos string
	var err error
	if !p.Due { // there is no cursor then
		pos, err = p.Position()
	}
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.SchedulePage{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	limit, _ := store.Page(p.Limit)
	page := store.SchedulePage{Now: now}
	var rows []*schedule
	for key, sc := range s.schedules {
		if key.namespace != p.Namespace {
			continue
		}
		if !sc.Paused {
			page.NextDue = earliest(page.NextDue, sc.NextAt)
			if sc.NextAt.After(now) {
				page.Later = earliest(page.Later, sc.NextAt)
			}
		}
		due := !sc.Paused && !sc.NextAt.IsZero() && !sc.NextAt.After(now)
		if oneOf(p.Names, sc.Name) && !slices.Contains(p.Except, sc.Name) && (due || !p.Due) && sc.Name > pos {
			rows = append(rows, sc)
		}
	}
	slices.SortFunc(rows, func(a, b *schedule) int {
		byTime := 0
		if p.Due {
			byTime = a.NextAt.Compare(b.NextAt)
		}
		return cmp.Or(byTime, cmp.Compare(a.Name, b.Name))
	})
	var more bool
	page.Schedules, more = upTo(rows, limit, atMost(store.PageBytes), scheduleBytes, (*schedule).row)
	if more && !p.Due {
		page.Next = p.NextCursor(page.Schedules[len(page.Schedules)-1].Name)
	}
	return page, nil
}

func (s *Store) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	if err := s.enter(ctx, p.Validate(s.limits)); err != nil {
		return store.FireResult{}, err
	}
	defer s.mu.Unlock()
	now, at := clock(p.Now), micro(p.At)
	sc := s.schedules[name{p.Namespace, p.Schedule}]
	if sc == nil {
		return store.FireResult{}, noSchedule(p.Schedule)
	}
	find := func(t time.Time) (int, bool) {
		return slices.BinarySearchFunc(sc.firings, t, func(f store.Firing, t time.Time) int { return f.At.Compare(t) })
	}
	forget := func() {
		if !p.Forget.IsZero() {
			n, _ := find(micro(p.Forget))
			sc.firings = slices.Delete(sc.firings, 0, min(n, store.MaxForget))
		}
	}
	seen := p.Seen.IsZero() || sc.UpdatedAt.Equal(micro(p.Seen))
	i, fired := find(at)
	switch {
	case fired: // P10
		if sc.NextAt.Equal(at) && seen { // it was put back to this time
			sc.LastAt, sc.NextAt = at, micro(p.Next)
		}
		before := sc.firings[i].Run
		forget()
		return store.FireResult{Run: before}, nil
	case at.After(now): // P13
		return store.FireResult{}, store.Invalid("fire time", fmt.Sprintf("%v is in the future", at))
	case !sc.NextAt.Equal(at):
		return store.FireResult{}, fmt.Errorf("schedule %q fires next at %v, not at %v: %w", p.Schedule, sc.NextAt, at, store.ErrConflict)
	case !seen:
		return store.FireResult{}, fmt.Errorf("schedule %q was changed at %v: %w", p.Schedule, sc.UpdatedAt, store.ErrConflict)
	}
	f, res := store.Firing{At: at, FiredAt: now}, store.FireResult{Fired: true}
	if p.Run != nil {
		made := s.create(p.Namespace, p.Run, now)
		if made.Err != nil {
			return store.FireResult{}, made.Err
		}
		res.Made = made.Created && !made.Repeated
		f.Run = made.ID // or the one whose external id stood in the way
	}
	sc.firings = slices.Insert(sc.firings, i, f)
	sc.LastAt, sc.NextAt = at, micro(p.Next)
	forget()
	res.Run = f.Run
	return res, nil
}

func (s *Store) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	var before time.Time // zero: begin with the newest
	pos, err := p.Position()
	if err == nil && pos != "" {
		if before, err = time.Parse(time.RFC3339Nano, pos); err != nil {
			err = store.Invalid("cursor", "it has no time; start without a cursor")
		}
	}
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.FiringPage{}, err
	}
	defer s.mu.Unlock()
	sc := s.schedules[name{p.Namespace, p.Schedule}]
	if sc == nil {
		return store.FiringPage{}, noSchedule(p.Schedule)
	}
	limit, _ := store.Page(p.Limit)
	var page store.FiringPage
	for _, f := range slices.Backward(sc.firings) {
		if !before.IsZero() && !f.At.Before(before) {
			continue // on an earlier page
		}
		if len(page.Firings) == limit {
			page.Next = p.NextCursor(page.Firings[limit-1].At.Format(time.RFC3339Nano))
			break
		}
		page.Firings = append(page.Firings, f)
	}
	return page, nil
}
