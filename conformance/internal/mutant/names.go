package mutant

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// fold returns a name as in a column that ignores case.
func fold(name string) string { return strings.ToLower(name) }

// composed returns a name as in a column that treats the Unicode forms of a letter as equal.
func composed(name string) string { return strings.ReplaceAll(name, "e\u0301", "é") }

// unaccented returns a name as in a collation that ignores accents.
func unaccented(name string) string {
	return strings.NewReplacer("é", "e", "É", "E", "ß", "ss").Replace(name)
}

// trimmed returns a name as in a column that ignores trailing spaces.
func trimmed(name string) string { return strings.TrimRight(name, " ") }

// number returns a name as in a column that converts texts that look like numbers.
func number(name string) string {
	if strings.Trim(name, "0123456789") == "" && name != "" {
		return cmp.Or(strings.TrimLeft(name, "0"), "0")
	}
	return name
}

// short returns a name as in a column that truncates it.
func short(name string) string { return name[:min(len(name), 200)] }

func each(list []string, by func(string) string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = by(out[i])
	}
	return out
}

// commitsBy changes a copy of each commit before it is applied.
func commitsBy(change func(*store.Commit)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps, c.State, c.Spawn = slices.Clone(c.Steps), slices.Clone(c.State), slices.Clone(c.Spawn)
			change(c)
		})
	})
}

// demandsBy changes a copy of the demands of each claim.
func demandsBy(change func(*store.Demand)) func(*model.Store) store.Store {
	return wrap(reads(claimOf, func(p *store.ClaimParams) {
		p.Demands = slices.Clone(p.Demands)
		for i := range p.Demands {
			change(&p.Demands[i])
		}
	}, nil))
}

func filterBy(change func(*store.RunFilter)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		reads(listOf, func(p *store.ListParams) { change(&p.Filter) }, nil)(s)
		reads(countOf, func(p *store.CountParams) { change(&p.Filter) }, nil)(s)
	})
}

func createsBy(change func(*store.NewRun)) func(*model.Store) store.Store {
	return wrap(reads(createOf, func(p *store.CreateParams) {
		p.Runs = slices.Clone(p.Runs)
		for i := range p.Runs {
			change(&p.Runs[i])
		}
	}, nil))
}

