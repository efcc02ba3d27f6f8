package storetier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// a call of the store, with a name for failures.
type call struct {
	name string
	do   func() error
}

// second drops the value of a call.
func second[T any](_ T, err error) error { return err }

// calls has one valid call of every method that takes a namespace. If an item has an error of its
// own, the call returns it.
func (c *C) calls(ctx context.Context, ns string, run store.ID, l store.Lease) []call {
	s, r, now := c.s, fill(store.NewRun{}), c.now
	sig := store.NewSignal{ID: store.NewID(), Run: run, Name: "n"}
	return []call{
		{"Create", func() error {
			return second(s.Create(ctx, store.CreateParams{Namespace: ns, Runs: []store.NewRun{r}, Now: now}))
		}},
		{"Get", func() error { return second(s.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{run}})) }},
		{"Find", func() error { return second(s.Find(ctx, store.FindParams{Namespace: ns, ExternalID: "e"})) }},
		{"List", func() error { return second(s.List(ctx, store.ListParams{Namespace: ns})) }},
		{"Count", func() error { return second(s.Count(ctx, store.CountParams{Namespace: ns})) }},
		{"Children", func() error {
			return second(s.Children(ctx, store.ChildrenParams{Namespace: ns, Parent: run, Group: "g"}))
		}},
		{"Steps", func() error { return second(s.Steps(ctx, store.StepsParams{Namespace: ns, Run: run})) }},
		{"Cancel", func() error {
			return second(s.Cancel(ctx, store.CancelParams{Namespace: ns, IDs: []store.ID{run}, Now: now}))
		}},
		{"Pause", func() error {
			return second(s.Pause(ctx, store.PauseParams{Namespace: ns, IDs: []store.ID{run}, Now: now}))
		}},
		{"Restart", func() error {
			return itemErr(s.Restart(ctx, store.RestartParams{Namespace: ns, IDs: []store.ID{run}, Now: now}))
		}},
		{"Fork", func() error {
			return second(s.Fork(ctx, store.ForkParams{Namespace: ns, ID: run, New: store.NewID(), Now: now}))
		}},
		{"Purge", func() error { return second(s.Purge(ctx, store.PurgeParams{Namespace: ns, Now: now})) }},
		{"Claim", func() error {
			p := c.claimParams(store.ClaimParams{})
			p.Namespace = ns
			return second(s.Claim(ctx, p))
		}},
		{"Extend", func() error {
			return second(s.Extend(ctx, store.ExtendParams{Namespace: ns, Worker: aWorker, Leases: []store.Lease{l}, LeaseFor: aLease, Now: now}))
		}},
		{"Commit", func() error {
			return second(s.Commit(ctx, store.CommitParams{Namespace: ns, Commits: []store.Commit{{Lease: l, Seq: 1, Transition: complete("")}}, Now: now}))
		}},
		{"Signal", func() error {
			return second(s.Signal(ctx, store.SignalParams{Namespace: ns, Signals: []store.NewSignal{sig}, Now: now}))
		}},
		{"SetState", func() error {
			return second(s.SetState(ctx, store.SetStateParams{Namespace: ns, Run: run, Writes: []store.StateWrite{{Key: "k"}}, Now: now}))
		}},
		{"GetState", func() error { return second(s.GetState(ctx, store.GetStateParams{Namespace: ns, Run: run})) }},
		{"Inbox", func() error { return second(s.Inbox(ctx, store.InboxParams{Namespace: ns, Run: run})) }},
		{"PutWorker", func() error {
			return s.PutWorker(ctx, store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Status: store.Online, TTL: time.Minute}, Now: now})
		}},
		{"RemoveWorker", func() error { return s.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: ns, ID: "w"}) }},
		{"ListWorkers", func() error { return second(s.ListWorkers(ctx, store.ListWorkersParams{Namespace: ns, Now: now})) }},
		{"AskWorkers", func() error {
			return second(s.AskWorkers(ctx, store.AskWorkersParams{Namespace: ns, Silent: time.Minute, Now: now}))
		}},
		{"PutWorkflows", func() error {
			return s.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: ns, Workflows: []store.Workflow{{Name: "a", Queue: "q"}}, Now: now})
		}},
		{"ListWorkflows", func() error { return second(s.ListWorkflows(ctx, store.ListWorkflowsParams{Namespace: ns})) }},
		{"PauseTarget", func() error {
			return s.PauseTarget(ctx, store.PauseTargetParams{Namespace: ns, Queue: "paused", Now: now})
		}},
		{"ListPaused", func() error { return second(s.ListPaused(ctx, store.ListPausedParams{Namespace: ns})) }},
		{"Lock", func() error {
			return second(s.Lock(ctx, store.LockParams{Namespace: ns, Name: "l", Owner: "o", For: time.Minute, Now: now}))
		}},
		{"PutSchedule", func() error {
			return second(s.PutSchedule(ctx, store.PutScheduleParams{Namespace: ns, Schedule: c.schedule("s"), Now: now}))
		}},
		{"DeleteSchedule", func() error { return s.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: ns, Name: "s"}) }},
		{"ListSchedules", func() error { return second(s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: ns, Now: now})) }},
		{"Fire", func() error {
			return second(s.Fire(ctx, store.FireParams{Namespace: ns, Schedule: "s", At: now, Now: now}))
		}},
		{"ListFirings", func() error { return second(s.ListFirings(ctx, store.ListFiringsParams{Namespace: ns, Schedule: "s"})) }},
	}
}

