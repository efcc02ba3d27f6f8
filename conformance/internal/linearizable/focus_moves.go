package linearizable

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/store"
)

// The calls of a story, each on a named run. Every run has a queue and a workflow of its own, so
// that a claim or a purge concerns only that run.

func queueOf(name string) string { return "q-" + name }
func flowOf(name string) string  { return "f-" + name }

func (st *story) newRun(name string) store.NewRun {
	return store.NewRun{ID: st.id(name), Workflow: flowOf(name), Queue: queueOf(name), Input: []byte(name)}
}

func (st *story) create(runs ...store.NewRun) ops.Operation {
	return ops.Invoke("Create", store.CreateParams{Namespace: st.ns, Runs: runs, Now: st.now}, store.Store.Create)
}

func (st *story) get(runs ...string) ops.Operation {
	p := store.GetParams{Namespace: st.ns}
	for _, name := range runs {
		p.IDs = append(p.IDs, st.id(name))
	}
	return ops.Invoke("Get", p, store.Store.Get)
}

func (st *story) find(external string) ops.Operation {
	return ops.Invoke("Find", store.FindParams{Namespace: st.ns, ExternalID: external}, store.Store.Find)
}

func (st *story) list(f store.RunFilter, byEnd bool) ops.Operation {
	return ops.Invoke("List", store.ListParams{Namespace: st.ns, Filter: f, ByEnd: byEnd}, store.Store.List)
}

func (st *story) counts() ops.Operation {
	return ops.Invoke("Count", store.CountParams{Namespace: st.ns}, store.Store.Count)
}

func (st *story) children(parent string) ops.Operation {
	return ops.Invoke("Children", store.ChildrenParams{Namespace: st.ns, Parent: st.id(parent), Group: "g"}, store.Store.Children)
}

func (st *story) steps(run string) ops.Operation {
	return ops.Invoke("Steps", store.StepsParams{Namespace: st.ns, Run: st.id(run)}, store.Store.Steps)
}

func (st *story) inbox(run string) ops.Operation {
	return ops.Invoke("Inbox", store.InboxParams{Namespace: st.ns, Run: st.id(run)}, ops.Inbox)
}

func (st *story) getState(run string) ops.Operation {
	return ops.Invoke("GetState", store.GetStateParams{Namespace: st.ns, Run: st.id(run)}, store.Store.GetState)
}

func (st *story) cancel(force bool, runs ...string) ops.Operation {
	p := store.CancelParams{Namespace: st.ns, Reason: "told to", Force: force, Now: st.now}
	for _, name := range runs {
		p.IDs = append(p.IDs, st.id(name))
	}
	return ops.Invoke("Cancel", p, store.Store.Cancel)
}

func (st *story) pauses(resume bool, run string) ops.Operation {
	return ops.Invoke("Pause", store.PauseParams{Namespace: st.ns, IDs: []store.ID{st.id(run)}, Resume: resume, Now: st.now}, store.Store.Pause)
}

func (st *story) restart(run string) ops.Operation {
	return ops.Invoke("Restart", store.RestartParams{Namespace: st.ns, IDs: []store.ID{st.id(run)}, Now: st.now}, store.Store.Restart)
}

func (st *story) fork(run, fork string, before *store.StepKey) ops.Operation {
	return ops.Invoke("Fork", store.ForkParams{Namespace: st.ns, ID: st.id(run), New: st.id(fork), Before: before, Now: st.now}, store.Store.Fork)
}

func (st *story) purge(run string) ops.Operation {
	return ops.Invoke("Purge", store.PurgeParams{Namespace: st.ns, Workflow: flowOf(run), Now: st.now}, store.Store.Purge)
}

func (st *story) claim(run, worker string) ops.Operation {
	return st.claimFrom(queueOf(run), flowOf(run), worker)
}

// claimFrom claims one run. What the answer says of other runs is not compared.
func (st *story) claimFrom(queue, workflow, worker string) ops.Operation {
	return st.claimFor("", queue, workflow, worker)
}

// claimFor is claimFrom for a build.
func (st *story) claimFor(build, queue, workflow, worker string) ops.Operation {
	p := store.ClaimParams{
		Namespace: st.ns, Worker: worker, Build: build, LeaseFor: time.Minute, Now: st.now,
		Demands: []store.Demand{{Queue: queue, Workflows: []string{workflow}, Max: 1}},
	}
	return ops.Invoke("Claim", p, func(s store.Store, ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
		res, err := ops.Claimed(s, ctx, p)
		return store.Claimed{Runs: res.Runs}, err
	})
}

