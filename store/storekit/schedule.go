package storekit

import (
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/store"
)

func noSchedule(name string) error { return fmt.Errorf("schedule %q: %w", name, store.ErrNotFound) }

// schedule reads a schedule; nil if there is none.
func schedule(t Records, namespace, name string) (*store.Schedule, error) {
	var s store.Schedule
	if exists, err := get(t, Key{KindSchedule, namespace, name}, &s); err != nil || !exists {
		return nil, err
	}
	return &s, nil
}

// nextKey is the key of a schedule among those that are to fire; its Name is empty for a schedule
// that is not.
func nextKey(namespace string, s *store.Schedule) Key {
	k := Key{Kind: KindNext, Namespace: namespace}
	if s != nil && !s.Paused && !s.NextAt.IsZero() {
		k.Name = TimeKey(s.NextAt) + s.Name
	}
	return k
}

// keepSchedule stores a schedule, or deletes it if it is nil, with its key among those that are to
// fire.
func keepSchedule(t Records, namespace string, before, after *store.Schedule) error {
	if was, is := nextKey(namespace, before), nextKey(namespace, after); was != is {
		if was.Name != "" {
			if err := t.Delete(was); err != nil {
				return err
			}
		}
		if is.Name != "" {
			if err := put(t, is, after.Name); err != nil {
				return err
			}
		}
	}
	if after == nil {
		return t.Delete(Key{KindSchedule, namespace, before.Name})
	}
	return put(t, Key{KindSchedule, namespace, after.Name}, after)
}

// PutSchedule implements [store.Schedules]. A backend with hints publishes a HintRescan.
func PutSchedule(t Records, p *store.PutScheduleParams, now time.Time) (store.Schedule, error) {
	old, err := schedule(t, p.Namespace, p.Schedule.Name)
	if err != nil {
		return store.Schedule{}, err
	}
	s := p.Schedule
	s.NextAt, s.LastAt, s.CreatedAt, s.UpdatedAt = Micro(s.NextAt), time.Time{}, now, now
	if old != nil {
		s.LastAt, s.CreatedAt = old.LastAt, old.CreatedAt
		if later := old.UpdatedAt.Add(time.Microsecond); later.After(now) {
			s.UpdatedAt = later
		}
	}
	if err := RecordItem(t, p.Namespace, p.Record, 0, true, now); err != nil {
		return store.Schedule{}, err
	}
	return s, keepSchedule(t, p.Namespace, old, &s)
}

// DeleteSchedule implements [store.Schedules].
func DeleteSchedule(t Records, p *store.DeleteScheduleParams, now time.Time) error {
	s, err := schedule(t, p.Namespace, p.Name)
	switch {
	case err != nil:
		return err
	case s == nil:
		return noSchedule(p.Name)
	}
	if err := RecordItem(t, p.Namespace, p.Record, 0, true, now); err != nil {
		return err
	}
	from, to := firings(p.Name)
	if err := deleteScanned(t, KindFiring, p.Namespace, from, to, -1); err != nil {
		return err
	}
	return keepSchedule(t, p.Namespace, s, nil)
}

// deleteScanned deletes the records of a range, at most limit of them; -1: all.
func deleteScanned(t Records, kind Kind, namespace, from, to string, most int) error {
	var names []string
	for rec, err := range t.Scan(kind, namespace, from, to, false) {
		if err != nil {
			return err
		}
		if len(names) == most {
			break
		}
		names = append(names, rec.Name)
	}
	for _, name := range names {
		if err := t.Delete(Key{kind, namespace, name}); err != nil {
			return err
		}
	}
	return nil
}

// ListSchedules implements [store.Schedules].
func ListSchedules(t Records, p *store.ListSchedulesParams, now time.Time) (out store.SchedulePage, err error) {
	out.Now = now
	if out.NextDue, err = nextAt(t, p.Namespace, ""); err != nil {
		return out, err
	}
	if out.Later, err = nextAt(t, p.Namespace, TimeKey(now.Add(time.Microsecond))); err != nil {
		return out, err
	}
	after := ""
	rows := dueSchedules(t, p.Namespace, now)
	if !p.Due {
		if after, err = p.Position(); err != nil {
			return store.SchedulePage{}, err
		}
		rows = each[store.Schedule](t, KindSchedule, p.Namespace, behind(after), "", false)
	}
	wanted, unwanted := oneOf(p.Names), oneOf(p.Except)
	chosen := where(rows, func(s *store.Schedule) bool {
		return wanted(s.Name) && (len(p.Except) == 0 || !unwanted(s.Name))
	})
	var more bool
	out.Schedules, more, err = page(chosen, p.Limit, func(s *store.Schedule) int { return len(s.Input) + len(s.Meta) })
	if more && !p.Due { // a page of due schedules has no cursor, because firing removes them
		out.Next = p.NextCursor(out.Schedules[len(out.Schedules)-1].Name)
	}
	return out, err
}

