package mutant

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// eachSignaled replaces what Create does for a start with a signal. next is the model's Create of
// that start alone.
func eachSignaled(do func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next func(store.NewRun) (store.CreateResult, error)) (store.CreateResult, error)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			if p.Validate() != nil || !slices.ContainsFunc(p.Runs, func(n store.NewRun) bool { return n.Signal != nil && n.Validate(s.Limits()) == nil }) {
				return create(ctx, p)
			}
			var out []store.CreateResult
			for _, n := range p.Runs {
				next := func(n store.NewRun) (store.CreateResult, error) {
					one := p
					one.Runs = []store.NewRun{n}
					res, err := create(ctx, one)
					if err != nil {
						return store.CreateResult{}, err
					}
					return res[0], nil
				}
				var res store.CreateResult
				var err error
				if n.Signal == nil || n.Validate(s.Limits()) != nil {
					res, err = next(n)
				} else {
					res, err = do(s, ctx, p, n, next)
				}
				if err != nil {
					return nil, err
				}
				out = append(out, res)
			}
			return out, nil
		}
	})
}

// unsignaled returns a start without its signal.
func unsignaled(n store.NewRun) store.NewRun {
	n.Signal, n.Digest = nil, nil
	return n
}

// sends sends the signal of a start to a run.
func (s *faulty) sends(ctx context.Context, p store.CreateParams, n store.NewRun, run store.ID) error {
	_, err := s.signal(ctx, store.SignalParams{Namespace: p.Namespace, Now: p.Now, Signals: []store.NewSignal{
		{ID: n.Signal.ID, Run: run, Name: n.Signal.Name, Payload: n.Signal.Payload},
	}})
	return err
}

// heard reports whether a run of the start's external id has had its signal.
func (s *faulty) heard(ctx context.Context, p store.CreateParams, n store.NewRun) bool {
	page, err := s.list(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{ExternalID: n.ExternalID}})
	if err != nil {
		return false
	}
	for _, r := range page.Runs {
		res, err := s.answers(ctx, store.AnswersParams{Namespace: p.Namespace, Asks: []store.Ask{{Run: r.ID, Signal: n.Signal.ID}}})
		if err == nil && res[0].Err == nil && r.Suffix == n.Suffix {
			return true
		}
	}
	return false
}

type nextStart = func(store.NewRun) (store.CreateResult, error)

// These mutants break what Create promises of starts with signals.
var signalStartMutants = []Mutant{
	{"start-signal-lost-on-a-run", "P17", "a start with a signal that finds a run returns it and drops the signal", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && !r.Status.Final() && r.Workflow == n.Workflow {
			return next(unsignaled(n))
		}
		return next(n)
	})},
	{"start-without-its-signal", "P17", "a start with a signal creates the run without the signal", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix})
		if err != nil || r.Status.Final() && r.Reuse == store.ReuseAfterEnd && !s.heard(ctx, p, n) {
			return next(unsignaled(n))
		}
		return next(n)
	})},
	{"start-signal-repeated", "P4", "a start with a signal that is sent again delivers another signal", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if s.heard(ctx, p, n) {
			sig := *n.Signal
			sig.ID = store.NewID()
			n.Signal = &sig
		}
		return next(n)
	})},
	{"start-signal-repeated-to-the-next-run", "P4", "a start with a signal that is sent again after its run has ended starts anew", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		res, err := next(n)
		r, ok := s.row(res.ID)
		if err != nil || res.Err != nil || !ok || !r.Status.Final() || r.Reuse == store.ReuseNever {
			return res, err
		}
		again := unsignaled(n)
		again.ID = store.NewID()
		if res, err = next(again); err == nil && res.Err == nil {
			err = s.sends(ctx, p, n, res.ID)
		}
		return res, err
	})},
	{"start-signal-to-a-final-run", "P8", "a start with a signal that finds a final run succeeds, and nobody gets the signal", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && r.Status.Final() && r.Reuse == store.ReuseNever {
			return next(unsignaled(n))
		}
		return next(n)
	})},
	{"start-signal-makes-a-second-run", "P8", "a start with a signal creates a run although one is active", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && !r.Status.Final() && r.Workflow == n.Workflow && !s.heard(ctx, p, n) {
			apart := unsignaled(n)
			apart.ExternalID, apart.Suffix, apart.Reuse = "", "", store.ReuseAfterEnd
			res, err := next(apart)
			if err == nil && res.Err == nil {
				err = s.sends(ctx, p, n, res.ID)
			}
			return res, err
		}
		return next(n)
	})},
	{"start-signal-to-another-workflow", "P8", "a start with a signal delivers to a run of another workflow", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && !r.Status.Final() {
			n.Workflow = r.Workflow
		}
		return next(n)
	})},
	{"start-signal-compares-digests", "P8", "a start with a signal conflicts with a run that was started with another input", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && !r.Status.Final() {
			plain := n
			plain.Signal = nil
			if res := plain.Meets(r.ID, r.Workflow, r.Digest); res.Err != nil {
				return res, nil
			}
		}
		return next(n)
	})},
	{"start-signal-wakes-nobody", "P5", "a start with a signal leaves the run that it finds asleep", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		r, found := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix})
		res, err := next(n)
		if err == nil && res.Err == nil && found == nil {
			s.Tamper(res.ID, func(row model.Row) { row.VisibleAt = r.VisibleAt })
		}
		return res, err
	})},
	{"start-signal-by-a-look-first", "P8", "a start with a signal looks for the run, then starts or signals in another write", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if s.heard(ctx, p, n) {
			return next(n)
		}
		r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix})
		roundTrip()
		if err != nil || r.Status.Final() {
			return next(unsignaled(n))
		}
		return store.CreateResult{ID: r.ID}, s.sends(ctx, p, n, r.ID)
	})},
	{"start-signal-in-two-writes", "P17", "a start with a signal creates the run and sends the signal in another write", eachSignaled(func(s *faulty, ctx context.Context, p store.CreateParams, n store.NewRun, next nextStart) (store.CreateResult, error) {
		if s.heard(ctx, p, n) {
			return next(n)
		}
		res, err := next(unsignaled(n))
		roundTrip()
		if err == nil && res.Err == nil {
			err = s.sends(ctx, p, n, res.ID)
		}
		return res, err
	})},
}