func (st *story) unpin(runs ...string) ops.Operation {
	p := store.UnpinParams{Namespace: st.ns}
	for _, name := range runs {
		p.IDs = append(p.IDs, st.id(name))
	}
	return ops.Invoke("Unpin", p, store.Store.Unpin)
}

func (st *story) builds() ops.Operation {
	return ops.Invoke("ListBuilds", store.ListBuildsParams{Namespace: st.ns, Now: st.now}, store.Store.ListBuilds)
}

func (st *story) extend(l store.Lease) ops.Operation {
	return ops.Invoke("Extend", store.ExtendParams{Namespace: st.ns, Worker: l.Worker, Leases: []store.Lease{l}, LeaseFor: time.Minute, Now: st.now}, store.Store.Extend)
}

func (st *story) commit(cm store.Commit) ops.Operation {
	return ops.Invoke("Commit", store.CommitParams{Namespace: st.ns, Commits: []store.Commit{cm}, Now: st.now}, store.Store.Commit)
}

func (st *story) signal(sig store.NewSignal) ops.Operation {
	sig.Name, sig.Payload = "go", []byte("x")
	return ops.Invoke("Signal", store.SignalParams{Namespace: st.ns, Signals: []store.NewSignal{sig}, Now: st.now}, store.Store.Signal)
}

func (st *story) setState(run string, writes ...store.StateWrite) ops.Operation {
	return ops.Invoke("SetState", store.SetStateParams{Namespace: st.ns, Run: st.id(run), Writes: writes, Now: st.now}, store.Store.SetState)
}

func (st *story) put(name string, next time.Time, paused bool) ops.Operation {
	sc := store.Schedule{Name: name, Workflow: "f", Queue: "q", Spec: "* * * * *", Paused: paused, NextAt: next}
	return ops.Invoke("PutSchedule", store.PutScheduleParams{Namespace: st.ns, Schedule: sc, Now: st.now}, store.Store.PutSchedule)
}

func (st *story) unschedule(name string) ops.Operation {
	return ops.Invoke("DeleteSchedule", store.DeleteScheduleParams{Namespace: st.ns, Name: name}, ops.Alone(store.Store.DeleteSchedule))
}

func (st *story) schedules() ops.Operation {
	return ops.Invoke("ListSchedules", store.ListSchedulesParams{Namespace: st.ns, Now: st.now}, store.Store.ListSchedules)
}

func (st *story) firings(name string) ops.Operation {
	return ops.Invoke("ListFirings", store.ListFiringsParams{Namespace: st.ns, Schedule: name}, store.Store.ListFirings)
}

func (st *story) fire(name string, at, next time.Time, run *store.NewRun) ops.Operation {
	return ops.Invoke("Fire", store.FireParams{Namespace: st.ns, Schedule: name, At: at, Next: next, Run: run, Now: st.now}, store.Store.Fire)
}

func (st *story) setPaused(queue, workflow string, paused bool) ops.Operation {
	return ops.Invoke("PauseTarget", store.PauseTargetParams{Namespace: st.ns, Queue: queue, Workflow: workflow, Resume: !paused, Now: st.now}, ops.Alone(store.Store.PauseTarget))
}

func (st *story) paused() ops.Operation {
	return ops.Invoke("ListPaused", store.ListPausedParams{Namespace: st.ns}, store.Store.ListPaused)
}

func (st *story) lock(owner string, hold time.Duration) ops.Operation {
	return ops.Invoke("Lock", store.LockParams{Namespace: st.ns, Name: "l", Owner: owner, For: hold, Now: st.now}, store.Store.Lock)
}

func (st *story) putWorker(id string, status store.WorkerStatus) ops.Operation {
	w := store.Worker{ID: id, Queues: []string{"q"}, Workflows: []string{"f"}, Slots: 2, Status: status, TTL: 24 * time.Hour, Answers: time.Minute}
	return ops.Invoke("PutWorker", store.PutWorkerParams{Namespace: st.ns, Worker: w, Now: st.now}, ops.Alone(store.Store.PutWorker))
}

func (st *story) removeWorker(id string) ops.Operation {
	return ops.Invoke("RemoveWorker", store.RemoveWorkerParams{Namespace: st.ns, ID: id}, ops.Alone(store.Store.RemoveWorker))
}

func (st *story) ask() ops.Operation {
	return ops.Invoke("AskWorkers", store.AskWorkersParams{Namespace: st.ns, Silent: time.Minute, Now: st.now}, store.Store.AskWorkers)
}

