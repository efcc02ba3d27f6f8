package mutant

import (
	"bytes"
	"context"
	"slices"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// These mutants break calls that control and read runs: pause, restart, fork, pages of steps and
// children, schedules that are put again.
var steerMutants = []Mutant{
	{"resume-makes-due", "P13", "a run that is resumed may be claimed at once, whatever its time", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			out, err := pause(ctx, p)
			for i := range out {
				s.Tamper(p.IDs[i], func(r model.Row) {
					if p.Resume && r.Worker == "" && !r.Status.Final() {
						r.VisibleAt = clock(p.Now)
					}
				})
			}
			return out, err
		}
	})},
	{"takeover-forgets-the-pause", "P11", "a run that is to pause and whose holder died is not to pause any more", wrap(func(s *faulty) {
		s.onClaim(func(c *store.ClaimedRun, r *store.Run) {
			if c.Recovered {
				r.Pausing, c.Run.Pausing = false, false
			}
		})
	})},
	{"extension-hides-a-pause", "P11", "an extension does not tell that the run is to pause", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			out, err := extend(ctx, p)
			for i := range out {
				out[i].Pausing = false
			}
			return out, err
		}
	})},
	{"restart-keeps-the-epoch", "P6", "a restart does not raise the epoch", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			err := restart(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { r.Epoch-- })
			}
			return err
		})
	})},
	{"restart-stops-at-a-refusal", "P16", "a call that restarts several runs restarts none behind one that is refused", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			var out []store.ControlResult
			for i, id := range p.IDs {
				if i > 0 && out[i-1].Err != nil {
					out = append(out, out[i-1])
					continue
				}
				res, err := restart(ctx, store.RestartParams{Namespace: p.Namespace, IDs: []store.ID{id}, Now: p.Now})
				if err != nil {
					return nil, err
				}
				out = append(out, res...)
			}
			return out, p.Validate()
		}
	})},
	{"restart-results-by-id", "P16", "the results of a call that restarts runs come in the order of the runs' ids", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			p.IDs = slices.Clone(p.IDs)
			slices.SortFunc(p.IDs, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
			return restart(ctx, p)
		}
	})},
	{"restart-refused-without-status", "P16", "the result of a run that is not restarted has no status", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			out, err := restart(ctx, p)
			for i := range out {
				if out[i].Err != nil {
					out[i].Status = 0
				}
			}
			return out, err
		}
	})},
	{"restart-of-rivals-refuses-all", "P8", "of the runs of a call with one external id, none is restarted", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			type name struct{ id, suffix string }
			rivals := map[name]int{}
			nameOf := func(id store.ID) name {
				r, _ := s.row(id)
				return name{r.ExternalID, r.Suffix}
			}
			for _, id := range p.IDs {
				if r, _ := s.row(id); r.ExternalID != "" && r.Status >= store.Failed {
					rivals[nameOf(id)]++
				}
			}
			var out []store.ControlResult
			for _, id := range p.IDs {
				if rivals[nameOf(id)] > 1 {
					out = append(out, store.ControlResult{Status: store.Canceled, Err: store.ErrAlreadyExists})
					continue
				}
				res, err := restart(ctx, store.RestartParams{Namespace: p.Namespace, IDs: []store.ID{id}, Now: p.Now})
				if err != nil {
					return nil, err
				}
				out = append(out, res...)
			}
			return out, p.Validate()
		}
	})},
	{"restart-of-half-a-batch", "P3", "a call restarts its first five hundred runs and says so of all", wrap(func(s *faulty) {
		restart := s.restart
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			if len(p.IDs) <= 500 || len(p.IDs) > store.MaxBatch {
				return restart(ctx, p)
			}
			n := len(p.IDs)
			p.IDs = p.IDs[:500]
			out, err := restart(ctx, p)
			for err == nil && len(out) < n {
				out = append(out, store.ControlResult{Status: store.Pending})
			}
			return out, err
		}
	})},
	{"restarted-child-counts-again", "P9", "a restarted child is counted once more in its parent's group when it ends", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, _ := s.row(p.ID)
			err := restart(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { r.Group, r.Ordinal = before.Group, before.Ordinal })
			}
			return err
		})
	})},
	{"fork-takes-the-named-step", "P3", "a fork keeps the step that it is to begin with", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			old := s.steps(p.ID)
			res, err := fork(ctx, p)
			if i := slices.IndexFunc(old, func(st store.Step) bool { return p.Before != nil && st.StepKey == *p.Before }); err == nil && i >= 0 {
				s.Tamper(p.New, func(r model.Row) {
					if !slices.ContainsFunc(*r.Steps, func(st store.Step) bool { return st.StepKey == *p.Before }) {
						*r.Steps = append(*r.Steps, old[i])
					}
				})
			}
			return res, err
		}
	})},
	{"fork-keeps-what-failed", "P3", "a fork takes over steps that have failed", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			old := s.steps(p.ID)
			_, had := s.row(p.New)
			res, err := fork(ctx, p)
			if err == nil && !had && p.Before == nil {
				s.Tamper(p.New, func(r model.Row) { *r.Steps = old })
			}
			return res, err
		}
	})},
	{"step-page-begins-late", "P14", "a page of steps leaves out the first step behind the one last seen", wrap(func(s *faulty) {
		steps := s.readSteps
		s.readSteps = func(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
			page, err := steps(ctx, p)
			if p.After > 0 && len(page.Steps) > 1 {
				page.Steps = page.Steps[1:]
			}
			return page, err
		}
	})},
	{"children-in-the-order-of-ids", "P14", "children are listed by ID", wrap(func(s *faulty) {
		children := s.children
		s.children = func(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
			out, err := children(ctx, p)
			slices.SortFunc(out.Children, func(a, b store.Run) int { return bytes.Compare(a.ID[:], b.ID[:]) })
			return out, err
		}
	})},
	{"schedule-put-again-begins-anew", "P4", "a schedule that is replaced loses its firings and its last time", wrap(func(s *faulty) {
		put := s.putSchedule
		s.putSchedule = func(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
			if p.Validate(s.Limits()) == nil {
				_ = s.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: p.Namespace, Name: p.Schedule.Name})
			}
			return put(ctx, p)
		}
	})},
}
