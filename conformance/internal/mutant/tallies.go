package mutant

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// These mutants return wrong counts of the runs that a call has made and ended, which metrics use.
var tallyMutants = []Mutant{
	{"repeated-create-says-made", "P4", "a create whose run existed already says that it has made it", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				out[i].Repeated = false
			}
			return out, err
		}
	})},
	{"repeated-fork-says-made", "P4", "a fork that existed already says that it was made now", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			res, err := fork(ctx, p)
			res.Repeated = false
			return res, err
		}
	})},
	{"firing-always-made-its-run", "P10", "a firing says that it has made its run where a run of that ID was there", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			res.Made = res.Fired && p.Run != nil && res.Run == p.Run.ID
			return res, err
		}
	})},
	{"spawn-counts-what-was-there", "P4", "a commit counts children that existed already among those that it has made", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, res *store.CommitResult) {
			if res.Err == nil && !res.Repeated {
				res.Spawned = nil
				for i := range c.Spawn {
					res.Spawned = store.Tally(res.Spawned, c.Spawn[i].Queue, c.Spawn[i].Workflow, store.Pending, 1)
				}
			}
		})
	})},
	{"repeat-tells-what-it-ended", "P11", "a commit that ends its run tells again what it has ended when it is sent again", wrap(func(s *faulty) {
		told := map[store.Lease][]store.RunCount{}
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if res.Repeated {
				res.Ended = told[c.Lease]
			} else if res.Ended != nil {
				told[c.Lease] = res.Ended
			}
			return res, err
		})
	})},
	{"end-hides-what-it-canceled", "P11", "the end of a run does not tell of the children that it has canceled", wrap(func(s *faulty) {
		s.afterCommit(func(_ *store.Commit, _ time.Time, res *store.CommitResult) { res.Ended = nil })
	})},
	{"cancel-tells-of-itself-alone", "P11", "a cancel does not tell of the descendants that it has ended", wrap(func(s *faulty) {
		s.afterCancel(func(_ store.Run, after store.Run, res *store.ControlResult) {
			if res.Ended != nil {
				res.Ended = []store.RunCount{{Queue: after.Queue, Workflow: after.Workflow, Status: store.Canceled, Count: 1}}
			}
		})
	})},
	{"cancel-tells-of-canceling-runs", "P11", "a cancel counts a run among those that it has ended which somebody holds", wrap(func(s *faulty) {
		s.afterCancel(func(before, after store.Run, res *store.ControlResult) {
			if before.Status == store.Running && after.Status == store.Canceling {
				res.Ended = store.Tally(res.Ended, after.Queue, after.Workflow, store.Canceled, 1)
			}
		})
	})},
	{"forced-cancel-tells-nothing", "P11", "a forced cancel does not tell what it has ended", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			res, err := cancel(ctx, p)
			for i := range res {
				if p.Force {
					res[i].Ended = nil
				}
			}
			return res, err
		}
	})},
	{"claim-tells-of-the-first-lane-alone", "P18", "a claim tells what waits in the lane of the earliest run alone", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			out, err := claim(ctx, p)
			out.Waiting = slices.DeleteFunc(out.Waiting, func(w store.Waiting) bool { return !w.Since.Equal(out.NextDue) })
			return out, err
		}
	})},
	{"cancel-tells-again", "P11", "a cancel of a run that is canceled already counts it among those that it has ended", wrap(func(s *faulty) {
		s.afterCancel(func(_, after store.Run, res *store.ControlResult) {
			if res.Ended == nil && after.Status == store.Canceled {
				res.Ended = store.Tally(nil, after.Queue, after.Workflow, store.Canceled, 1)
			}
		})
	})},
}

// afterCancel changes the answer to a cancel of each run.
func (s *faulty) afterCancel(do func(before, after store.Run, res *store.ControlResult)) {
	cancel := s.cancel
	s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
		before := make([]store.Run, len(p.IDs))
		for i, id := range p.IDs {
			before[i], _ = s.row(id)
		}
		out, err := cancel(ctx, p)
		for i := range out {
			after, _ := s.row(p.IDs[i])
			do(before[i], after, &out[i])
		}
		return out, err
	}
}