func (st *story) workers() ops.Operation {
	return ops.Invoke("ListWorkers", store.ListWorkersParams{Namespace: st.ns, Now: st.now}, store.Store.ListWorkers)
}

func (st *story) putWorkflows(queue string, names ...string) ops.Operation {
	p := store.PutWorkflowsParams{Namespace: st.ns, Now: st.now}
	for _, name := range names {
		p.Workflows = append(p.Workflows, store.Workflow{Name: name, Queue: queue})
	}
	return ops.Invoke("PutWorkflows", p, ops.Alone(store.Store.PutWorkflows))
}

func (st *story) workflows() ops.Operation {
	return ops.Invoke("ListWorkflows", store.ListWorkflowsParams{Namespace: st.ns}, store.Store.ListWorkflows)
}

// imports makes an import, if the backend supports it.
func (st *story) imports(r store.RunRecord) ops.Operation {
	if _, ok := st.handles[0].(store.Importer); !ok {
		return ops.Operation{}
	}
	return ops.Invoke("Import", store.ImportParams{Namespace: st.ns, Record: r, Now: st.now}, func(s store.Store, ctx context.Context, p store.ImportParams) (bool, error) {
		return s.(store.Importer).Import(ctx, p)
	})
}

// sentTo lists the signals of a run, if the backend supports it.
func (st *story) sentTo(run string) ops.Operation {
	if _, ok := st.handles[0].(store.Exporter); !ok {
		return ops.Operation{}
	}
	return ops.Invoke("Sent", store.SentParams{Namespace: st.ns, Run: st.id(run)}, func(s store.Store, ctx context.Context, p store.SentParams) (store.SentPage, error) {
		all, err := s.(store.Exporter).Sent(ctx, p)
		for i := range all.Signals {
			all.Signals[i].Position = 0
		}
		all.Next = 0
		return all, err
	})
}

// look reads everything that is stored.
func (st *story) look() []ops.Operation {
	ops := []ops.Operation{
		ops.Invoke("Get", store.GetParams{Namespace: st.ns, IDs: st.runs}, store.Store.Get),
		st.list(store.RunFilter{}, false), st.list(store.RunFilter{}, true), st.counts(), st.schedules(), st.workers(), st.workflows(), st.paused(),
		st.firings("s"), st.find("e"), st.find("k"),
	}
	for _, id := range slices.Clone(st.runs) {
		name := st.names.IDs[id]
		ops = append(ops, st.steps(name), st.inbox(name), st.children(name))
	}
	return ops
}

// The moves that the focuses share.

func creates(name string, with func(*store.NewRun)) move {
	return func(d *drawing) ops.Operation {
		n := d.newRun(name)
		if with != nil {
			with(&n)
		}
		return d.create(n)
	}
}

// setLimit sets the concurrency of the limit "l"; 0: to that of code, which is 1.
func (st *story) setLimit(n int64) ops.Operation {
	p := store.SetLimitParams{Namespace: st.ns, Name: "l", Now: st.now}
	if n > 0 {
		p.Rule = &store.LimitRule{Concurrency: n}
	}
	return ops.Invoke("SetLimit", p, ops.Alone(store.Store.SetLimit))
}

func (st *story) putLimit() ops.Operation {
	p := store.PutLimitsParams{Namespace: st.ns, Now: st.now, Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 1}}}}
	return ops.Invoke("PutLimits", p, ops.Alone(store.Store.PutLimits))
}

// limited puts a run under the limit "l".
func limited(n *store.NewRun) { n.Under = []store.LimitUse{{Limit: "l", Key: "k"}} }

// keyed makes a run a start with a key, in the lane of "a".
func keyed(n *store.NewRun) {
	n.Workflow, n.Queue, n.Debounce = flowOf("a"), queueOf("a"), "k"
}

// signals is a start with a new signal, or with an earlier one, of a run in the lane of "a".
func signals(name, external string, reuse store.Reuse) move {
	return func(d *drawing) ops.Operation {
		if d.story.sent == 0 || !d.chance(25) {
			d.story.sent++
		}
		n := d.newRun(name)
		n.Workflow, n.Queue, n.ExternalID, n.Reuse = flowOf("a"), queueOf("a"), external, reuse
		n.Signal = &store.StartSignal{ID: d.signalID(d.story.sent), Name: "go", Payload: []byte("x")}
		return d.create(n)
	}
}

