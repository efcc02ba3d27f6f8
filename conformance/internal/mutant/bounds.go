package mutant

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

const noBound = 1 << 40

// claims changes the params of a claim and what is returned with each claimed run.
func claims(ask func(p *store.ClaimParams), bring func(p *store.ClaimParams, c *store.ClaimedRun, stored *store.Run)) func(*faulty) {
	return func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			asked := p
			if ask != nil {
				ask(&asked)
			}
			got, err := claim(ctx, asked)
			for i := range got.Runs {
				if stored, ok := s.row(got.Runs[i].Run.ID); ok && bring != nil {
					bring(&p, &got.Runs[i], &stored)
				}
			}
			return got, err
		}
	}
}

// reads changes the params of a read and its results.
func reads[P, R any](of func(s *faulty) *verb[P, R], ask func(p *P), bring func(p *P, got *R)) func(*faulty) {
	return func(s *faulty) {
		at := of(s)
		read := *at
		*at = func(ctx context.Context, p P) (R, error) {
			asked := p
			if ask != nil {
				ask(&asked)
			}
			got, err := read(ctx, asked)
			if bring != nil && err == nil {
				bring(&p, &got)
			}
			return got, err
		}
	}
}

func inboxOf(s *faulty) *verb[store.InboxParams, store.Inbox]           { return &s.inbox }
func stateOf(s *faulty) *verb[store.GetStateParams, []store.StateEntry] { return &s.getState }
func getOf(s *faulty) *verb[store.GetParams, []store.Run]               { return &s.get }
func childrenOf(s *faulty) *verb[store.ChildrenParams, store.ChildPage] { return &s.children }
func countOf(s *faulty) *verb[store.CountParams, []store.RunCount]      { return &s.count }
func listOf(s *faulty) *verb[store.ListParams, store.RunPage]           { return &s.list }
func schedulesOf(s *faulty) *verb[store.ListSchedulesParams, store.SchedulePage] {
	return &s.listSchedules
}
func workersOf(s *faulty) *verb[store.ListWorkersParams, store.WorkerPage] { return &s.listWorkers }
func workflowsOf(s *faulty) *verb[store.ListWorkflowsParams, store.WorkflowPage] {
	return &s.listWorkflows
}
func pausedOf(s *faulty) *verb[store.ListPausedParams, store.PausedPage] { return &s.listPaused }

// ends reports whether a page has fewer rows than were asked for.
func ends(rows, asked int) bool {
	limit, _ := store.Page(asked)
	return rows < limit
}

func tell(runs *[]store.Run) {
	for i := range *runs {
		(*runs)[i].Omitted = false
	}
}

func all(runs *[]store.Run, n int) {
	for i := range *runs {
		if r := &(*runs)[i]; len(r.Input)+len(r.Output) > n {
			r.Input, r.Output, r.Meta, r.Failure, r.Omitted = nil, nil, nil, nil, true
		}
	}
}

// refuses fails a call of several items as too large from a number of bytes on.
func refuses[T any](items []T, size func(*T) int, most int) error {
	total := 0
	for i := range items {
		total += size(&items[i])
	}
	if len(items) > 1 && total > most {
		return &store.TooLargeError{Field: "a call", Size: total, Limit: most}
	}
	return nil
}

