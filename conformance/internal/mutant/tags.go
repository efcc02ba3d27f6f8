package mutant

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// dropsTags makes a run lose its tags.
func (s *faulty) dropsTags(id store.ID) { s.Tamper(id, func(r model.Row) { r.Tags = nil }) }

// createdWith changes the tags of runs that are created.
func createdWith(do func(r *store.NewRun)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				if p.Runs[i].Validate(s.Limits()) == nil {
					do(&p.Runs[i])
				}
			}
			return create(ctx, p)
		}
	})
}

// matchedBy changes the matches of lists and counts.
func matchedBy(do func(m *store.TagMatch)) func(*model.Store) store.Store {
	matches := func(f *store.RunFilter) {
		f.Tags = slices.Clone(f.Tags)
		for i := range f.Tags {
			do(&f.Tags[i])
		}
	}
	return wrap(func(s *faulty) {
		list, count := s.list, s.count
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			if p.Validate() == nil && p.Cursor == "" {
				matches(&p.Filter)
			}
			return list(ctx, p)
		}
		s.count = func(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
			if p.Validate() == nil {
				matches(&p.Filter)
			}
			return count(ctx, p)
		}
	})
}

// dropsTagsWith makes a run lose its tags with a transition.
func dropsTagsWith(kind store.TransitionKind) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if ended(c, kind) {
				c.Tags = store.Tags{}
			}
		})
	})
}

// These mutants break P26, and what other promises say of tags.
var tagMutants = []Mutant{
	{"tags-not-of-a-start", "P26", "a run is created without its tags", createdWith(func(r *store.NewRun) { r.Tags = nil })},
	{"tags-not-of-an-eager-start", "P26", "a run that is leased at its creation has no tags", createdWith(func(r *store.NewRun) {
		if r.Worker != "" {
			r.Tags = nil
		}
	})},
	{"tags-added", "P26", "the tags of a commit are added to those that the run has", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && c.Tags != nil && c.Tags.Validate() == nil {
				all := store.Tags{}
				for _, tags := range []store.Tags{r.Tags, c.Tags} {
					for name, value := range tags {
						all[name] = value
					}
				}
				if len(all) <= store.MaxTags {
					c.Tags = all
				}
			}
		})
	})},
	{"tags-never-removed", "P26", "empty tags leave those that the run has", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if len(c.Tags) == 0 && !ended(c, store.GiveBack) {
				c.Tags = nil
			}
		})
	})},
	{"tags-lost-with-any-commit", "P26", "a commit without tags removes those of its run", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Tags == nil && !ended(c, store.GiveBack) {
				c.Tags = store.Tags{}
			}
		})
	})},
	{"sleep-drops-tags", "P26", "tags that come with a sleep are not set", dropsTagsWith(store.Sleep)},
	{"continue-drops-tags", "P26", "a run that continues as new has no tags", dropsTagsWith(store.Continue)},
	{"end-drops-tags", "P26", "a run that completes has no tags", dropsTagsWith(store.CompleteRun)},
	{"restart-drops-tags", "P26", "a restarted run has no tags", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, next func(context.Context, oneRestart) error) error {
			err := next(ctx, p)
			if err == nil {
				s.dropsTags(p.ID)
			}
			return err
		})
	})},
	{"fork-without-tags", "P26", "a fork has no tags", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			res, err := fork(ctx, p)
			if err == nil {
				s.dropsTags(p.New)
			}
			return res, err
		}
	})},
	{"children-with-the-parents-tags", "P26", "children have the tags of their parent", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			r, _ := s.row(c.Lease.Run)
			c.Spawn = slices.Clone(c.Spawn)
			for i := range c.Spawn {
				if c.Spawn[i].Tags.Validate() == nil {
					c.Spawn[i].Tags = r.Tags
				}
			}
		})
	})},
	{"fired-without-tags", "P26", "a run that a schedule starts has no tags", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && res.Made {
				s.dropsTags(res.Run)
			}
			return res, err
		}
	})},
	{"imported-without-tags", "P26", "an imported run has no tags", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			ok, err := imports(ctx, p)
			if ok {
				s.dropsTags(p.Record.Run.ID)
			}
			return ok, err
		}
	})},
	{"tags-of-any-case", "P26", "values are compared without their case", matchedBy(func(m *store.TagMatch) {
		for _, v := range m.Values {
			if up := strings.ToUpper(v); up != v && len(m.Values) < store.MaxTagValues {
				m.Values = append(slices.Clone(m.Values), up)
			}
		}
	})},
	{"first-value-only", "P26", "of the values of a match only the first counts", matchedBy(func(m *store.TagMatch) { m.Values = m.Values[:min(1, len(m.Values))] })},
	{"prefix-ignored", "P26", "a prefix selects all runs that have the tag", matchedBy(func(m *store.TagMatch) { m.Prefix = "" })},
	{"first-match-only", "P26", "of the matches of a filter only the first counts", wrap(func(s *faulty) {
		list, count := s.list, s.count
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			if p.Validate() == nil && p.Cursor == "" {
				p.Filter.Tags = upTo(p.Filter.Tags, 1)
			}
			return list(ctx, p)
		}
		s.count = func(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
			if p.Validate() == nil {
				p.Filter.Tags = upTo(p.Filter.Tags, 1)
			}
			return count(ctx, p)
		}
	})},
	{"tags-of-a-repeat", "P4", "a start that is sent again replaces the tags of its run", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if err == nil && out[i].Repeated {
					s.Tamper(out[i].ID, func(r model.Row) { r.Tags = p.Runs[i].Tags })
				}
			}
			return out, err
		}
	})},
}
