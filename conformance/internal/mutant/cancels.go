package mutant

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// unstarted makes some runs that no worker holds look to do as if they had never been claimed.
func (s *faulty) unstarted(ids []store.ID, do func()) {
	at := map[store.ID]time.Time{}
	for _, id := range ids {
		s.Tamper(id, func(r model.Row) {
			if r.Worker == "" && !r.Status.Final() {
				at[id], r.StartedAt = r.StartedAt, time.Time{}
			}
		})
	}
	do()
	for id, started := range at {
		s.Tamper(id, func(r model.Row) { r.StartedAt = started })
	}
}

// onCancel wraps each run's cancel.
func (s *faulty) onCancel(around func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error)) {
	cancel := s.cancel
	s.cancel = func(ctx context.Context, p store.CancelParams) (all []store.ControlResult, err error) {
		for _, id := range p.IDs {
			q := p
			q.IDs = []store.ID{id}
			before, _ := s.row(id)
			out, err := around(q, before, func() ([]store.ControlResult, error) { return cancel(ctx, q) })
			if err != nil {
				return nil, err
			}
			all = append(all, out...)
		}
		return all, nil
	}
}

// waits reports whether a run was canceled and waits for its last claim.
func waits(r store.Run) bool { return r.Status == store.Canceling && r.Worker == "" }

// These mutants break P11 for runs that have something to clean up when they are canceled.
var cancelMutants = []Mutant{
	{"cancel-ends-what-waits", "P11", "a run that nobody holds is canceled at once, whatever it has recorded", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, _ store.Run, next func() ([]store.ControlResult, error)) (out []store.ControlResult, err error) {
			s.unstarted(p.IDs, func() { out, err = next() })
			return out, err
		})
	})},
	{"canceled-children-clean-up-never", "P11", "a child that waits ends at once when its parent is canceled, whatever it has recorded", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) (out []store.ControlResult, err error) {
			var below []store.ID
			page, _ := s.List(context.Background(), store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Parent: before.ID}})
			for _, k := range page.Runs {
				below = append(below, k.ID)
			}
			s.unstarted(below, func() { out, err = next() })
			return out, err
		})
	})},
	{"canceling-run-keeps-its-time", "P11", "a run that waited and is canceled is claimable when it would have been without that", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			out, err := next()
			s.Tamper(before.ID, func(r model.Row) {
				if waits(*r.Run) {
					r.VisibleAt = before.VisibleAt
				}
			})
			return out, err
		})
	})},
	{"pause-keeps-the-canceling", "P11", "a paused run that is canceled stays paused", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			if steps := s.steps(before.ID); before.Status == store.Paused && len(steps) > 0 && !p.Force {
				return []store.ControlResult{{Status: store.Paused}}, nil
			}
			return next()
		})
	})},
	{"unstarted-fork-cleans-up", "P11", "a fork that was never claimed becomes canceling for the steps that it began with", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			s.Tamper(before.ID, func(r model.Row) {
				if r.StartedAt.IsZero() && len(*r.Steps) > 0 {
					r.StartedAt = r.CreatedAt
				}
			})
			return next()
		})
	})},
	{"claimed-run-cleans-up-nothing", "P11", "a run that was claimed before and has recorded nothing becomes canceling", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			if before.Worker != "" || before.StartedAt.IsZero() || before.Status.Final() || p.Force {
				return next()
			}
			var kept []store.Step
			s.Tamper(before.ID, func(r model.Row) { kept, *r.Steps = *r.Steps, []store.Step{{}} })
			out, err := next()
			s.Tamper(before.ID, func(r model.Row) { *r.Steps = kept })
			return out, err
		})
	})},
	{"last-claim-forgets-the-cancel", "P11", "a run that was canceled while it waited is running again for who claims it", wrap(func(s *faulty) {
		s.onClaim(func(c *store.ClaimedRun, r *store.Run) {
			if !c.Recovered && r.Status == store.Canceling {
				r.Status, c.Run.Status = store.Running, store.Running
			}
		})
	})},
	{"last-claim-without-history", "P11", "a run that is claimed to clean up comes without its steps", wrap(func(s *faulty) {
		s.onClaim(func(c *store.ClaimedRun, r *store.Run) {
			if r.Status == store.Canceling {
				c.Steps, c.MoreSteps = nil, false
			}
		})
	})},
	{"force-lets-clean-up", "P11", "a forced cancel of a run that nobody holds is an ordinary one", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			if steps := s.steps(before.ID); p.Force && before.Worker == "" && len(steps) > 0 {
				return s.Store.Cancel(context.Background(), store.CancelParams{Namespace: p.Namespace, IDs: p.IDs, Reason: p.Reason, Now: p.Now})
			}
			return next()
		})
	})},
	{"second-cancel-ends-what-waits", "P4", "a run that was canceled and waits for its last claim is final at the second cancel", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			if waits(before) {
				return s.Store.Cancel(context.Background(), store.CancelParams{Namespace: p.Namespace, IDs: p.IDs, Reason: p.Reason, Force: true, Now: p.Now})
			}
			return next()
		})
	})},
	{"waiting-child-counts-at-its-cancel", "P9", "a child that waited is counted when it is canceled, before it has cleaned up", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) ([]store.ControlResult, error) {
			out, err := next()
			if k, ok := s.row(before.ID); ok && waits(k) && !waits(before) {
				s.Tamper(k.Parent, func(r model.Row) {
					if g := r.Groups[k.Group]; g != nil {
						g.Open, g.Canceled = g.Open-1, g.Canceled+1
					}
				})
				s.Tamper(k.ID, func(r model.Row) { r.Group = "" })
			}
			return out, err
		})
	})},
	{"canceling-run-is-deaf", "P5", "what is sent to a run that waits for its last claim is dropped", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out := make([]store.SignalResult, len(p.Signals))
			for i := range p.Signals {
				if r, ok := s.row(p.Signals[i].Run); ok && waits(r) {
					out[i].Run = r.ID
					continue
				}
				q := p
				q.Signals = p.Signals[i : i+1]
				one, err := signal(ctx, q)
				if err != nil {
					return nil, err
				}
				out[i] = one[0]
			}
			return out, nil
		}
	})},
	{"pause-does-not-hold-the-canceling", "P13", "a pause of a queue or workflow does not hold back a run that is canceling", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (out store.Claimed, err error) {
			out, err = claim(ctx, p)
			if err != nil || len(out.Runs) > 0 {
				return out, err
			}
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Canceling}}})
			for _, r := range page.Runs {
				if r.Worker == "" {
					s.withoutPauses(ctx, p.Namespace, func(store.PausedTarget) bool { return true }, func() { out, err = claim(ctx, p) })
					break
				}
			}
			return out, err
		}
	})},
}