// These mutants break bounds in bytes and in number, and the marks that say that a bound cut
// something off.
var boundMutants = []Mutant{
	{"claim-without-a-bound", "P12", "a claim heeds no MaxBytes", wrap(claims(func(p *store.ClaimParams) { p.MaxBytes = noBound }, nil))},
	{"claim-cuts-the-first-input", "P12", "the one run that a bounded claim brings comes without an input over the bound", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) {
		if p.MaxBytes > 0 && len(c.Run.Input) > p.MaxBytes {
			c.Run.Input = nil
		}
	}))},
	{"claim-hides-more-signals", "P12", "a claim never says that there are more signals", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) { c.Inbox.MoreSignals = p.Bare }))},
	{"claim-hides-more-state", "P12", "a claim never says that there is more state", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) { c.Inbox.MoreState = p.Bare }))},
	{"claim-hides-more-groups", "P9", "a claim never says that there are more groups", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) { c.Inbox.MoreGroups = p.Bare }))},
	{"claim-brings-every-step", "P12", "a claim of small steps brings more than MaxPage of them", wrap(func(s *faulty) {
		claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) {
			if !p.Bare && p.MaxBytes == 0 {
				c.Steps, c.MoreSteps = s.steps(c.Run.ID), false
			}
		})(s)
	})},
	{"bare-claim-brings-input", "P12", "a bare claim brings the input", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, stored *store.Run) {
		if p.Bare {
			c.Run.Input = stored.Input
		}
	}))},
	{"bare-claim-is-not-told", "P12", "a bare claim does not say that it left things out", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) { c.Run.Omitted = false }))},
	{"bare-claim-hides-steps", "P12", "a bare claim does not say that there are steps", wrap(claims(nil, func(p *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) {
		c.MoreSteps = c.MoreSteps && !p.Bare
	}))},
	{"bare-claim-is-bounded", "P12", "a bare claim is bounded by the inputs that it does not bring", wrap(claims(func(p *store.ClaimParams) {
		if p.Bare && p.MaxBytes > 0 {
			p.Max = 1
		}
	}, nil))},

	{"inbox-without-a-bound", "P12", "an inbox heeds no MaxBytes", wrap(reads(inboxOf, func(p *store.InboxParams) { p.MaxBytes = 0 }, nil))},
	{"inbox-stops-at-a-large-signal", "P12", "an inbox whose first signal is over MaxBytes brings none", wrap(reads(inboxOf, nil, func(p *store.InboxParams, in *store.Inbox) {
		if p.MaxBytes > 0 && len(in.Signals) > 0 && len(in.Signals[0].Payload) > p.MaxBytes {
			in.Signals, in.MoreSignals = nil, true
		}
	}))},
	{"inbox-stops-at-a-large-value", "P12", "an inbox whose first value is over MaxBytes brings none", wrap(reads(inboxOf, nil, func(p *store.InboxParams, in *store.Inbox) {
		if p.MaxBytes > 0 && len(in.State) > 0 && len(in.State[0].Value) > p.MaxBytes {
			in.State, in.MoreState = nil, true
		}
	}))},
	{"inbox-hides-more", "P12", "an inbox never says that there is more", wrap(reads(inboxOf, nil, func(_ *store.InboxParams, in *store.Inbox) {
		in.MoreSignals, in.MoreState = false, false
	}))},
	{"inbox-of-every-name", "P17", "an inbox of one name brings all signals", wrap(reads(inboxOf, func(p *store.InboxParams) { p.Name = "" }, nil))},
	{"inbox-picks-names-of-a-page", "P17", "an inbox of one name looks for it among the first MaxPage signals", wrap(reads(inboxOf, func(p *store.InboxParams) { p.Name = "" }, func(p *store.InboxParams, in *store.Inbox) {
		in.Signals = slices.DeleteFunc(in.Signals, func(s store.Signal) bool { return p.Name != "" && s.Name != p.Name })
	}))},
	{"inbox-begins-anew", "P17", "an inbox heeds no After", wrap(reads(inboxOf, func(p *store.InboxParams) { p.After = 0 }, nil))},
	{"inbox-page-repeats-a-signal", "P17", "an inbox begins with the signal at After", wrap(reads(inboxOf, func(p *store.InboxParams) { p.After = max(0, p.After-1) }, nil))},
	{"inbox-page-skips-a-signal", "P17", "an inbox begins with the second signal behind After", wrap(reads(inboxOf, func(p *store.InboxParams) {
		if p.After > 0 {
			p.After++
		}
	}, nil))},
	{"inbox-takes-a-full-page-for-cut", "P17", "an inbox of exactly MaxPage signals says that there are more", wrap(reads(inboxOf, nil, func(_ *store.InboxParams, in *store.Inbox) {
		in.MoreSignals = in.MoreSignals || len(in.Signals) == store.MaxPage
	}))},
	{"inbox-always-reads-state", "", "an inbox heeds no NoState", wrap(reads(inboxOf, func(p *store.InboxParams) { p.NoState = false }, nil))},
	{"inbox-of-every-group", "P9", "an inbox of one group brings all", wrap(reads(inboxOf, func(p *store.InboxParams) { p.Group = "" }, nil))},
	{"inbox-begins-groups-anew", "P9", "an inbox heeds no AfterGroup", wrap(reads(inboxOf, func(p *store.InboxParams) { p.AfterGroup = "" }, nil))},
	{"inbox-hides-more-groups", "P9", "an inbox never says that there are more groups", wrap(reads(inboxOf, nil, func(_ *store.InboxParams, in *store.Inbox) { in.MoreGroups = false }))},

	{"state-begins-anew", "P14", "GetState heeds no After", wrap(reads(stateOf, func(p *store.GetStateParams) { p.After = "" }, nil))},
	{"state-without-a-limit", "P14", "GetState heeds no Limit", wrap(reads(stateOf, func(p *store.GetStateParams) { p.Limit = 0 }, nil))},
	{"state-without-a-bound", "P14", "GetState heeds no MaxBytes", wrap(reads(stateOf, func(p *store.GetStateParams) { p.MaxBytes = 0 }, nil))},
	{"state-stops-at-a-large-value", "P14", "GetState whose first value is over MaxBytes brings none, which looks like the end", wrap(reads(stateOf, nil, func(p *store.GetStateParams, got *[]store.StateEntry) {
		if p.MaxBytes > 0 && len(*got) > 0 && len((*got)[0].Value) > p.MaxBytes {
			*got = nil
		}
	}))},
	{"state-ends-at-a-page", "P14", "GetState without a bound brings MaxPage entries", wrap(reads(stateOf, nil, func(_ *store.GetStateParams, got *[]store.StateEntry) {
		*got = (*got)[:min(len(*got), store.MaxPage)]
	}))},

	{"get-without-a-bound", "P12", "Get heeds no MaxBytes", wrap(reads(getOf, func(p *store.GetParams) { p.MaxBytes = 0 }, nil))},
	{"get-hides-what-it-omits", "P12", "Get does not say what it left out", wrap(reads(getOf, nil, func(_ *store.GetParams, got *[]store.Run) { tell(got) }))},
	{"get-omits-the-first", "P12", "Get leaves out the first run, too, where that is over MaxBytes", wrap(reads(getOf, nil, func(p *store.GetParams, got *[]store.Run) {
		if p.MaxBytes > 0 {
			all(got, p.MaxBytes)
		}
	}))},
	{"children-without-a-bound", "P12", "Children heeds no MaxBytes", wrap(reads(childrenOf, func(p *store.ChildrenParams) { p.MaxBytes = 0 }, nil))},
	{"children-hide-what-is-omitted", "P12", "Children does not say what it left out", wrap(reads(childrenOf, nil, func(_ *store.ChildrenParams, got *store.ChildPage) { tell(&got.Children) }))},
	{"children-omit-the-first", "P12", "Children leaves out the first one, too, where that is over MaxBytes", wrap(reads(childrenOf, nil, func(p *store.ChildrenParams, got *store.ChildPage) {
		if p.MaxBytes > 0 {
			all(&got.Children, p.MaxBytes)
		}
	}))},
	{"children-end-at-a-full-page", "P14", "a full page of children has no Next", wrap(reads(childrenOf, nil, func(_ *store.ChildrenParams, page *store.ChildPage) { page.Next = 0 }))},
	{"children-never-end", "P14", "the last page of children has a Next", wrap(reads(childrenOf, nil, func(p *store.ChildrenParams, page *store.ChildPage) { page.Next = max(page.Next, p.After, 1) }))},
	{"list-ends-at-its-bound", "P14", "a page of List that its failures have ended looks like the last one", wrap(reads(listOf, nil, func(p *store.ListParams, page *store.RunPage) {
		if limit, _ := store.Page(p.Limit); len(page.Runs) < limit {
			page.Next = ""
		}
	}))},
	{"list-ends-at-its-scans", "P14", "a page of List that has looked at MaxScan runs looks like the last one", wrap(reads(listOf, nil, func(p *store.ListParams, page *store.RunPage) {
		if limit, _ := store.Page(p.Limit); p.MaxScan > 0 && len(page.Runs) < limit {
			page.Next = ""
		}
	}))},
	{"list-goes-on-late", "P14", "the page behind one that has looked at MaxScan runs begins a run late", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			page, err := list(ctx, p)
			if limit, _ := store.Page(p.Limit); page.Next == "" || len(page.Runs) == limit {
				return page, err
			}
			all, next := p, p
			next.Cursor = page.Next
			at, _ := next.Position()
			all.Filter, all.Limit = store.RunFilter{}, 1
			all.Cursor = all.NextCursor(at)
			if missed, _ := list(ctx, all); len(missed.Runs) > 0 {
				page.Next = p.CursorBehind(&missed.Runs[0])
			}
			return page, err
		}
	})},
	{"count-looks-at-all", "", "Count heeds no MaxScan", wrap(reads(countOf, func(p *store.CountParams) { p.MaxScan = store.ScanAll }, nil))},
	{"count-hides-its-caps", "", "Count does not say where it has stopped", wrap(reads(countOf, nil, func(_ *store.CountParams, rows *[]store.RunCount) {
		for i := range *rows {
			(*rows)[i].Capped = false
		}
	}))},
	{"count-hides-empty-caps", "", "Count does not say that it has stopped before it met a run", wrap(reads(countOf, nil, func(_ *store.CountParams, rows *[]store.RunCount) {
		*rows = slices.DeleteFunc(*rows, func(r store.RunCount) bool { return r.Count == 0 })
	}))},
	{"count-caps-every-status", "", "Count that has stopped at one status says so of all", wrap(reads(countOf, nil, func(_ *store.CountParams, rows *[]store.RunCount) {
		capped := slices.ContainsFunc(*rows, func(r store.RunCount) bool { return r.Capped })
		for i := range *rows {
			(*rows)[i].Capped = capped
		}
	}))},
	{"schedules-end-at-their-bound", "P14", "a page of ListSchedules that its inputs have ended looks like the last one", wrap(reads(schedulesOf, nil, func(p *store.ListSchedulesParams, page *store.SchedulePage) {
		if limit, _ := store.Page(p.Limit); len(page.Schedules) < limit {
			page.Next = ""
		}
	}))},

	{"workers-without-a-bound", "P14", "a page of ListWorkers heeds no PageBytes", wrap(func(s *faulty) {
		list := s.listWorkers
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			for err == nil && page.Next != "" && ends(len(page.Workers), p.Limit) {
				limit, _ := store.Page(p.Limit)
				rest := p
				rest.Cursor, rest.Limit = page.Next, limit-len(page.Workers)
				var more store.WorkerPage
				more, err = list(ctx, rest)
				page.Workers, page.Next = append(page.Workers, more.Workers...), more.Next
			}
			return page, err
		}
	})},
	{"workers-end-at-their-bound", "P14", "a page of ListWorkers that its texts have ended looks like the last one", wrap(reads(workersOf, nil, func(p *store.ListWorkersParams, page *store.WorkerPage) {
		if ends(len(page.Workers), p.Limit) {
			page.Next = ""
		}
	}))},
	{"workers-end-at-a-page", "P14", "the first page of ListWorkers looks like the last one", wrap(reads(workersOf, nil, func(_ *store.ListWorkersParams, page *store.WorkerPage) { page.Next = "" }))},
	{"workers-begin-anew", "P14", "ListWorkers heeds no Cursor", wrap(reads(workersOf, func(p *store.ListWorkersParams) { p.Cursor = "" }, nil))},
	{"workers-stop-at-a-large-one", "P14", "a page of ListWorkers whose first worker is over PageBytes is empty", wrap(reads(workersOf, nil, func(_ *store.ListWorkersParams, page *store.WorkerPage) {
		if len(page.Workers) > 0 && len(page.Workers[0].Host) > store.PageBytes {
			page.Workers, page.Next = nil, ""
		}
	}))},
	{"workflows-without-a-bound", "P14", "a page of ListWorkflows heeds no PageBytes", wrap(func(s *faulty) {
		list := s.listWorkflows
		s.listWorkflows = func(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
			page, err := list(ctx, p)
			for err == nil && page.Next != "" && ends(len(page.Workflows), p.Limit) {
				limit, _ := store.Page(p.Limit)
				rest := p
				rest.Cursor, rest.Limit = page.Next, limit-len(page.Workflows)
				var more store.WorkflowPage
				more, err = list(ctx, rest)
				page.Workflows, page.Next = append(page.Workflows, more.Workflows...), more.Next
			}
			return page, err
		}
	})},
	{"workflows-end-at-their-bound", "P14", "a page of ListWorkflows that its metas have ended looks like the last one", wrap(reads(workflowsOf, nil, func(p *store.ListWorkflowsParams, page *store.WorkflowPage) {
		if ends(len(page.Workflows), p.Limit) {
			page.Next = ""
		}
	}))},
	{"workflows-begin-anew", "P14", "ListWorkflows heeds no Cursor", wrap(reads(workflowsOf, func(p *store.ListWorkflowsParams) { p.Cursor = "" }, nil))},
	{"workflows-go-on-among-all", "P14", "a later page of ListWorkflows heeds no Names", wrap(reads(workflowsOf, func(p *store.ListWorkflowsParams) {
		if after, err := p.Position(); err == nil && after != "" {
			all := store.ListWorkflowsParams{Namespace: p.Namespace, Limit: p.Limit}
			all.Cursor = all.NextCursor(after)
			*p = all
		}
	}, nil))},
	{"paused-ends-at-a-page", "P14", "the first page of ListPaused looks like the last one", wrap(reads(pausedOf, nil, func(_ *store.ListPausedParams, page *store.PausedPage) { page.Next = "" }))},
	{"paused-without-a-limit", "P14", "ListPaused heeds no Limit", wrap(reads(pausedOf, func(p *store.ListPausedParams) {
		if _, err := store.Page(p.Limit); err == nil {
			p.Limit = store.MaxPage
		}
	}, nil))},
	{"paused-goes-on-by-queue-alone", "P14", "a page of ListPaused goes on behind the queue of the one before, and misses workflows", wrap(func(s *faulty) {
		list := s.listPaused
		s.listPaused = func(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
			after, err := p.Position()
			page, failed := list(ctx, p)
			if err == nil && p.Cursor != "" {
				page.Paused = slices.DeleteFunc(page.Paused, func(t store.PausedTarget) bool { return t.Queue == after.Queue })
			}
			return page, failed
		}
	})},

	{"commits-refused-below-call-bytes", "P12", "a call of commits with CallBytes of payloads is refused", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			if err := refuses(p.Commits, (*store.Commit).Size, store.CallBytes-1); err != nil {
				return nil, err
			}
			return commit(ctx, p)
		}
	})},
	{"runs-refused-below-call-bytes", "P12", "a call of new runs with CallBytes of payloads is refused", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			if err := refuses(p.Runs, (*store.NewRun).Size, store.CallBytes-1); err != nil {
				return nil, err
			}
			return create(ctx, p)
		}
	})},
	{"signals-refused-below-call-bytes", "P12", "a call of signals with CallBytes of payloads is refused", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			if err := refuses(p.Signals, (*store.NewSignal).Size, store.CallBytes-1); err != nil {
				return nil, err
			}
			return signal(ctx, p)
		}
	})},
	{"negative-index-is-none", "P16", "a step of a negative index is stored with index 0", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				c.Steps[i].Index = max(c.Steps[i].Index, 0)
			}
		})
	})},
	{"attempts-in-32-bits", "P16", "a step's attempt is cut to 32 bits as it is stored", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				c.Steps[i].Attempt &= 1<<31 - 1
			}
		})
	})},
}