// badNames returns invalid names.
func badNames() map[string]string {
	return map[string]string{
		"an empty name": "", "a name of 256 bytes": strings.Repeat("n", store.MaxName+1), "no UTF-8": "a\xff", "space before": " a", "space behind": "a\t",
		"a newline within": "a\nb", "a zero byte": "a\x00b",
	}
}

var errorCases = []Case{
	{"errors/unknown-run-is-not-found", "P16", "every method that reads or changes one thing returns ErrNotFound if it does not exist", func(c *C) {
		id := store.NewID()
		skip := map[string]bool{ // other cases test these
			"Create": true, "Get": true, "List": true, "Count": true, "Children": true, "Purge": true, "Claim": true, "Extend": true, "Commit": true, "Cancel": true,
			"Pause": true, "Signal": true, "PutWorker": true, "RemoveWorker": true, "ListWorkers": true, "AskWorkers": true, "PutWorkflows": true, "ListWorkflows": true,
			"PauseTarget": true, "ListPaused": true, "Lock": true, "PutSchedule": true, "ListSchedules": true, "DeleteSchedule": true, "Fire": true, "ListFirings": true,
		}
		for _, call := range c.calls(c.ctx, c.ns, id, store.Lease{Run: id, Worker: aWorker, Epoch: 1}) {
			if !skip[call.name] {
				c.fails(call.name, call.do(), store.ErrNotFound)
			}
		}
		c.fails("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "none"}), store.ErrNotFound)
		c.fails("Cancel's item", c.tryCancel(id)[0].Err, store.ErrNotFound)
		c.fails("Pause's item", c.tryPause(false, id)[0].Err, store.ErrNotFound)
		c.fails("Signal's item", c.signals(store.NewSignal{ID: store.NewID(), Run: id, Name: "n"})[0].Err, store.ErrNotFound)
	}},
	{"errors/invalid-params", "P16", "an invalid request is ErrInvalid, and an *InvalidError names the field", func(c *C) {
		bad := func(what string, err error) {
			c.Helper()
			c.fails(what, err, store.ErrInvalid)
			var e *store.InvalidError
			if errors.As(err, &e) && (e.Field == "" || e.Reason == "") {
				c.Errorf("%s: saw %+v, expected a field and a reason", what, *e)
			}
		}
		for name, r := range map[string]store.NewRun{
			"a priority too high":            {ID: store.NewID(), Workflow: "a", Queue: "q", Priority: store.MaxPriority + 1},
			"a priority too low":             {ID: store.NewID(), Workflow: "a", Queue: "q", Priority: store.MinPriority - 1},
			"no ID":                          {Workflow: "a", Queue: "q"},
			"a suffix without external id":   {ID: store.NewID(), Workflow: "a", Queue: "q", Suffix: "s"},
			"a long external id":             {ID: store.NewID(), Workflow: "a", Queue: "q", ExternalID: strings.Repeat("e", store.MaxExternalID+1)},
			"an external id of no UTF-8":     {ID: store.NewID(), Workflow: "a", Queue: "q", ExternalID: "\xff"},
			"a group":                        {ID: store.NewID(), Workflow: "a", Queue: "q", Group: "g", Ordinal: 1},
			"a negative delay":               {ID: store.NewID(), Workflow: "a", Queue: "q", After: -1},
			"a negative timeout":             {ID: store.NewID(), Workflow: "a", Queue: "q", Timeout: -1},
			"a lease without a worker":       {ID: store.NewID(), Workflow: "a", Queue: "q", LeaseFor: time.Minute},
			"a worker without a lease":       {ID: store.NewID(), Workflow: "a", Queue: "q", Worker: "w"},
			"a leased run that starts later": {ID: store.NewID(), Workflow: "a", Queue: "q", Worker: "w", LeaseFor: time.Minute, After: 1},
		} {
			bad("a run with "+name, c.creates(r)[0].Err)
		}
		run := c.start()
		child := func(change func(*store.NewRun)) store.Commit {
			k := kid(1)
			change(&k)
			return store.Commit{Spawn: []store.NewRun{k}}
		}
		a, b := step(1, "a", ""), step(1, "a", "")
		a.Kind, b.Occurrence = 0, 0
		for name, cm := range map[string]store.Commit{
			"a step without a kind":           {Steps: []store.StepRecord{a}},
			"a step without an occurrence":    {Steps: []store.StepRecord{b}},
			"a step without a position":       {Steps: []store.StepRecord{step(0, "a", "")}},
			"a step recorded twice":           {Steps: []store.StepRecord{step(1, "a", ""), step(2, "a", "")}},
			"a transition without a kind":     {Transition: &store.Transition{}},
			"a failure without a failure":     {Transition: &store.Transition{Kind: store.FailRun}},
			"a failure with an output":        {Transition: &store.Transition{Kind: store.FailRun, Failure: &store.Failure{}, Output: []byte("x")}},
			"a completion with a time":        {Transition: &store.Transition{Kind: store.CompleteRun, After: 1}},
			"a retry that awaits":             {Transition: &store.Transition{Kind: store.Retry, Await: []store.Await{allOf}}},
			"a negative sleep":                {Transition: sleepFor(-1)},
			"an await of less than none":      {Transition: sleepAwait(store.Await{Group: "g", Open: -1})},
			"a child with an external id":     child(func(k *store.NewRun) { k.ExternalID = "e" }),
			"a child with a lease":            child(func(k *store.NewRun) { k.Worker, k.LeaseFor = "w", time.Minute }),
			"a child without an ordinal":      child(func(k *store.NewRun) { k.Ordinal = 0 }),
			"an ordinal without a group":      child(func(k *store.NewRun) { k.Group = "" }),
			"a child of unknown close policy": child(func(k *store.NewRun) { k.OnClose = 9 }),
		} {
			cm.Lease, cm.Seq = run.Lease, 1
			bad("a commit with "+name, c.tryCommit(cm).Err)
		}
		c.eq("the run", c.get(run.Run.ID), run.Run)
		id, ns := run.Run.ID, c.ns
		for name, sig := range map[string]store.NewSignal{
			"no ID": {Run: id, Name: "n"}, "no receiver": {ID: store.NewID(), Name: "n"}, "two receivers": {ID: store.NewID(), Run: id, ExternalID: "e", Name: "n"},
		} {
			bad("a signal with "+name, c.signals(sig)[0].Err)
		}
		demands := []store.Demand{demand(aQueue, 1)}
		for name, err := range map[string]error{
			"a claim without a lease duration": second(c.s.Claim(c.ctx, store.ClaimParams{Namespace: ns, Worker: "w", Demands: demands, Now: c.now})),
			"a claim without a worker":         second(c.s.Claim(c.ctx, store.ClaimParams{Namespace: ns, LeaseFor: aLease, Demands: demands, Now: c.now})),
			"a claim of fewer than none":       second(c.s.Claim(c.ctx, store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: aLease, Max: -1, Demands: demands, Now: c.now})),
			"a demand of fewer than none":      second(c.s.Claim(c.ctx, store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: aLease, Demands: []store.Demand{demand(aQueue, -1)}, Now: c.now})),
			"an extension of no time":          second(c.s.Extend(c.ctx, store.ExtendParams{Namespace: ns, Worker: "w", Now: c.now})),
			"a page of fewer than none":        second(c.s.List(c.ctx, store.ListParams{Namespace: ns, Limit: -1})),
			"a page over MaxPage":              second(c.s.List(c.ctx, store.ListParams{Namespace: ns, Limit: store.MaxPage + 1})),
			"steps over MaxPage":               second(c.s.Steps(c.ctx, store.StepsParams{Namespace: ns, Run: id, Limit: store.MaxPage + 1})),
			"children over MaxPage":            second(c.s.Children(c.ctx, store.ChildrenParams{Namespace: ns, Parent: id, Group: "g", Limit: store.MaxPage + 1})),
			"schedules over MaxPage":           second(c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: ns, Limit: store.MaxPage + 1})),
			"workers over MaxPage":             second(c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: ns, Limit: store.MaxPage + 1, Now: c.now})),
			"workflows over MaxPage":           second(c.s.ListWorkflows(c.ctx, store.ListWorkflowsParams{Namespace: ns, Limit: store.MaxPage + 1})),
			"pauses over MaxPage":              second(c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: ns, Limit: store.MaxPage + 1})),
			"firings over MaxPage":             second(c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: ns, Schedule: "s", Limit: store.MaxPage + 1})),
			"a status that is none":            second(c.s.List(c.ctx, store.ListParams{Namespace: ns, Filter: store.RunFilter{Statuses: []store.Status{99}}})),
			"a count of a status that is none": second(c.s.Count(c.ctx, store.CountParams{Namespace: ns, Filter: store.RunFilter{Statuses: []store.Status{0}}})),
			"a purge of live runs":             second(c.s.Purge(c.ctx, store.PurgeParams{Namespace: ns, Statuses: []store.Status{store.Running}, Now: c.now})),
			"a purge of negative age":          second(c.s.Purge(c.ctx, store.PurgeParams{Namespace: ns, OlderThan: -1, Now: c.now})),
			"a find of nothing":                second(c.s.Find(c.ctx, store.FindParams{Namespace: ns})),
			"a fork without an ID":             second(c.s.Fork(c.ctx, store.ForkParams{Namespace: ns, ID: id, Now: c.now})),
			"a worker without a TTL":           c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Status: store.Online}, Now: c.now}),
			"a worker put as offline":          c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Status: store.Offline, TTL: 1}, Now: c.now}),
			"a worker of negative answers":     c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Status: store.Online, TTL: 1, Answers: -1}, Now: c.now}),
			"a question of no silence":         second(c.s.AskWorkers(c.ctx, store.AskWorkersParams{Namespace: ns, Now: c.now})),
			"a pause of nothing":               c.s.PauseTarget(c.ctx, store.PauseTargetParams{Namespace: ns, Now: c.now}),
			"a pause of queue and workflow":    c.s.PauseTarget(c.ctx, store.PauseTargetParams{Namespace: ns, Queue: "q", Workflow: "a", Now: c.now}),
			"a lock of negative time":          second(c.s.Lock(c.ctx, store.LockParams{Namespace: ns, Name: "l", Owner: "o", For: -1, Now: c.now})),
			"a firing without a time":          second(c.s.Fire(c.ctx, store.FireParams{Namespace: ns, Schedule: "s", Now: c.now})),
			"a next fire time before the last": second(c.s.Fire(c.ctx, store.FireParams{Namespace: ns, Schedule: "s", At: c.now, Next: c.now, Now: c.now})),
		} {
			bad(name, err)
		}
	}},
	{"errors/names", "P16", "a name has 1 to 255 bytes of UTF-8 without control characters or space at its ends; any other name is ErrInvalid", func(c *C) {
		run := c.start()
		for what, n := range badNames() {
			for _, call := range c.calls(c.ctx, n, run.Run.ID, run.Lease) {
				c.fails(call.name+" with "+what+" as namespace", call.do(), store.ErrInvalid)
			}
			s, b := step(1, n, ""), step(1, "a", "")
			b.Branch = n
			commits := map[string]store.Commit{
				"step": {Steps: []store.StepRecord{s}}, "state key": {State: []store.StateWrite{{Key: n}}},
				"child's workflow": {Spawn: []store.NewRun{{ID: store.NewID(), Workflow: n, Queue: "q"}}}, "awaited group": {Transition: sleepAwait(store.Await{Group: n})},
			}
			if n != "" { // the empty name is a valid branch and group
				commits["branch"] = store.Commit{Steps: []store.StepRecord{b}}
				commits["group"] = store.Commit{Spawn: []store.NewRun{{ID: store.NewID(), Workflow: "a", Queue: "q", Group: n, Ordinal: 1}}}
			}
			for field, cm := range commits {
				cm.Lease, cm.Seq = run.Lease, 1
				c.fails("Commit with "+what+" as "+field, c.tryCommit(cm).Err, store.ErrInvalid)
			}
			id := run.Run.ID
			sched := func(change func(s *store.Schedule)) error {
				s := c.schedule("s")
				change(&s)
				return second(c.s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: s, Now: c.now}))
			}
			for field, err := range map[string]error{
				"workflow of a run":      c.creates(store.NewRun{ID: store.NewID(), Workflow: n, Queue: "q"})[0].Err,
				"queue of a run":         c.creates(store.NewRun{ID: store.NewID(), Workflow: "a", Queue: n})[0].Err,
				"signal":                 c.signals(store.NewSignal{ID: store.NewID(), Run: id, Name: n})[0].Err,
				"state key":              second(c.trySetState(id, store.StateWrite{Key: n})),
				"claiming worker":        second(c.s.Claim(c.ctx, store.ClaimParams{Namespace: c.ns, Worker: n, LeaseFor: aLease, Now: c.now})),
				"extending worker":       second(c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: n, LeaseFor: aLease, Now: c.now})),
				"worker":                 c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: c.ns, Worker: store.Worker{ID: n, Status: store.Online, TTL: 1}, Now: c.now}),
				"workflow":               c.s.PutWorkflows(c.ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: []store.Workflow{{Name: n, Queue: "q"}}, Now: c.now}),
				"queue of a workflow":    c.s.PutWorkflows(c.ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: []store.Workflow{{Name: "a", Queue: n}}, Now: c.now}),
				"paused queue":           c.s.PauseTarget(c.ctx, store.PauseTargetParams{Namespace: c.ns, Queue: n, Now: c.now}),
				"lock":                   second(c.s.Lock(c.ctx, store.LockParams{Namespace: c.ns, Name: n, Owner: "o", For: 1, Now: c.now})),
				"lock owner":             second(c.s.Lock(c.ctx, store.LockParams{Namespace: c.ns, Name: "l", Owner: n, For: 1, Now: c.now})),
				"schedule":               sched(func(s *store.Schedule) { s.Name = n }),
				"workflow of a schedule": sched(func(s *store.Schedule) { s.Workflow = n }),
				"queue of a schedule":    sched(func(s *store.Schedule) { s.Queue = n }),
				"group of children":      second(c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: n})),
			} {
				c.fails(what+" as "+field, err, store.ErrInvalid)
			}
		}
		c.eq("the run", c.get(run.Run.ID), run.Run)
	}},
	{"errors/good-names", "P16", "any other text is a valid name, stored unchanged and compared byte by byte", func(c *C) {
		names := []string{
			strings.Repeat("n", store.MaxName), "a", "A", "é", "e\u0301", "ß", "ss", "a b", "a  b", "a'b", `a"b`, `a\b`, "a%b", "a_b", "a/b", "a;--", "$1", "?", ":a", "NULL", "0", "00", "😀", "\u200b",
		}
		for _, n := range names {
			c.create(store.NewRun{Queue: n, Workflow: n})
			c.putWorkflows(store.Workflow{Name: n, Queue: n})
		}
		for _, n := range names {
			run := c.one(c.claim(store.ClaimParams{Worker: n, Demands: []store.Demand{demand(n, 5, n)}}).Runs)
			c.eq("names of the run", []string{run.Run.Queue, run.Run.Workflow, run.Run.Worker}, []string{n, n, n})
			c.setState(run.Run.ID, n, n)
			c.signal(run.Run.ID, n, "")
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, n, "")}})
			c.eq("name of the step", c.stepNames(run.Run.ID), []string{n})
			in := c.inbox(run.Run.ID)
			c.eq("name of the signal", in.Signals[0].Name, n)
			c.eq("name of the state", values(in.State), []string{n + "=" + n})
		}
		c.eq("workflows", len(c.workflows()), len(names))
	}},
	{"errors/canceled-context", "P16", "a call with a canceled context returns that context's error", func(c *C) {
		run := c.start()
		ctx, cancel := context.WithCancel(c.ctx)
		cancel()
		for _, call := range c.calls(ctx, c.ns, run.Run.ID, run.Lease) {
			if err := call.do(); !errors.Is(err, context.Canceled) {
				c.Errorf("%s: saw %s, expected one that matches %q", call.name, show(err), context.Canceled)
			}
		}
		if _, err := c.s.Clock(ctx); err != nil && !errors.Is(err, context.Canceled) {
			c.Errorf("Clock: saw %s, expected the time or one that matches %q", show(err), context.Canceled)
		}
		// The store still works.
		c.end(run, complete(""))
		c.start()
	}},
	{"errors/too-many-items", "P16", "a batch over MaxBatch is ErrInvalid as a whole", func(c *C) {
		const n = store.MaxBatch + 1
		ids := make([]store.ID, n)
		for name, err := range map[string]error{
			"Create":  second(c.s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: make([]store.NewRun, n), Now: c.now})),
			"Get":     second(c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: ids})),
			"Cancel":  second(c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Now: c.now})),
			"Pause":   second(c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids, Now: c.now})),
			"Restart": second(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: ids, Now: c.now})),
			"Commit":  second(c.s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Commits: make([]store.Commit, n), Now: c.now})),
			"Extend":  second(c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: "w", Leases: make([]store.Lease, n), LeaseFor: aLease, Now: c.now})),
			"Signal":  second(c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: make([]store.NewSignal, n), Now: c.now})),
		} {
			c.fails(name, err, store.ErrInvalid)
		}
	}},
	{"errors/numbers", "P16", "a number out of range is ErrInvalid with a field and a reason, and nothing of the call is stored; a lease of an epoch that was never granted is lost", func(c *C) {
		refused := func(what string, err error) {
			c.Helper()
			c.fails(what, err, store.ErrInvalid)
			if e := new(store.InvalidError); errors.As(err, &e) && (e.Field == "" || e.Reason == "") {
				c.Errorf("%s: saw %+v, expected a field and a reason", what, *e)
			}
		}
		run := c.start()
		const beyond = math.MaxInt32 + 1
		for what, change := range map[string]func(s *store.StepRecord){
			"index -1":           func(s *store.StepRecord) { s.Index = -1 },
			"index 1<<31":        func(s *store.StepRecord) { s.Index = beyond },
			"attempt -1":         func(s *store.StepRecord) { s.Attempt = -1 },
			"attempt 1<<31":      func(s *store.StepRecord) { s.Attempt = beyond },
			"occurrence -1":      func(s *store.StepRecord) { s.Occurrence = -1 },
			"occurrence 1<<31":   func(s *store.StepRecord) { s.Occurrence = beyond },
			"position -1":        func(s *store.StepRecord) { s.Position = -1 },
			"earlier attempt -1": func(s *store.StepRecord) { s.Earlier = []store.FailedAttempt{{Attempt: -1, StartedAt: c.now}} },
		} {
			bad := step(2, "bad", "")
			change(&bad)
			refused("a step of "+what, c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "good", ""), bad}}).Err)
		}
		refused("a commit of seq -1", c.tryCommit(store.Commit{Lease: run.Lease, Seq: -1}).Err)
		refused("a commit that has seen -1 events", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Seen: -1}).Err)
		for _, priority := range []int{store.MinPriority - 1, store.MaxPriority + 1} {
			child := kid(1)
			child.Priority = priority
			refused(fmt.Sprintf("a child of priority %d", priority), c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Spawn: []store.NewRun{child}}).Err)
		}
		never := run.Lease
		for _, never.Epoch = range []int64{-1, 0, run.Lease.Epoch + 1, math.MinInt64, math.MaxInt64} {
			c.lost(fmt.Sprintf("a commit of epoch %d", never.Epoch), store.Commit{Lease: never, Seq: 1})
			c.eq(fmt.Sprintf("Lost of epoch %d", never.Epoch), c.extend(never).Lost, true)
		}
		c.eq("the run", c.get(run.Run.ID), run.Run)
		c.eq("its steps", c.stepNames(run.Run.ID), []string{})
		for what, w := range map[string]store.Worker{
			"slots -1": {Slots: -1}, "slots 1<<31": {Slots: beyond}, "process id -1": {PID: -1}, "limit -1": {Limits: map[string]int{aWorkflow: -1}},
		} {
			w.ID, w.Status, w.TTL = "numbers", store.Online, time.Minute
			refused("a worker of "+what, c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: c.ns, Worker: w, Now: c.now}))
		}
		c.eq("workers", len(c.workers()), 0)
	}},
}

