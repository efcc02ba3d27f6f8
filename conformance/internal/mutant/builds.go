package mutant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

func buildsOf(s *faulty) *verb[store.ListBuildsParams, store.BuildPage] { return &s.listBuilds }

// eachGivenBack changes the commits that give a run back.
func eachGivenBack(change func(c *store.Commit)) func(s *faulty) {
	return func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			p.Commits = slices.Clone(p.Commits)
			for i := range p.Commits {
				c := &p.Commits[i]
				if t := c.Transition; t != nil && t.Kind == store.GiveBack && c.Validate(s.Limits()) == nil {
					tr := *t
					c.Transition = &tr
					change(c)
				}
			}
			return commit(ctx, p)
		}
	}
}

// claimsOf changes the params of claims.
func claimsOf(change func(p *store.ClaimParams)) func(s *faulty) {
	return func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			if p.Validate() == nil {
				change(&p)
			}
			return claim(ctx, p)
		}
	}
}

// These mutants break P19 and P20: which build a run belongs to.
var buildMutants = []Mutant{
	{"claim-ignores-pins", "P19", "a claim that finds nothing takes a run that is pinned to another build", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			if err != nil || len(got.Runs) > 0 {
				return got, err
			}
			page, _ := s.Store.ListBuilds(ctx, store.ListBuildsParams{Namespace: p.Namespace, Now: p.Now})
			for _, b := range page.Builds {
				if q := p; b.Pinned > 0 {
					q.Build = b.Name
					if other, err := claim(ctx, q); err == nil && len(other.Runs) > 0 {
						return other, nil
					}
				}
			}
			return got, err
		}
	})},
	{"pinned-runs-are-nobodys", "P19", "a claim takes no pinned run, not even its own build's", wrap(claimsOf(func(p *store.ClaimParams) { p.Build = "" }))},
	{"builds-fold-case", "P19", "a claim takes builds of another case for its own", wrap(claimsOf(func(p *store.ClaimParams) { p.Build = strings.ToLower(p.Build) }))},
	{"pinned-elsewhere-is-due", "P19", "a claim tells of due runs that are pinned to another build", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			if err != nil || !got.NextDue.IsZero() {
				return got, err
			}
			page, _ := s.Store.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Pending}, Pinned: true}})
			for _, r := range page.Runs {
				got.NextDue = r.VisibleAt
			}
			return got, err
		}
	})},
	{"given-back-without-a-pin", "P19", "a run that is given back is not pinned", wrap(eachGivenBack(func(c *store.Commit) {
		c.Pin, c.Transition.Kind = nil, store.Release
	}))},
	{"commit-drops-its-pin", "P19", "a commit that does not give the run back does not pin it", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			p.Commits = slices.Clone(p.Commits)
			for i := range p.Commits {
				if c := &p.Commits[i]; c.Validate(s.Limits()) == nil && (c.Transition == nil || c.Transition.Kind != store.GiveBack) {
					c.Pin = nil
				}
			}
			return commit(ctx, p)
		}
	})},
	{"given-back-without-a-reason", "P20", "a run that is given back loses the reason of its pin", wrap(eachGivenBack(func(c *store.Commit) {
		c.Pin = &store.Pin{Build: c.Pin.Build}
	}))},
	{"pin-forgets-its-share", "P19", "a pin does not say that it is that of a share", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			p.Commits = slices.Clone(p.Commits)
			for i := range p.Commits {
				if c := &p.Commits[i]; c.Pin != nil && c.Validate(s.Limits()) == nil {
					pin := *c.Pin
					pin.Ramp, c.Pin = false, &pin
				}
			}
			return commit(ctx, p)
		}
	})},
	{"given-back-forgets-crashes", "P20", "to give a run back sets its Crashes to zero", wrap(eachGivenBack(func(c *store.Commit) { c.Transition.Kind = store.Release }))},
	{"given-back-is-an-attempt", "P20", "to give a run back is another attempt of it", wrap(eachGivenBack(func(c *store.Commit) { c.Transition.Kind = store.Retry }))},
	{"given-back-as-failed", "P20", "a run that is given back gets a failure", wrap(eachGivenBack(func(c *store.Commit) {
		c.Transition.Kind, c.Transition.Failure = store.Release, &store.Failure{Code: "nondeterministic", Message: "it does not fit"}
	}))},
	{"given-back-sleeps", "P20", "a run that is given back is due later", wrap(eachGivenBack(func(c *store.Commit) {
		c.Transition.Kind, c.Transition.After = store.Release, time.Minute
	}))},
	{"eager-start-without-a-build", "P19", "the lease of an eager start bears no build", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				if p.Runs[i].Validate(s.Limits()) == nil {
					p.Runs[i].Build = ""
				}
			}
			return create(ctx, p)
		}
	})},
	{"unpins-what-is-not-pinned", "P19", "Unpin of a run that is not pinned succeeds", wrap(func(s *faulty) {
		unpin := s.unpin
		s.unpin = func(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
			res, err := unpin(ctx, p)
			for i := range res {
				if r := &res[i]; r.Status != 0 && !r.Status.Final() {
					r.Err = nil
				}
			}
			return res, err
		}
	})},
	{"unpin-again-finds-nothing", "P4", "Unpin says of a run that is not pinned that it does not exist", wrap(func(s *faulty) {
		unpin := s.unpin
		s.unpin = func(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
			res, err := unpin(ctx, p)
			for i := range res {
				if errors.Is(res[i].Err, store.ErrConflict) {
					res[i] = store.ControlResult{Err: fmt.Errorf("run %v: %w", p.IDs[i], store.ErrNotFound)}
				}
			}
			return res, err
		}
	})},
	{"unpin-does-nothing", "P19", "Unpin answers, and leaves the pin", wrap(func(s *faulty) {
		s.unpin = func(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
			runs, err := s.Store.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: p.IDs})
			res := make([]store.ControlResult, len(p.IDs))
			for i, id := range p.IDs {
				for _, r := range runs {
					if r.ID == id {
						res[i].Status = r.Status
					}
				}
			}
			return res, err
		}
	})},
	{"lists-ignore-pins", "P19", "a list does not heed what its filter says of pins", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			if p.Validate() == nil {
				p.Filter.Pinned, p.Filter.PinnedTo = false, nil
			}
			return list(ctx, p)
		}
	})},
	{"imports-unpin", "P19", "an imported run is not pinned", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			if p.Validate(s.Limits()) == nil {
				p.Record.Run.Pin = nil
			}
			return imports(ctx, p)
		}
	})},
	{"builds-begin-anew", "P18", "ListBuilds heeds no Cursor", wrap(reads(buildsOf, func(p *store.ListBuildsParams) { p.Cursor = "" }, nil))},
	{"builds-end-at-a-page", "P18", "the first page of ListBuilds looks like the last one", wrap(reads(buildsOf, nil, func(_ *store.ListBuildsParams, page *store.BuildPage) { page.Next = "" }))},
	{"builds-of-draining-workers-are-online", "P18", "ListBuilds counts draining workers as online", wrap(reads(buildsOf, nil, func(_ *store.ListBuildsParams, page *store.BuildPage) {
		for i := range page.Builds {
			page.Builds[i].Online = page.Builds[i].Workers
		}
	}))},
}