// asks reads the answers to the signal of the setup and to the last ones.
func asks(run string) move {
	return func(d *drawing) ops.Operation {
		p := store.AnswersParams{Namespace: d.ns, Asks: []store.Ask{{Run: d.id(run), Signal: d.signalID(900)}}}
		for n := max(1, d.story.sent-2); n <= max(1, d.story.sent); n++ {
			p.Asks = append(p.Asks, store.Ask{Run: d.id(run), Signal: d.signalID(n)})
		}
		return ops.Invoke("Answers", p, store.Store.Answers)
	}
}

// replies consumes the signals that the lease has brought, and answers them.
func replies(d *drawing, h *ops.Holding, cm *store.Commit) {
	records(d, h, cm)
	cm.Consumed = h.Signals
	for _, id := range h.Signals {
		cm.Answers = append(cm.Answers, store.Answer{Signal: id, Output: []byte(fmt.Sprint(d.story.sent))})
	}
	if d.chance(50) {
		leaves(d, h, cm)
	}
}

func wants(external string) func(*store.NewRun) {
	return func(n *store.NewRun) { n.ExternalID = external }
}

func claims(run string) move {
	return func(d *drawing) ops.Operation { return d.claim(run, fmt.Sprintf("w%d", d.client)) }
}

func purges(run string) move { return func(d *drawing) ops.Operation { return d.purge(run) } }
func restarts(run string) move {
	return func(d *drawing) ops.Operation { return d.restart(run) }
}
func gets(runs ...string) move {
	return func(d *drawing) ops.Operation { return d.get(runs...) }
}
func readsSteps(run string) move {
	return func(d *drawing) ops.Operation { return d.steps(run) }
}
func readsInbox(run string) move {
	return func(d *drawing) ops.Operation { return d.inbox(run) }
}
func cancels(force bool, runs ...string) move {
	return func(d *drawing) ops.Operation { return d.cancel(force, runs...) }
}
func lists(d *drawing) ops.Operation {
	return d.list(store.RunFilter{}, d.chance(30))
}
func counts(d *drawing) ops.Operation { return d.counts() }

// sends sends a new signal, or repeats an earlier one.
func sends(run, external string) move {
	return func(d *drawing) ops.Operation {
		if d.story.sent == 0 || !d.chance(25) {
			d.story.sent++
		}
		sig := store.NewSignal{ID: d.signalID(d.story.sent), ExternalID: external}
		if external == "" {
			sig.Run = d.id(run)
		}
		return d.signal(sig)
	}
}

// commits commits under one of the run's leases, mostly with the next number.
func commits(run string, fill func(d *drawing, h *ops.Holding, cm *store.Commit)) move {
	return func(d *drawing) ops.Operation {
		h, ok := d.lease(run)
		if !ok {
			return d.claim(run, fmt.Sprintf("w%d", d.client))
		}
		cm := store.Commit{Lease: h.Lease, Seq: h.Seq + 1, Seen: h.Seen}
		if h.Seq > 0 && d.chance(10) {
			cm.Seq = h.Seq
		}
		fill(d, &h, &cm)
		return d.commit(cm)
	}
}

// records adds a step to a commit.
func records(d *drawing, _ *ops.Holding, cm *store.Commit) {
	d.story.sent++
	at := int64(d.story.sent)
	cm.Steps = []store.StepRecord{kit.Step(at, fmt.Sprintf("s%d", at), "out")}
}

// leaves ends the lease by a random transition.
func leaves(d *drawing, _ *ops.Holding, cm *store.Commit) {
	failure := &store.Failure{Code: "error", Message: "went wrong"}
	switch d.rnd.IntN(6) {
	case 0:
		cm.Transition = &store.Transition{Kind: store.CompleteRun, Output: []byte("done")}
	case 1:
		cm.Transition = &store.Transition{Kind: store.FailRun, Failure: failure}
	case 2:
		cm.Transition = &store.Transition{Kind: store.Release}
	case 3:
		cm.Transition = &store.Transition{Kind: store.Retry, Failure: failure}
	case 4:
		cm.Transition = &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal | store.WakeState}
	default:
		cm.Transition = &store.Transition{Kind: store.Continue, Input: []byte("more")}
	}
}

// pins gives the run back to a build, or pins it and goes on.
func pins(d *drawing, h *ops.Holding, cm *store.Commit) {
	cm.Pin = &store.Pin{Build: d.build(), By: d.build(), Ramp: d.chance(50)}
	if d.chance(70) {
		cm.Transition = &store.Transition{Kind: store.GiveBack}
	} else {
		records(d, h, cm)
	}
}