var namespaceCases = []Case{
	{"namespaces/runs", "P15", "a run cannot be read, listed, counted, controlled, forked or purged from another namespace", func(c *C) {
		r := fill(store.NewRun{ExternalID: "e"})
		parent := c.startWith(r)
		c.commit(store.Commit{Lease: parent.Lease, Spawn: kids(1), Steps: []store.StepRecord{step(1, "a", "")}})
		done := c.create(store.NewRun{})
		c.cancel(done)
		before := c.gets(r.ID, done)
		c.abroad(func() {
			c.eq("Get", len(c.gets(r.ID, done)), 0)
			_, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
			c.fails("Find", err, store.ErrNotFound)
			c.eq("List", len(c.list(store.ListParams{}).Runs), 0)
			c.eq("List of the parent's children", len(c.list(store.ListParams{Filter: store.RunFilter{Parent: r.ID}}).Runs), 0)
			c.eq("Count", c.count(store.RunFilter{}), int64(0))
			page, _ := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: r.ID, Group: "g"})
			c.eq("Children", len(page.Children), 0)
			_, err = c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: r.ID})
			c.fails("Steps", err, store.ErrNotFound)
			for _, res := range append(c.tryCancel(r.ID, done), append(c.tryPause(false, r.ID, done), c.tryPause(true, r.ID, done)...)...) {
				c.fails("Cancel, Pause or Resume", res.Err, store.ErrNotFound)
			}
			c.fails("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{done}, Now: c.now})), store.ErrNotFound)
			_, err = c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: done, New: store.NewID(), Now: c.now})
			c.fails("Fork", err, store.ErrNotFound)
			c.advance(time.Hour)
			c.eq("Purge", c.purge(store.PurgeParams{}), 0)
		})
		c.eq("the runs", c.gets(r.ID, done), before)
	}},
	{"namespaces/leases", "P15", "a lease is not valid in another namespace", func(c *C) {
		run := c.start()
		c.abroad(func() {
			c.advance(time.Second)
			c.eq("Lost", c.extend(run.Lease).Lost, true)
			c.lost("Commit", store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: complete("")})
			c.advance(aLease)
			c.claimNone("it is another namespace's")
		})
		c.eq("the run", c.get(run.Run.ID), run.Run)
	}},
	{"namespaces/coordination", "P15", "from another namespace, a run receives no signal and no state, and shows none", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e"})
		c.abroad(func() {
			for _, res := range c.signals(store.NewSignal{ID: store.NewID(), Run: id, Name: "n"}, store.NewSignal{ID: store.NewID(), ExternalID: "e", Name: "n"}) {
				c.fails("Signal", res.Err, store.ErrNotFound)
			}
			_, err := c.trySetState(id, store.StateWrite{Key: "k"})
			c.fails("SetState", err, store.ErrNotFound)
			_, err = c.s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: id})
			c.fails("GetState", err, store.ErrNotFound)
			_, err = c.s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: id})
			c.fails("Inbox", err, store.ErrNotFound)
		})
		c.eq("Events", c.inbox(id).Events, int64(0))
	}},
	{"namespaces/registry", "P15", "workers, workflows, pauses and locks of one name in two namespaces are separate", func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, Host: "here", TTL: time.Minute})
		c.putWorkflows(store.Workflow{Name: aWorkflow, Queue: "here"})
		c.setPaused(aQueue, "", true)
		c.lock("l", "here", time.Hour)
		c.abroad(func() {
			c.eq("workers", len(c.workers()), 0)
			c.eq("workflows", len(c.workflows()), 0)
			paused, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
			c.ok("ListPaused", err)
			c.eq("paused", len(paused.Paused), 0)
			c.create(store.NewRun{})
			c.claim1()
			c.eq("Held", c.lock("l", "there", time.Minute).Held, true)
			c.putWorker(store.Worker{ID: aWorker, Host: "there", TTL: time.Minute})
			c.eq("runs held by the worker there", c.workers()[0].Held, int64(1))
			c.putWorkflows(store.Workflow{Name: aWorkflow, Queue: "there"})
			c.setPaused(aQueue, "", false)
			c.advance(time.Second)
			c.extends()
			c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: aWorker}))
		})
		w := c.workers()
		c.eq("workers here", len(w), 1)
		c.eq("the worker here", []any{w[0].Host, w[0].Held, w[0].SeenAt}, []any{"here", int64(0), began})
		c.eq("the workflow here", c.workflows()[0].Queue, "here")
		c.create(store.NewRun{})
		c.claimNone("its queue is paused here")
		c.eq("the lock's owner here", c.lock("l", "other", time.Minute).Owner, "here")
	}},
	{"namespaces/schedules", "P15", "schedules of one name in two namespaces are separate, and each fires in its own namespace", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		c.abroad(func() {
			c.eq("schedules", len(c.schedules(store.ListSchedulesParams{}).Schedules), 0)
			c.eq("due schedules", len(c.schedules(store.ListSchedulesParams{Due: true}).Schedules), 0)
			c.eq("NextDue", c.schedules(store.ListSchedulesParams{}).NextDue, time.Time{})
			_, err := c.fire(store.FireParams{Schedule: "s", At: at})
			c.fails("Fire", err, store.ErrNotFound)
			_, err = c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: "s"})
			c.fails("ListFirings", err, store.ErrNotFound)
			c.fails("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "s"}), store.ErrNotFound)
			c.putSchedule(c.schedule("s"))
			run := fill(store.NewRun{})
			c.mustFire(store.FireParams{Schedule: "s", At: at, Run: &run})
			c.eq("the claimed run", c.claim1().Run.ID, run.ID)
		})
		c.claimNone("the firing was elsewhere")
		c.eq("firings here", len(c.firings("s")), 0)
		c.mustFire(store.FireParams{Schedule: "s", At: at})
	}},
	{"namespaces/external-ids", "P15", "one external id may be active in every namespace", func(c *C) {
		here := c.create(store.NewRun{ExternalID: "e"})
		c.abroad(func() {
			there := c.create(store.NewRun{ExternalID: "e"})
			run, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
			c.ok("Find", err)
			c.eq("the run there", run.ID, there)
		})
		run, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
		c.ok("Find", err)
		c.eq("the run here", run.ID, here)
	}},
	{"namespaces/signal-ids", "P15", "a signal to an external id does not meet a signal of that id in another namespace, even if the run there has ended", func(c *C) {
		sig := store.NewSignal{ID: store.NewID(), ExternalID: "e", Name: "s"}
		c.abroad(func() {
			run := c.startWith(store.NewRun{ExternalID: "e"})
			c.ok("Signal abroad", c.signals(sig)[0].Err)
			c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: complete("")})
			c.ok("the same again", c.signals(sig)[0].Err)
		})
		c.fails("Signal at home, without a run", c.signals(sig)[0].Err, store.ErrNotFound)
		id := c.create(store.NewRun{ExternalID: "e"})
		res := c.signals(sig)[0]
		c.ok("Signal at home", res.Err)
		c.eq("its run", res.Run, id)
		c.eq("signals of the run", len(c.inbox(id).Signals), 1)
	}},
	{"namespaces/exact", "P15", "namespaces are compared byte by byte, and no name gives access to another", func(c *C) {
		ns := c.ns
		names := []string{ns + "-a", ns + "-A", ns + "-a/b", ns + "-a%", ns + "-_", ns + "-é", ns + "-e\u0301"}
		for _, n := range names {
			c.ns = n
			c.create(store.NewRun{})
		}
		for _, n := range names {
			c.ns = n
			c.eq(fmt.Sprintf("runs of %q", n), c.count(store.RunFilter{}), int64(1))
			c.eq(fmt.Sprintf("runs claimed of %q", n), len(c.claimN(5)), 1)
		}
	}},
}

// abroad runs f with the case in another namespace.
func (c *C) abroad(f func()) {
	home, now := c.ns, c.now
	c.ns += "/abroad"
	f()
	c.ns, c.now = home, now
}
