package mutant

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// apart makes a store that records the actions of a cancel in a call of its own: before or after the cancel.
func apart(before bool) func(*faulty) {
	return func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			record := store.RecordParams{Namespace: p.Namespace, Actions: as(p.Record, store.Done), Now: p.Now}
			if p.Record = nil; len(record.Actions) == 0 || p.Validate() != nil {
				return cancel(ctx, p)
			}
			if before {
				if err := s.Record(ctx, record); err != nil {
					return nil, err
				}
				return cancel(ctx, p)
			}
			res, err := cancel(ctx, p)
			if err == nil {
				err = s.Record(ctx, record)
			}
			return res, err
		}
	}
}

// as returns actions with an outcome.
func as(actions []store.Action, outcome string) []store.Action {
	actions = slices.Clone(actions)
	for i := range actions {
		actions[i].Outcome = outcome
	}
	return actions
}

// spoils changes the record of a call with one.
func spoils(change func(a *store.Action)) func([]store.Action) []store.Action {
	return func(record []store.Action) []store.Action {
		record = slices.Clone(record)
		for i := range record {
			change(&record[i])
		}
		return record
	}
}

// These mutants break the records of actions.
var auditMutants = []Mutant{
	{"recorded-before", "P30", "a cancel is recorded before it is done, whatever comes of it", wrap(apart(true))},
	{"recorded-after", "P16", "a cancel is recorded in a write of its own, after it is done", wrap(apart(false))},
	{"recorded-twice", "P30", "a pause that is sent again is recorded again", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			if p.Validate() == nil {
				p.Record = spoils(func(a *store.Action) { a.ID = store.NewID() })(p.Record)
			}
			return pause(ctx, p)
		}
	})},
	{"recorded-only-changes", "P30", "a cancel of a run that is canceled is not recorded", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			if len(p.IDs) == 1 && p.Validate() == nil {
				if r, ok := s.row(p.IDs[0]); ok && r.Status == store.Canceled {
					p.Record = nil
				}
			}
			return cancel(ctx, p)
		}
	})},
	{"unpin-unrecorded", "P30", "an unpin is not recorded", wrap(func(s *faulty) {
		unpin := s.unpin
		s.unpin = func(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
			if p.Validate() == nil {
				p.Record = nil
			}
			return unpin(ctx, p)
		}
	})},
	{"recorded-of-all-items", "P30", "a restart that is refused is recorded as done", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			res, err := restart(ctx, p)
			if err == nil && len(p.Record) > 0 {
				err = s.Record(ctx, store.RecordParams{Namespace: p.Namespace, Actions: as(p.Record, store.Done), Now: p.Now})
			}
			return res, err
		}
	})},
	{"recorded-as-done", "P30", "a purge that deletes nothing is recorded as done", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			record := p.Record
			if p.Validate() == nil {
				p.Record = nil
			}
			n, err := purge(ctx, p)
			if err == nil && len(record) > 0 {
				err = s.Record(ctx, store.RecordParams{Namespace: p.Namespace, Actions: as(record, store.Done), Now: p.Now})
			}
			return n, err
		}
	})},
	{"recorded-elsewhere", "P30", "a change of state is recorded in another namespace", wrap(func(s *faulty) {
		set := s.setState
		s.setState = func(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
			record := p.Record
			if p.Validate(s.Limits()) == nil {
				p.Record = nil
			}
			out, err := set(ctx, p)
			if err == nil && len(record) > 0 {
				err = s.Record(ctx, store.RecordParams{Namespace: p.Namespace + "/x", Actions: as(record, store.Done), Now: p.Now})
			}
			return out, err
		}
	})},
	{"recorded-without-origin", "P30", "the record of a schedule that is put does not say from where", wrap(func(s *faulty) {
		put := s.putSchedule
		s.putSchedule = func(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
			if p.Validate(s.Limits()) == nil {
				p.Record = spoils(func(a *store.Action) { a.From = "" })(p.Record)
			}
			return put(ctx, p)
		}
	})},
	{"subscription-recorded-before", "P30", "a subscription is recorded before it is put, also if it is refused", wrap(func(s *faulty) {
		put := s.putSubscription
		s.putSubscription = func(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
			record := p.Record
			if p.Validate() == nil {
				p.Record = nil
			}
			if p.Record == nil && len(record) > 0 {
				if err := s.Record(ctx, store.RecordParams{Namespace: p.Namespace, Actions: as(record, store.Done), Now: p.Now}); err != nil {
					return store.Subscription{}, err
				}
			}
			return put(ctx, p)
		}
	})},
	{"unsubscribe-unrecorded", "P30", "the deletion of a subscription is not recorded", wrap(func(s *faulty) {
		remove := s.deleteSubscription
		s.deleteSubscription = func(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
			if p.Validate() == nil {
				p.Record = nil
			}
			return remove(ctx, p)
		}
	})},
	{"unsubscribe-recorded-again", "P30", "the deletion of a subscription is recorded again for each part of its changes", wrap(func(s *faulty) {
		remove := s.deleteSubscription
		s.deleteSubscription = func(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
			record := p.Record
			if p.Validate() == nil {
				p.Record = nil
			}
			more, err := remove(ctx, p)
			if err == nil && len(record) > 0 {
				err = s.Record(ctx, store.RecordParams{Namespace: p.Namespace, Actions: as(record, store.Done), Now: p.Now})
			}
			return more, err
		}
	})},
	{"signal-recorded-without-run", "P30", "the record of a signal to an external id does not name the run", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			record := p.Record
			p.Record = nil
			out, err := signal(ctx, p)
			var actions []store.Action
			for i := range out {
				if len(record) == len(out) && out[i].Err == nil {
					actions = append(actions, record[i])
				}
			}
			if err == nil && len(actions) > 0 {
				err = s.Record(ctx, store.RecordParams{Namespace: p.Namespace, Actions: as(actions, store.Done), Now: p.Now})
			}
			return out, err
		}
	})},
}