// nextAt returns the first fire time at or after a key.
func nextAt(t Records, namespace, from string) (time.Time, error) {
	for rec, err := range t.Scan(KindNext, namespace, from, "", false) {
		if err != nil {
			return time.Time{}, err
		}
		return KeyTime(rec.Name[:8]), nil
	}
	return time.Time{}, nil
}

// dueSchedules yields the schedules that are due, by their fire times.
func dueSchedules(t Records, namespace string, now time.Time) iter.Seq2[store.Schedule, error] {
	return func(yield func(store.Schedule, error) bool) {
		for name, err := range each[string](t, KindNext, namespace, "", TimeKey(now.Add(time.Microsecond)), false) {
			var s *store.Schedule
			if err == nil {
				s, err = schedule(t, namespace, name)
			}
			if err != nil {
				yield(store.Schedule{}, err)
				return
			}
			if !yield(*s, nil) {
				return
			}
		}
	}
}

// firings returns the range of a schedule's firings. Names have no control characters.
func firings(schedule string) (from, to string) { return schedule + "\x00", schedule + "\x01" }

func firingKey(namespace, schedule string, at time.Time) Key {
	return Key{KindFiring, namespace, schedule + "\x00" + TimeKey(at)}
}

// Fire implements [store.Schedules]. create creates the run as [store.Runs].Create does, in the
// same transaction. If Fire returns an error, the transaction must be rolled back.
func Fire(t Records, p *store.FireParams, create func(*store.NewRun) (store.CreateResult, error), now time.Time) (store.FireResult, error) {
	s, err := schedule(t, p.Namespace, p.Schedule)
	if err != nil {
		return store.FireResult{}, err
	}
	if s == nil {
		return store.FireResult{}, noSchedule(p.Schedule)
	}
	var f store.Firing
	at := Micro(p.At)
	fired, err := get(t, firingKey(p.Namespace, p.Schedule, at), &f)
	if err != nil {
		return store.FireResult{}, err
	}
	seen := p.Seen.IsZero() || s.UpdatedAt.Equal(Micro(p.Seen))
	res := store.FireResult{Run: f.Run}
	switch advanced := *s; {
	case fired && !(s.NextAt.Equal(at) && seen): // P10
	case !fired && at.After(now): // P13
		return res, store.Invalid("fire time", fmt.Sprintf("%v is in the future", at))
	case !fired && !s.NextAt.Equal(at):
		return res, fmt.Errorf("schedule %q fires next at %v, not at %v: %w", p.Schedule, s.NextAt, at, store.ErrConflict)
	case !fired && !seen:
		return res, fmt.Errorf("schedule %q was changed at %v: %w", p.Schedule, s.UpdatedAt, store.ErrConflict)
	default: // it fires, or was put back to this time
		if !fired {
			if res, err = fire(t, p, at, create, now); err != nil {
				return store.FireResult{}, err
			}
		}
		advanced.LastAt, advanced.NextAt = at, Micro(p.Next)
		if err := keepSchedule(t, p.Namespace, s, &advanced); err != nil {
			return store.FireResult{}, err
		}
	}
	if p.Forget.IsZero() {
		return res, nil
	}
	from, _ := firings(p.Schedule)
	to := firingKey(p.Namespace, p.Schedule, Micro(p.Forget)).Name
	return res, deleteScanned(t, KindFiring, p.Namespace, from, to, store.MaxForget)
}

// fire makes the run of a firing and records it.
func fire(t Records, p *store.FireParams, at time.Time, create func(*store.NewRun) (store.CreateResult, error), now time.Time) (store.FireResult, error) {
	res := store.FireResult{Fired: true}
	if p.Run != nil {
		made, err := create(p.Run)
		if err == nil {
			err = made.Err
		}
		if err != nil {
			return res, err
		}
		res.Made = made.Created && !made.Repeated
		res.Run = made.ID // or the one whose external id stood in the way
	}
	return res, put(t, firingKey(p.Namespace, p.Schedule, at), store.Firing{At: at, FiredAt: now, Run: res.Run})
}

// ListFirings implements [store.Schedules].
func ListFirings(t Records, p *store.ListFiringsParams) (out store.FiringPage, err error) {
	from, to := firings(p.Schedule)
	pos, err := p.Position()
	if err == nil && pos != "" {
		var before time.Time
		if before, err = time.Parse(time.RFC3339Nano, pos); err != nil {
			err = store.Invalid("cursor", "it has no time; start without a cursor")
		}
		to = firingKey("", p.Schedule, before).Name
	}
	if err != nil {
		return out, err
	}
	switch s, err := schedule(t, p.Namespace, p.Schedule); {
	case err != nil:
		return out, err
	case s == nil:
		return out, noSchedule(p.Schedule)
	}
	var more bool
	out.Firings, more, err = page(each[store.Firing](t, KindFiring, p.Namespace, from, to, true), p.Limit, nil)
	if more {
		out.Next = p.NextCursor(out.Firings[len(out.Firings)-1].At.Format(time.RFC3339Nano))
	}
	return out, err
}