// These mutants treat two names as one, each in one column and one method, or do not sort names by
// their bytes.
var nameMutants = []Mutant{
	{"listed-queue-folds-case", "", "List and Count find a queue in either case", filterBy(func(f *store.RunFilter) { f.Queue = fold(f.Queue) })},
	{"listed-workflow-without-accents", "", "List and Count find a workflow whatever its accents", filterBy(func(f *store.RunFilter) { f.Workflow = unaccented(f.Workflow) })},
	{"listed-external-id-is-trimmed", "", "List and Count find an external id without the space at its end", filterBy(func(f *store.RunFilter) { f.ExternalID = trimmed(f.ExternalID) })},
	{"failure-code-folds-case", "", "List and Count find a failure's code in either case", filterBy(func(f *store.RunFilter) { f.FailureCode = fold(f.FailureCode) })},
	{"failed-step-folds-case", "", "List and Count find a failed step in either case", filterBy(func(f *store.RunFilter) { f.FailedStep = fold(f.FailedStep) })},
	{"failure-text-is-a-pattern", "", "in the text of a failure that is looked for, % stands for any text", filterBy(func(f *store.RunFilter) {
		f.FailureText = strings.ReplaceAll(f.FailureText, "<%>", "")
	})},
	{"claimed-queue-folds-case", "", "a claim takes from a queue in either case", demandsBy(func(d *store.Demand) {
		d.Queue, d.MoreQueues = fold(d.Queue), each(d.MoreQueues, fold)
	})},
	{"claimed-queue-is-a-number", "", "a claim takes from queue 1 for queue 01", demandsBy(func(d *store.Demand) {
		d.Queue, d.MoreQueues = number(d.Queue), each(d.MoreQueues, number)
	})},
	{"claimed-workflow-folds-case", "", "a claim takes runs of a workflow in either case", demandsBy(func(d *store.Demand) { d.Workflows = each(d.Workflows, fold) })},
	{"claimed-workflow-is-composed", "", "a claim takes runs of a workflow in either form of its letters", demandsBy(func(d *store.Demand) { d.Workflows = each(d.Workflows, composed) })},
	{"claimed-queue-is-cut", "", "a claim reads the first 200 bytes of a queue's name", demandsBy(func(d *store.Demand) {
		d.Queue, d.MoreQueues = short(d.Queue), each(d.MoreQueues, short)
	})},
	{"purged-workflow-folds-case", "", "a purge of a workflow deletes those of its other cases", wrap(reads(purgeOf, func(p *store.PurgeParams) { p.Workflow = fold(p.Workflow) }, nil))},
	{"paused-queue-folds-case", "", "a pause of a queue is one of the queue in lower case", enters(entrance{pauseTarget: func(p *store.PauseTargetParams) { p.Queue = fold(p.Queue) }})},
	{"paused-workflow-without-accents", "", "a pause of a workflow is one of that without accents", enters(entrance{pauseTarget: func(p *store.PauseTargetParams) { p.Workflow = unaccented(p.Workflow) }})},
	{"created-external-id-is-trimmed", "", "external ids are kept without the space at their ends", createsBy(func(r *store.NewRun) {
		if t := trimmed(r.ExternalID); t != "" {
			r.ExternalID = t
		}
	})},
	{"created-suffix-folds-case", "", "suffixes are kept in lower case", createsBy(func(r *store.NewRun) { r.Suffix = fold(r.Suffix) })},
	{"found-suffix-is-composed", "", "Find takes the forms of a suffix's letters for one", wrap(reads(findOf, func(p *store.FindParams) { p.Suffix = composed(p.Suffix) }, nil))},
	{"signaled-external-id-folds-case", "", "a signal finds an external id in either case", wrap(reads(signalOf, func(p *store.SignalParams) {
		p.Signals = slices.Clone(p.Signals)
		for i := range p.Signals {
			p.Signals[i].ExternalID = fold(p.Signals[i].ExternalID)
		}
	}, nil))},

	{"state-key-read-in-lower-case", "", "GetState finds a key in either case", wrap(reads(stateOf, func(p *store.GetStateParams) { p.Keys = each(p.Keys, fold) }, nil))},
	{"committed-key-without-accents", "", "a commit writes a key without its accents", commitsBy(func(c *store.Commit) {
		for i := range c.State {
			c.State[i].Key = unaccented(c.State[i].Key)
		}
		slices.SortFunc(c.State, func(a, b store.StateWrite) int { return cmp.Compare(a.Key, b.Key) })
		c.State = slices.CompactFunc(c.State, func(a, b store.StateWrite) bool { return a.Key == b.Key })
	})},
	{"inbox-name-folds-case", "", "an inbox finds signals of a name in either case", wrap(reads(inboxOf, func(p *store.InboxParams) { p.Name = fold(p.Name) }, nil))},
	{"inbox-group-folds-case", "", "an inbox finds a group in either case", wrap(reads(inboxOf, func(p *store.InboxParams) { p.Group = fold(p.Group) }, nil))},
	{"children-group-is-composed", "", "Children takes the forms of a group's letters for one", wrap(reads(childrenOf, func(p *store.ChildrenParams) { p.Group = composed(p.Group) }, nil))},
	{"awaited-group-folds-case", "", "a sleep awaits a group in lower case", commitsBy(func(c *store.Commit) {
		if c.Transition != nil {
			c.Transition.Await = slices.Clone(c.Transition.Await)
			for i := range c.Transition.Await {
				c.Transition.Await[i].Group = fold(c.Transition.Await[i].Group)
			}
		}
	})},
	{"step-name-folds-case", "", "a step's name is kept in lower case, the first of several records", commitsBy(func(c *store.Commit) {
		foldSteps(c, func(k *store.StepKey) { k.Name = fold(k.Name) })
	})},
	{"branch-without-accents", "", "a branch is kept without its accents, the first of several records", commitsBy(func(c *store.Commit) {
		foldSteps(c, func(k *store.StepKey) { k.Branch = unaccented(k.Branch) })
	})},
	{"fork-before-folds-case", "", "a fork finds the step that it ends before in either case", wrap(reads(forkOf, func(p *store.ForkParams) {
		if p.Before != nil {
			k := *p.Before
			k.Name = fold(k.Name)
			p.Before = &k
		}
	}, nil))},
	{"retry-takes-branches-for-patterns", "", "a retry forgets every branch behind a step that failed in branch %", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Retry) && slices.ContainsFunc(c.Steps, func(r store.StepRecord) bool { return r.Branch == "%" && r.Status == store.StepFailed }) {
				s.Tamper(c.Lease.Run, func(r model.Row) { *r.Steps = nil })
			}
		})
	})},

	{"workflow-names-fold-case", "", "ListWorkflows finds a name in either case", wrap(reads(workflowsOf, func(p *store.ListWorkflowsParams) { p.Names = each(p.Names, fold) }, nil))},
	{"workflow-put-is-composed", "", "PutWorkflows takes the forms of a name's letters for one", enters(entrance{putWorkflows: func(p *store.PutWorkflowsParams) {
		p.Workflows = slices.Clone(p.Workflows)
		for i := range p.Workflows {
			p.Workflows[i].Name = composed(p.Workflows[i].Name)
		}
	}})},
	{"schedule-names-fold-case", "", "ListSchedules finds a name in either case", wrap(reads(schedulesOf, func(p *store.ListSchedulesParams) { p.Names = each(p.Names, fold) }, nil))},
	{"schedule-except-folds-case", "", "ListSchedules leaves out what is due in either case", wrap(reads(schedulesOf, nil, func(p *store.ListSchedulesParams, page *store.SchedulePage) {
		out := each(p.Except, fold)
		page.Schedules = slices.DeleteFunc(page.Schedules, func(s store.Schedule) bool { return slices.Contains(out, fold(s.Name)) })
	}))},
	{"fire-folds-case", "", "Fire finds a schedule in either case", wrap(reads(fireOf, func(p *store.FireParams) { p.Schedule = fold(p.Schedule) }, nil))},
	{"lock-folds-case", "", "a lock's name is kept in lower case", wrap(reads(lockOf, func(p *store.LockParams) { p.Name = fold(p.Name) }, nil))},
	{"lock-owner-folds-case", "", "a lock's owner is kept in lower case", wrap(reads(lockOf, func(p *store.LockParams) { p.Owner = fold(p.Owner) }, nil))},
	{"lock-namespace-folds-case", "", "a lock's namespace is kept in lower case", wrap(reads(lockOf, func(p *store.LockParams) { p.Namespace = fold(p.Namespace) }, nil))},
	{"schedules-namespace-without-accents", "", "ListSchedules finds a namespace whatever its accents", wrap(reads(schedulesOf, func(p *store.ListSchedulesParams) {
		if p.Cursor == "" {
			p.Namespace = unaccented(p.Namespace)
		}
	}, nil))},
	{"worker-put-folds-case", "", "a worker is put in lower case", enters(entrance{putWorker: func(p *store.PutWorkerParams) { p.Worker.ID = fold(p.Worker.ID) }})},
	{"extend-folds-the-worker", "", "an Extend compares workers in either case", wrap(func(s *faulty) {
		reads(extendOf, func(p *store.ExtendParams) {
			p.Leases = slices.Clone(p.Leases)
			for i := range p.Leases {
				if r, ok := s.row(p.Leases[i].Run); ok && fold(r.Worker) == fold(p.Leases[i].Worker) {
					p.Leases[i].Worker, p.Worker = r.Worker, r.Worker
				}
			}
		}, nil)(s)
	})},
	{"commit-folds-the-worker", "", "a commit compares workers in either case", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && fold(r.Worker) == fold(c.Lease.Worker) {
				c.Lease.Worker = r.Worker
			}
		})
	})},
	{"listed-actor-folds-case", "", "ListActions finds an actor in either case", enters(entrance{listActions: func(p *store.ListActionsParams) {
		if p.Cursor == "" {
			p.Actor = fold(p.Actor)
		}
	}})},

	{"state-sorted-in-lower-case", "P14", "GetState sorts keys whatever their case", wrap(reads(stateOf, nil, func(p *store.GetStateParams, got *[]store.StateEntry) {
		if p.Limit == 0 {
			slices.SortFunc(*got, func(a, b store.StateEntry) int { return cmp.Compare(fold(a.Key), fold(b.Key)) })
		}
	}))},
	{"groups-sorted-without-accents", "P14", "an inbox sorts groups whatever their accents", wrap(reads(inboxOf, nil, func(_ *store.InboxParams, in *store.Inbox) {
		slices.SortFunc(in.Groups, func(a, b store.Group) int { return cmp.Compare(unaccented(a.Name), unaccented(b.Name)) })
	}))},
	{"workers-sorted-by-utf-16", "P14", "ListWorkers sorts by UTF-16", wrap(reads(workersOf, nil, func(_ *store.ListWorkersParams, page *store.WorkerPage) {
		slices.SortFunc(page.Workers, func(a, b store.Worker) int {
			return slices.Compare(utf16.Encode([]rune(a.ID)), utf16.Encode([]rune(b.ID)))
		})
	}))},
	{"schedules-sorted-in-lower-case", "P14", "ListSchedules sorts names whatever their case", wrap(func(s *faulty) {
		list := s.listSchedules
		s.listSchedules = func(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
			page, err := list(ctx, p)
			if !p.Due {
				slices.SortFunc(page.Schedules, func(a, b store.Schedule) int { return cmp.Compare(fold(a.Name), fold(b.Name)) })
			}
			return page, err
		}
	})},
	{"counts-sorted-in-lower-case", "P14", "Count sorts queues whatever their case", wrap(reads(countOf, nil, func(_ *store.CountParams, rows *[]store.RunCount) {
		slices.SortStableFunc(*rows, func(a, b store.RunCount) int { return cmp.Compare(fold(a.Queue), fold(b.Queue)) })
	}))},
	{"waiting-sorted-in-lower-case", "P14", "a claim sorts the lanes that wait whatever their case", wrap(reads(claimOf, nil, func(_ *store.ClaimParams, got *store.Claimed) {
		slices.SortStableFunc(got.Waiting, func(a, b store.Waiting) int { return cmp.Compare(fold(a.Queue), fold(b.Queue)) })
	}))},
}

// foldSteps changes the keys of a commit's steps, and keeps the first record of each.
func foldSteps(c *store.Commit, change func(*store.StepKey)) {
	seen := map[store.StepKey]bool{}
	c.Steps = slices.DeleteFunc(c.Steps, func(r store.StepRecord) bool {
		change(&r.StepKey)
		known := seen[r.StepKey]
		seen[r.StepKey] = true
		return known
	})
	for i := range c.Steps {
		change(&c.Steps[i].StepKey)
	}
}
