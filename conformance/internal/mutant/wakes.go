package mutant

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// due returns the time that a transition sets; zero: never.
func due(t *store.Transition, now time.Time) time.Time {
	var at time.Time
	if t.After > 0 {
		at = now.Add(t.After)
	}
	if !t.At.IsZero() && (at.IsZero() || t.At.Before(at)) {
		at = clock(t.At)
	}
	return at
}

// setDue changes the time from which a run can be claimed.
func (s *faulty) setDue(id store.ID, at time.Time, res *store.CommitResult) {
	s.Tamper(id, func(r model.Row) { r.VisibleAt = at })
	res.VisibleAt = at
}

// These mutants break P5, and the rules of retries and pauses: what ends a sleep and what a wait
// keeps.
var wakeMutants = []Mutant{
	{"wake-up-lost", "P5", "an event between claim and sleep does not end the sleep: Seen is not looked at", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Seen = 1 << 40 })
	})},
	{"commit-hides-events", "P5", "the result of a commit that only records steps, or ends its run, has the events that the holder knew", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, res *store.CommitResult) {
			if len(c.State) == 0 && len(c.Spawn) == 0 && (c.Transition == nil || c.Transition.Kind.Final()) {
				res.Events = c.Seen
			}
		})
	})},
	{"own-state-hides-an-event", "P5", "a commit that writes state takes all events before its own for seen", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if len(c.State) > 0 {
				c.Seen = 1 << 40
			}
		})
	})},
	{"own-state-wakes", "P5", "the state that a commit writes ends its own sleep", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if len(c.State) > 0 && ended(c, store.Sleep) && c.Transition.Wakes&store.WakeState != 0 {
				s.setDue(c.Lease.Run, now, res)
			}
		})
	})},
	{"seen-checked-then-slept", "P5", "the events are counted in one statement and the sleep written in the next, which does not look", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && ended(c, store.Sleep) && r.Events <= c.Seen {
				roundTrip()
				c.Seen = 1 << 40
			}
		})
	})},
	{"signal-does-not-wake", "P5", "a signal leaves a run asleep that waits for one", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			before := map[store.ID]time.Time{}
			for _, sig := range p.Signals {
				if r, ok := s.row(sig.Run); ok {
					before[sig.Run] = r.VisibleAt
				}
			}
			out, err := signal(ctx, p)
			for id, at := range before {
				s.Tamper(id, func(r model.Row) { r.VisibleAt = at })
			}
			return out, err
		}
	})},
	{"deletion-does-not-wake", "P5", "the deletion of a key is not taken for a change of state", wrap(func(s *faulty) {
		set := s.setState
		s.setState = func(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
			before, _ := s.row(p.Run)
			out, err := set(ctx, p)
			if !slices.ContainsFunc(p.Writes, func(w store.StateWrite) bool { return !w.Delete }) {
				s.Tamper(p.Run, func(r model.Row) { r.VisibleAt = before.VisibleAt })
			}
			return out, err
		}
	})},
	{"canceling-run-sleeps", "P5", "a run that is canceling goes to sleep like any other", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if ended(c, store.Sleep) && res.Status == store.Canceling {
				s.setDue(c.Lease.Run, due(c.Transition, now), res)
			}
		})
	})},
	{"pause-forgets-events", "P5", "an event that reaches a paused sleeper does not wake it when it is resumed", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			before := map[store.ID]time.Time{}
			for _, sig := range p.Signals {
				if r, ok := s.row(sig.Run); ok && r.Status == store.Paused {
					before[sig.Run] = r.VisibleAt
				}
			}
			out, err := signal(ctx, p)
			for id, at := range before {
				s.Tamper(id, func(r model.Row) { r.VisibleAt = at })
			}
			return out, err
		}
	})},
	{"old-wake-wakes-the-next-sleep", "P5", "a sleep waits for what the sleep before it waited for, too", wrap(func(s *faulty) {
		var mu sync.Mutex
		asked := map[store.ID]store.WakeOn{}
		s.beforeCommit(func(c *store.Commit) {
			mu.Lock()
			defer mu.Unlock()
			if r, ok := s.row(c.Lease.Run); ok && r.Epoch == c.Lease.Epoch && ended(c, store.Sleep) {
				asked[c.Lease.Run] |= c.Transition.Wakes
				c.Transition.Wakes = asked[c.Lease.Run]
			}
		})
	})},

	{"signals-read-before-the-lease", "P5", "a claim reads the inbox before it takes the lease, and the event count after", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			read := map[store.ID][]store.Signal{}
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace})
			for _, r := range page.Runs {
				in, _ := s.Inbox(ctx, store.InboxParams{Namespace: p.Namespace, Run: r.ID})
				read[r.ID] = in.Signals
			}
			roundTrip()
			got, err := claim(ctx, p)
			for i := range got.Runs {
				if had, ok := read[got.Runs[i].Run.ID]; ok {
					got.Runs[i].Inbox.Signals = had
				}
			}
			return got, err
		}
	})},
	{"inbox-read-in-two", "P5", "Inbox reads the signals, and the event count a moment later", wrap(func(s *faulty) {
		inbox := s.inbox
		s.inbox = func(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
			before, err := inbox(ctx, p)
			if err != nil {
				return before, err
			}
			roundTrip()
			in, err := inbox(ctx, p)
			in.Signals = before.Signals
			return in, err
		}
	})},

	{"retry-keeps-failed-steps", "P6", "the next attempt of a run finds the steps that failed in the one before", wrap(func(s *faulty) {
		s.keepSteps(store.Retry, func(st []store.Step) []store.Step { return st })
	})},
	{"retry-keeps-what-followed", "P6", "a retry forgets the failed steps and keeps those that came after them", wrap(func(s *faulty) {
		s.keepSteps(store.Retry, func(st []store.Step) []store.Step {
			return slices.DeleteFunc(st, func(st store.Step) bool { return st.Status == store.StepFailed })
		})
	})},
	{"retry-counts-no-attempt", "P6", "a retry leaves the attempt's number", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Retry) {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Attempt-- })
			}
		})
	})},
}