// build draws a build.
func (d *drawing) build() string { return fmt.Sprintf("v%d", 1+d.rnd.IntN(2)) }

// everything fills a commit with one item of each kind.
func everything(d *drawing, h *ops.Holding, cm *store.Commit) {
	records(d, h, cm)
	cm.State = []store.StateWrite{{Key: "k", Value: []byte(fmt.Sprint(d.story.sent))}, {Key: "l", Value: []byte(fmt.Sprint(d.story.sent))}}
	cm.Consumed = h.Signals
	if d.chance(60) {
		spawns(d, h, cm)
	}
	if d.chance(40) {
		leaves(d, h, cm)
	}
}

// spawns adds two children to a commit.
func spawns(d *drawing, _ *ops.Holding, cm *store.Commit) {
	for i := range 2 {
		n := d.newRun(fmt.Sprintf("kid%d", 1+(d.round+i)%3))
		n.Queue, n.Workflow, n.Group, n.Ordinal = queueOf("kid"), flowOf("kid"), "g", int64(1+(d.round+i)%3)
		cm.Spawn = append(cm.Spawn, n)
	}
	if d.chance(30) {
		cm.Transition = &store.Transition{Kind: store.Sleep, Await: []store.Await{{Group: "g"}}}
	}
}

// begun makes a run with two steps, whose lease is still held.
func begun(st *story, name string, with func(*store.NewRun)) {
	n := st.newRun(name)
	if with != nil {
		with(&n)
	}
	st.alone([]ops.Operation{st.create(n), st.claim(name, "w0")})
	h := st.held[len(st.held)-1]
	st.alone([]ops.Operation{st.commit(store.Commit{Lease: h.Lease, Seq: 1, Steps: []store.StepRecord{kit.Step(1001, "first", "1"), kit.Step(1002, "second", "2")}})})
}

// failedRun makes a run that has recorded steps and failed.
func failedRun(st *story, name string, with func(*store.NewRun)) {
	begun(st, name, with)
	h := st.held[len(st.held)-1]
	st.alone([]ops.Operation{st.commit(store.Commit{Lease: h.Lease, Seq: 2, Transition: kit.FailWith("error")})})
}

