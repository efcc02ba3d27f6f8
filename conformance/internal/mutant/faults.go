package mutant

import (
	"context"
	"errors"
	"slices"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// saying makes a store that changes its errors: to gets what the store knows.
func saying(to func(verb string, write bool, err error) error) func(*model.Store) store.Store {
	return wrap(func(s *faulty) { s.Says = to })
}

var errPlain = errors.New("something went wrong")

func unknown(err error) bool { return errors.Is(err, store.ErrOutcomeUnknown) }

// deniesOf makes a store that reports the lost writes of some methods as not applied.
func deniesOf(group string, verbs ...string) Mutant {
	return Mutant{"lost-answer-denied-" + group, "P16", "says of a write of these verbs whose answer was lost that nothing was applied: " + group, saying(func(verb string, _ bool, err error) error {
		if slices.Contains(verbs, verb) && unknown(err) {
			return errors.Join(errPlain, store.ErrUnavailable)
		}
		return err
	})}
}

// swallows makes a store that reports a method's write as done although its answer never arrived.
func swallows(verb string) Mutant {
	return Mutant{"lost-answer-ignored-" + verb, "P16", "reports success of " + verb + ", whatever became of its request", saying(func(v string, _ bool, err error) error {
		if v == verb {
			return nil
		}
		return err
	})}
}

// again makes a store that repeats a write by itself if its answer was lost, after change has
// changed the request.
func again[P, R any](call verb[P, R], change func(p *P)) verb[P, R] {
	return func(ctx context.Context, p P) (R, error) {
		r, err := call(ctx, p)
		if unknown(err) && ctx.Err() == nil {
			change(&p)
			return call(ctx, p)
		}
		return r, err
	}
}

var faultMutants = []Mutant{
	deniesOf("create", "Create"),
	deniesOf("control", "Cancel", "Pause", "Restart", "Fork", "Purge"),
	deniesOf("unpin", "Unpin"),
	deniesOf("claim", "Claim"),
	deniesOf("extend", "Extend"),
	deniesOf("commit", "Commit"),
	deniesOf("coordination", "Signal", "SetState"),
	deniesOf("registry", "PutWorker", "RemoveWorker", "AskWorkers", "PutWorkflows", "PauseTarget"),
	deniesOf("lock", "Lock"),
	deniesOf("schedules", "PutSchedule", "DeleteSchedule"),
	deniesOf("fire", "Fire"),
	deniesOf("optional", "Import", "Record"),
	deniesOf("step", "Transaction.Commit"),
	swallows("PutWorker"),
	swallows("PauseTarget"),
	swallows("DeleteSchedule"),
	swallows("Record"),
	{"refusal-unknown", "P16", "does not know of a write whether it was applied, where nothing was sent", saying(func(_ string, write bool, err error) error {
		if write && errors.Is(err, store.ErrUnavailable) {
			return errors.Join(errPlain, store.ErrOutcomeUnknown)
		}
		return err
	})},
	{"read-unknown", "P16", "does not know of a read that failed whether it was applied", saying(func(_ string, write bool, err error) error {
		if !write && errors.Is(err, store.ErrUnavailable) {
			return errors.Join(errPlain, store.ErrOutcomeUnknown)
		}
		return err
	})},
	{"lost-answer-both", "P16", "says of a lost answer both that nothing was applied and that this is not known", saying(func(_ string, _ bool, err error) error {
		if unknown(err) {
			return errors.Join(err, store.ErrUnavailable)
		}
		return err
	})},
	{"lost-answer-plain", "P16", "gives the driver's error of a write as it is", saying(func(_ string, write bool, err error) error {
		if write && store.Retryable(err) {
			return errPlain
		}
		return err
	})},
	{"read-error-plain", "P16", "gives the driver's error of a read as it is", saying(func(_ string, write bool, err error) error {
		if !write && store.Retryable(err) {
			return errPlain
		}
		return err
	})},
	{"given-up-denied", "P16", "says of a write whose caller gave up waiting no more than that", saying(func(_ string, _ bool, err error) error {
		if errors.Is(err, context.Canceled) {
			return context.Canceled
		}
		return err
	})},
	{"given-up-without-context", "P16", "does not tell the context's error of a call that was given up", saying(func(_ string, _ bool, err error) error {
		if unknown(err) {
			return store.ErrOutcomeUnknown
		}
		return err
	})},
	{"resend-doubles-create", "P16", "makes new ids when it sends new runs again", wrap(func(s *faulty) {
		s.create = again(s.create, func(p *store.CreateParams) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				p.Runs[i].ID = store.NewID()
			}
		})
	})},
	{"resend-doubles-signal", "P16", "makes a new id when it sends a signal again", wrap(func(s *faulty) {
		s.signal = again(s.signal, func(p *store.SignalParams) {
			p.Signals = slices.Clone(p.Signals)
			for i := range p.Signals {
				p.Signals[i].ID = store.NewID()
			}
		})
	})},
	{"resend-doubles-state", "P16", "leaves out the versions when it sends state again", wrap(func(s *faulty) {
		s.setState = again(s.setState, func(p *store.SetStateParams) {
			p.Writes = slices.Clone(p.Writes)
			for i := range p.Writes {
				p.Writes[i].IfVersion = nil
			}
		})
	})},
	{"resend-doubles-fork", "P16", "makes another fork when it sends it again, under the id that was asked for", wrap(func(s *faulty) {
		s.fork = again(s.fork, func(p *store.ForkParams) { p.New = store.NewID() })
	})},
	{"resend-doubles-claim", "P16", "sends a claim again as a new one, when its lease is over", wrap(func(s *faulty) {
		s.claim = again(s.claim, func(p *store.ClaimParams) { p.Now = p.Now.Add(2 * p.LeaseFor) })
	})},
	{"resend-skips-commit", "P16", "gives a commit the next number when it sends it again", wrap(func(s *faulty) {
		s.commit = again(s.commit, func(p *store.CommitParams) {
			p.Commits = slices.Clone(p.Commits)
			for i := range p.Commits {
				p.Commits[i].Seq++
			}
		})
	})},
	{"resend-is-news", "P16", "sends a firing again and reports it as its own, though the first one had fired", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && !res.Run.IsZero() {
				res.Fired = true
			}
			return res, err
		}
	})},
}