// archived is a run of another store, with the external id of runs of this one.
func (st *story) archived(name string) store.RunRecord {
	return store.RunRecord{
		Run: store.Run{
			ID: st.id(name), Workflow: flowOf(name), Queue: queueOf(name), Status: store.Sleeping, ExternalID: "e", Input: []byte("old"), Attempt: 2, Epoch: 3,
			Events: 4, CreatedAt: kit.Began.Add(-time.Hour), StartedAt: kit.Began.Add(-time.Minute), VisibleAt: kit.Began,
		},
		Steps: []store.Step{{
			StepKey: store.StepKey{Name: "first", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1, Epoch: 1,
			Output: []byte("1"), StartedAt: kit.Began.Add(-time.Minute), FinishedAt: kit.Began.Add(-time.Second),
		}},
		State:    []store.StateEntry{{Key: "k", Value: []byte("v"), Version: 2, UpdatedAt: kit.Began.Add(-time.Minute)}},
		Signals:  []store.Signal{{ID: st.signalID(901), Name: "go", Payload: []byte("x"), SentAt: kit.Began.Add(-time.Minute)}},
		Consumed: []store.SignalID{st.signalID(902)},
		Groups:   []store.Group{{Name: "g", Total: 1, Completed: 1}},
	}
}

// focusVerbs are the methods that must have overlapped another call in some story.
var focusVerbs = []string{
	"Create", "Get", "Find", "List", "Count", "Children", "Steps", "Cancel", "Pause", "Restart", "Fork", "Purge", "Claim", "Extend", "Commit",
	"Signal", "SetState", "GetState", "Inbox", "Answers", "PutWorker", "RemoveWorker", "ListWorkers", "AskWorkers", "ListBuilds", "Unpin", "PutWorkflows", "ListWorkflows", "PauseTarget",
	"SetLimit", "ListPaused", "Lock", "PutSchedule", "DeleteSchedule", "ListSchedules", "Fire", "ListFirings",
}

var focuses = []focus{
	{"restart", func(st *story) {
		failedRun(st, "a", nil)
		st.alone([]ops.Operation{st.create(st.newRun("b")), st.cancel(false, "b")})
	}, []move{
		restarts("a"), restarts("a"), restarts("b"), purges("a"), purges("a"), purges("b"), gets("a", "b"), readsSteps("a"), sends("a", ""), claims("a"), cancels(false, "a"), lists, counts,
		commits("a", leaves),
	}},
	{"names", func(st *story) {
		failedRun(st, "a", wants("e"))
		n := st.newRun("d")
		n.ExternalID, n.Reuse = "k", store.ReuseNever
		st.alone([]ops.Operation{st.create(n), st.cancel(false, "d")})
	}, []move{
		restarts("a"), restarts("a"), creates("b", wants("e")), creates("b", wants("e")), creates("c", func(n *store.NewRun) { n.ExternalID, n.MustBeNew = "e", true }),
		creates("f", func(n *store.NewRun) { n.ExternalID, n.Reuse = "k", store.ReuseNever }), restarts("d"), purges("d"), purges("a"),
		func(d *drawing) ops.Operation { return d.imports(d.archived("x")) }, func(d *drawing) ops.Operation { return d.find("e") }, func(d *drawing) ops.Operation { return d.find("k") },
		sends("", "e"), cancels(false, "a", "b"), cancels(true, "c"), gets("a", "b", "c", "d", "f", "x"), lists,
	}},
	{"limit", func(st *story) {
		st.alone([]ops.Operation{st.putLimit()})
		for _, name := range []string{"a", "b"} {
			n := st.newRun(name)
			limited(&n)
			st.alone([]ops.Operation{st.create(n)})
		}
	}, []move{
		claims("a"), claims("a"), claims("b"), claims("b"), claims("c"), creates("c", limited), commits("a", leaves), commits("b", leaves), commits("c", leaves),
		cancels(true, "a"), cancels(true, "b"), cancels(false, "a", "b"), restarts("a"), purges("a"), gets("a", "b", "c"),
		func(d *drawing) ops.Operation { return d.setLimit(int64(d.rnd.IntN(3))) },
		func(d *drawing) ops.Operation { return d.pauses(d.chance(50), "b") },
	}},
	{"debounce", func(st *story) { st.alone([]ops.Operation{st.create(st.newRun("x"))}) }, []move{
		creates("a", keyed), creates("a", keyed), creates("b", keyed), creates("c", keyed), creates("d", keyed), claims("a"), claims("a"), cancels(false, "a", "b"), restarts("a"), func(d *drawing) ops.Operation { return d.pauses(d.chance(50), "a") },
		commits("a", leaves), purges("a"), gets("a", "b", "c", "d"), gets("a", "b"), lists,
	}},
	// It has no purges: all runs are of one workflow, and a purge may pass over those that another call has locked.
	{"reach", func(st *story) {
		n := st.newRun("a")
		n.ExternalID, n.Signal = "e", &store.StartSignal{ID: st.signalID(900), Name: "go", Payload: []byte("x")}
		st.alone([]ops.Operation{st.create(n), st.claim("a", "w0")})
	}, []move{
		signals("a", "e", 0), signals("b", "e", 0), signals("b", "e", 0), signals("c", "e", 0), signals("d", "k", store.ReuseNever), signals("f", "k", store.ReuseNever),
		creates("g", func(n *store.NewRun) { n.Workflow, n.Queue, n.ExternalID = flowOf("a"), queueOf("a"), "e" }), creates("h", wants("e")),
		claims("a"), claims("a"), commits("a", replies), commits("b", replies), commits("c", replies), commits("d", leaves), cancels(false, "a", "b"), cancels(true, "c"), restarts("a"), restarts("b"),
		asks("a"), asks("b"), sends("", "e"), func(d *drawing) ops.Operation { return d.find("e") }, gets("a", "b", "c", "d", "f", "g", "h"), readsInbox("a"), readsInbox("b"), lists,
		func(d *drawing) ops.Operation { return d.pauses(d.chance(50), "a") },
	}},
	{"schedules", func(st *story) { st.alone([]ops.Operation{st.put("s", kit.Began, false)}) }, []move{
		func(d *drawing) ops.Operation {
			return d.put("s", kit.Began.Add(time.Duration(d.rnd.IntN(2))*time.Hour), d.chance(20))
		},
		func(d *drawing) ops.Operation { return d.unschedule("s") }, func(d *drawing) ops.Operation { return d.schedules() }, func(d *drawing) ops.Operation { return d.firings("s") },
		fires, fires, fires, fires, gets("fired0", "fired1"), lists, purges("fired0"), cancels(false, "fired0"),
	}},
	// It has no claims, and forks do not end: they are in the lane of the old run, and a claim or a purge that passes over
	// the old run, because another call writes to it, would take a fork.
	{"fork", func(st *story) { begun(st, "a", nil) }, []move{
		func(d *drawing) ops.Operation { return d.fork("a", "f1", nil) }, func(d *drawing) ops.Operation { return d.fork("a", "f1", nil) },
		func(d *drawing) ops.Operation {
			return d.fork("a", "f2", &store.StepKey{Name: "second", Occurrence: 1})
		},
		commits("a", records), commits("a", leaves), restarts("a"), purges("a"), creates("f2", nil), readsSteps("f1"), readsSteps("f1"), readsSteps("f2"), readsSteps("a"), gets("a", "f1", "f2"),
		cancels(true, "a"), cancels(true, "a"), purges("a"), lists,
	}},
	{"import", func(*story) {}, []move{
		func(d *drawing) ops.Operation { return d.imports(d.archived("a")) }, func(d *drawing) ops.Operation { return d.imports(d.archived("a")) },
		func(d *drawing) ops.Operation { return d.imports(d.archived("b")) }, creates("a", wants("e")), readsSteps("a"), readsInbox("a"), gets("a", "b"), cancels(false, "a"), cancels(true, "a"),
		func(d *drawing) ops.Operation { return d.pauses(true, "a") }, claims("a"), sends("a", ""), sends("", "e"), purges("a"), func(d *drawing) ops.Operation { return d.find("e") },
		func(d *drawing) ops.Operation { return d.getState("a") }, restarts("a"), counts,
		func(d *drawing) ops.Operation { return d.setState("a", store.StateWrite{Key: "k", Value: []byte("w")}) },
	}},
	{"tree", func(st *story) { begun(st, "p", nil) }, []move{
		commits("p", spawns), commits("p", spawns), commits("p", leaves), cancels(false, "p"), cancels(true, "p"), gets("p", "kid1", "kid2", "kid3"), gets("p", "kid1", "kid2", "kid3"),
		func(d *drawing) ops.Operation { return d.children("p") }, readsInbox("p"), func(d *drawing) ops.Operation { return d.claim("kid", fmt.Sprintf("w%d", d.client)) },
		commits("kid1", leaves), cancels(false, "kid1"), cancels(true, "kid2"), counts, lists, claims("p"), restarts("p"), restarts("kid1"), func(d *drawing) ops.Operation { return d.purge("kid") },
	}},
	{"mail", func(st *story) {
		begun(st, "a", wants("e"))
		st.alone([]ops.Operation{st.signal(store.NewSignal{ID: st.signalID(900), Run: st.id("a")})})
	}, []move{
		sends("a", ""), sends("a", ""), sends("", "e"), purges("a"), cancels(true, "a"), readsInbox("a"), readsInbox("a"), func(d *drawing) ops.Operation { return d.getState("a") }, gets("a"),
		func(d *drawing) ops.Operation { return d.sentTo("a") }, claims("a"), commits("a", everything), commits("a", leaves), restarts("a"),
		func(d *drawing) ops.Operation {
			h, ok := d.lease("a")
			if !ok {
				return ops.Operation{}
			}
			return d.extend(h.Lease)
		},
		func(d *drawing) ops.Operation { return d.setState("a", store.StateWrite{Key: "k", Value: []byte("w")}) },
	}},
	{"pause", func(st *story) { begun(st, "a", nil) }, []move{
		func(d *drawing) ops.Operation { return d.pauses(false, "a") }, func(d *drawing) ops.Operation { return d.pauses(false, "a") }, func(d *drawing) ops.Operation { return d.pauses(true, "a") },
		func(d *drawing) ops.Operation { return d.setPaused(queueOf("a"), "", d.chance(60)) }, func(d *drawing) ops.Operation { return d.setPaused("", flowOf("a"), d.chance(50)) },
		func(d *drawing) ops.Operation { return d.paused() }, claims("a"), claims("a"), commits("a", leaves), commits("a", leaves), gets("a"), cancels(false, "a"), sends("a", ""), restarts("a"),
		creates("b", func(n *store.NewRun) { n.Queue, n.Worker, n.LeaseFor = queueOf("a"), "w1", time.Minute }), purges("a"),
	}},
	{"pins", func(st *story) { begun(st, "a", nil) }, []move{
		commits("a", pins), commits("a", pins), commits("a", pins), commits("a", leaves), restarts("a"), gets("a"), cancels(false, "a"),
		func(d *drawing) ops.Operation { return d.unpin("a") }, func(d *drawing) ops.Operation { return d.unpin("a") }, func(d *drawing) ops.Operation { return d.builds() },
		func(d *drawing) ops.Operation {
			return d.claimFor(d.build(), queueOf("a"), flowOf("a"), fmt.Sprintf("w%d", d.client))
		},
		func(d *drawing) ops.Operation {
			return d.claimFor(d.build(), queueOf("a"), flowOf("a"), fmt.Sprintf("w%d", d.client))
		},
		func(d *drawing) ops.Operation { return d.list(store.RunFilter{PinnedTo: []string{d.build()}}, false) },
	}},
	{"state", func(st *story) { begun(st, "a", nil) }, []move{
		compares, compares, compares, commits("a", everything), commits("a", leaves), func(d *drawing) ops.Operation { return d.getState("a") }, readsInbox("a"), claims("a"), gets("a"), purges("a"),
		func(d *drawing) ops.Operation {
			return d.setState("a", store.StateWrite{Key: "k", Value: []byte("1")}, store.StateWrite{Key: "l", Delete: d.chance(50)})
		},
	}},
	{"registry", func(st *story) { st.alone([]ops.Operation{st.putWorker("w0", store.Online)}) }, []move{
		locks, locks, locks, func(d *drawing) ops.Operation { return d.putWorker(fmt.Sprintf("w%d", d.rnd.IntN(2)), store.Online) },
		func(d *drawing) ops.Operation { return d.putWorker("w0", store.Draining) }, func(d *drawing) ops.Operation { return d.removeWorker("w0") }, func(d *drawing) ops.Operation { return d.ask() },
		func(d *drawing) ops.Operation { return d.ask() }, func(d *drawing) ops.Operation { return d.workers() }, func(d *drawing) ops.Operation { return d.workers() },
		func(d *drawing) ops.Operation { return d.putWorkflows(fmt.Sprint(d.client), "f1", "f2") }, func(d *drawing) ops.Operation { return d.workflows() },
		func(d *drawing) ops.Operation {
			return d.extend(store.Lease{Run: d.id("a"), Worker: "w0", Epoch: 1})
		},
	}},
	{"lists", func(st *story) { failedRun(st, "a", nil) }, []move{
		func(d *drawing) ops.Operation { return d.create(d.newRun("b"), d.newRun("c"), d.newRun("d")) }, cancels(false, "b"), cancels(false, "c", "d"), restarts("a"), purges("a"), purges("b"), lists, lists, counts, counts,
		gets("a", "b", "c", "d"), claims("b"), commits("b", leaves), func(d *drawing) ops.Operation {
			return d.list(store.RunFilter{Statuses: []store.Status{store.Pending, store.Canceled}}, false)
		},
		func(d *drawing) ops.Operation { return d.list(store.RunFilter{Workflow: flowOf("b")}, false) },
	}},
	{"commit", func(st *story) {
		begun(st, "a", nil)
		st.alone([]ops.Operation{st.signal(store.NewSignal{ID: st.signalID(900), Run: st.id("a")}), st.signal(store.NewSignal{ID: st.signalID(901), Run: st.id("a")})})
		st.held[0].Signals = []store.SignalID{st.signalID(900), st.signalID(901)}
	}, []move{
		commits("a", everything), commits("a", everything), commits("a", everything), readsSteps("a"), readsInbox("a"), readsInbox("a"), gets("a", "kid1", "kid2", "kid3"),
		func(d *drawing) ops.Operation { return d.children("a") }, claims("a"), cancels(false, "a"), sends("a", ""), counts,
	}},
}

// fires fires the schedule for its present time, or for an earlier one. The run that it makes may
// have been made by another firing.
func fires(d *drawing) ops.Operation {
	hour := d.rnd.IntN(2)
	at := kit.Began.Add(time.Duration(hour) * time.Hour)
	n := store.NewRun{ID: d.id(fmt.Sprintf("fired%d", hour)), Workflow: flowOf(fmt.Sprintf("fired%d", hour)), Queue: "q"}
	return d.fire("s", at, at.Add(time.Hour), &n)
}

// compares writes state with a compare-and-set, by the last version that the client knows.
func compares(d *drawing) ops.Operation {
	return d.setState("a", store.StateWrite{Key: "k", Value: []byte(fmt.Sprint(d.round, d.client)), IfVersion: new(int64(d.rnd.IntN(4)))})
}

func locks(d *drawing) ops.Operation {
	hold := []time.Duration{time.Minute, 90 * time.Minute, 0}[d.rnd.IntN(3)]
	return d.lock(fmt.Sprintf("w%d", d.client), hold)
}
