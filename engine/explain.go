package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Reason is why a run is in its present state, in one word.
type Reason string

// The values of [Reason].
const (
	ReasonCompleted      Reason = "completed"
	ReasonFailed         Reason = "failed"
	ReasonCanceled       Reason = "canceled"
	ReasonPaused         Reason = "paused"          // the run itself
	ReasonQueuePaused    Reason = "queue-paused"    // its queue
	ReasonWorkflowPaused Reason = "workflow-paused" // its workflow
	ReasonScheduled      Reason = "scheduled"       // its start time is in the future
	ReasonRetry          Reason = "retry"           // the run's next attempt is not due yet
	ReasonSuspect        Reason = "suspect"         // its leases expired in a row, and another such run has its turn
	ReasonSetAside       Reason = "set-aside"       // a worker could not read or open it, and released it for a while
	ReasonStepRetry      Reason = "step-retry"      // a step's next attempt is not due yet
	ReasonNeverServed    Reason = "never-served"    // no worker has ever registered its workflow
	ReasonNoWorker       Reason = "no-worker"       // no worker that serves it is online
	ReasonStranded       Reason = "stranded"        // due, and pinned to a build that no online worker has
	ReasonWaiting        Reason = "waiting"         // due, with online workers that serve it
	ReasonLimit          Reason = "limit"           // due, and a limit lets no more runs or steps go
	ReasonRunning        Reason = "running"         // a worker executes it
	ReasonHolderSilent   Reason = "holder-silent"   // the worker that holds it has stopped reporting
	ReasonLeaseOver      Reason = "lease-over"      // it was leased, and its worker has not renewed the lease
	ReasonCanceling      Reason = "canceling"       // it is being canceled and has to clean up
	ReasonSleep          Reason = "sleep"           // it sleeps until a time
	ReasonSignal         Reason = "signal"          // it waits for a signal
	ReasonChildren       Reason = "children"        // it waits for children
	ReasonEvent          Reason = "event"           // it waits for another event, such as a change of its flow state
)

// Explanation says in words why a run is in its present state.
type Explanation struct {
	Run    store.Run // without Input, Output and Meta
	Reason Reason
	// Summary is one sentence, Details are further sentences, and Actions are what an
	// operator can do.
	Summary string
	Details []string
	Actions []string
	// At is the store's time of the explanation. Until is when the run will continue on
	// its own; zero means unknown or never.
	At, Until time.Time
}

// String returns the explanation as text of several lines.
func (x Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s of workflow %q, queue %q: %s\n%s\n", x.Run.ID, x.Run.Workflow, x.Run.Queue, x.Run.Status, x.Summary)
	for _, d := range x.Details {
		fmt.Fprintf(&b, "- %s\n", d)
	}
	if len(x.Actions) > 0 {
		b.WriteString("what can be done:\n")
		for _, a := range x.Actions {
			fmt.Fprintf(&b, "- %s\n", a)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Explain says why a run is where it is and what it waits for. It asks the store several
// times, so that its parts may be of different moments. For a run that only waits for its
// turn it counts the runs of the namespace, so it is meant for people, not for monitoring.
// It fails with store.ErrNotFound.
func (e *Engine) Explain(ctx context.Context, id store.ID) (Explanation, error) {
	f := facts{e: e, ctx: ctx}
	if err := f.gather(id); err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	f.explain()
	if f.err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", f.err)
	}
	return f.x, nil
}

// facts are what an explanation is based on.
type facts struct {
	e       *Engine
	ctx     context.Context
	x       Explanation
	run     *store.Run
	now     time.Time
	workers []store.Worker
	known   bool // some worker has registered the workflow
	foreign bool // registered with another queue than the run's
	paused  []store.PausedTarget
	open    []store.Step // steps that are not final
	last    *store.Step  // the step that ended last
	done    int
	box     store.Inbox
	err     error
}

func (f *facts) gather(id store.ID) error {
	e := f.e
	run, err := e.Get(f.ctx, id)
	if err != nil {
		return err
	}
	run.Input, run.Output, run.Meta = nil, nil, nil
	f.x.Run, f.run = run, &f.x.Run
	err = e.retry(f.ctx, func(ctx context.Context) (err error) {
		f.now, err = e.store.Clock(ctx)
		return err
	})
	if err != nil {
		return err
	}
	f.x.At = f.now
	steps, err := e.Steps(f.ctx, id)
	if err != nil {
		return err
	}
	for i := range steps {
		s := &steps[i]
		if !s.Status.Final() {
			f.open = append(f.open, *s)
			continue
		}
		f.done++
		if f.last == nil || !s.FinishedAt.Before(f.last.FinishedAt) {
			f.last = s
		}
	}
	if run.Status.Final() {
		return nil
	}
	if f.paused, err = e.Paused(f.ctx); err != nil {
		return err
	}
	if f.workers, err = e.alive(f.ctx, true, func(*store.Worker) bool { return true }); err != nil {
		return err
	}
	found, err := e.listWorkflow(f.ctx, run.Workflow)
	if err != nil {
		return err
	}
	f.known = len(found) > 0
	f.foreign = f.known && found[0].Queue != run.Queue
	return e.retry(f.ctx, func(ctx context.Context) (err error) {
		f.box, err = e.store.Inbox(ctx, store.InboxParams{Namespace: e.namespace, Run: id})
		return err
	})
}

func (f *facts) detail(format string, args ...any) {
	f.x.Details = append(f.x.Details, fmt.Sprintf(format, args...))
}

func (f *facts) act(format string, args ...any) {
	f.x.Actions = append(f.x.Actions, fmt.Sprintf(format, args...))
}

func (f *facts) say(r Reason, format string, args ...any) {
	f.x.Reason, f.x.Summary = r, fmt.Sprintf(format, args...)
}

// when formats a time with its distance from now.
func (f *facts) when(t time.Time) string {
	d := t.Sub(f.now).Round(time.Millisecond)
	if d.Abs() >= 10*time.Second {
		d = d.Round(time.Second)
	}
	text := t.Format("2006-01-02 15:04:05 MST")
	if d < 0 {
		return fmt.Sprintf("%s (%v ago)", text, -d)
	}
	return fmt.Sprintf("%s (in %v)", text, d)
}

func (f *facts) explain() {
	r := f.run
	switch r.Status {
	case store.Completed, store.Failed, store.Canceled:
		f.final()
		return
	case store.Paused:
		f.say(ReasonPaused, "The run is paused until it is resumed.")
		f.act("resume it")
		if !r.VisibleAt.IsZero() {
			f.detail("after it is resumed, it is due at %s", f.when(r.VisibleAt))
		}
		f.steps()
	case store.Running, store.Canceling:
		f.held()
	case store.Pending:
		f.pending()
	case store.Sleeping:
		f.sleeping()
	}
	f.pin()
	if !r.Deadline.IsZero() {
		f.detail("its deadline is %s; then it fails", f.when(r.Deadline))
	}
	if n, alone := exec.Crashes(r); n > 0 {
		f.detail("its lease has expired %s in a row: its worker was killed, hung, or lost the connection to the store; check the workers' logs of that time", count(n, "time", "times"))
		if alone {
			f.detail("a worker executes it alone, or did when its lease expired: if that lease expires and the count is above worker.MaxCrashes, the run fails")
		}
	}
	for _, p := range f.paused {
		switch {
		case p.Queue == r.Queue && f.x.Reason != ReasonQueuePaused:
			f.detail("its queue has been paused since %s: the run cannot be claimed until the queue is resumed", f.when(p.Since))
		case p.Workflow == r.Workflow && f.x.Reason != ReasonWorkflowPaused:
			f.detail("its workflow has been paused since %s: the run cannot be claimed until the workflow is resumed", f.when(p.Since))
		}
	}
	if n := len(f.box.Signals); n > 0 {
		f.detail("%s unread: %s", count(n, "signal is", "signals are"), signalNames(f.box.Signals))
	}
	for _, g := range f.box.Groups {
		if g.Open > 0 && f.x.Reason != ReasonChildren {
			f.detail("children %q: %s", g.Name, groupText(g))
		}
	}
}

func (f *facts) final() {
	r := f.run
	took := r.FinishedAt.Sub(r.CreatedAt).Round(time.Millisecond)
	switch r.Status {
	case store.Completed:
		f.say(ReasonCompleted, "The run completed at %s, %v after its creation.", f.when(r.FinishedAt), took)
		f.detail("%s recorded", count(f.done, "step is", "steps are"))
	case store.Failed:
		f.say(ReasonFailed, "The run failed at %s, in attempt %d: %s", f.when(r.FinishedAt), r.Attempt, message(r.Failure))
		if r.Failure != nil {
			f.detail("the failure's code is %q", r.Failure.Code)
			f.why(r.Failure.Code)
		}
		if f.last != nil {
			f.detail("the step that ended last is %s (%s)", f.last.StepKey, f.last.Status)
		}
		f.act("restart it: it resumes after the steps that completed, and retries what failed")
		f.act("fork it from a step: a new run continues from there, and this one stays unchanged")
	case store.Canceled:
		f.say(ReasonCanceled, "The run was canceled at %s: %s", f.when(r.FinishedAt), message(r.Failure))
		f.act("restart it if it should continue after all")
	}
	if r.Worker != "" {
		f.detail("worker %q ended it", r.Worker)
	}
}

// why adds advice for a failure code of the engine.
func (f *facts) why(code string) {
	switch code {
	case exec.CodeNondeterministic:
		f.act("before restarting it, deploy the code that recorded its history, or give the changed workflow a new version")
	case exec.CodeDeadlock:
		f.act("before restarting it, deploy code in which one of the branches named by the failure can proceed: unchanged code blocks at the same place")
	case exec.CodeCrashed:
		f.act("before restarting it, check the workers' logs for why it ends its process (memory, a fatal error, a step that blocks)")
	case exec.CodeDecode:
		f.act("deploy code whose type accepts the payload, and restart the run: it receives a signal that was skipped again; to change the input, start a new run")
	case exec.CodeDeadline:
		f.detail("its deadline was %s", f.when(f.run.Deadline))
		f.act("a restarted run has no deadline")
	}
}

func message(fl *store.Failure) string {
	if fl == nil || fl.Message == "" {
		return "no reason was recorded."
	}
	return fl.Message
}

// held explains a run that a worker holds, or held.
func (f *facts) held() {
	r := f.run
	canceling := r.Status == store.Canceling
	holder := "nobody"
	i := slices.IndexFunc(f.workers, func(w store.Worker) bool { return w.ID == r.Worker })
	if r.Worker != "" {
		holder = fmt.Sprintf("worker %q", r.Worker)
		if i >= 0 {
			holder += fmt.Sprintf(" (host %s, process %d)", f.workers[i].Host, f.workers[i].PID)
		}
	}
	switch {
	case r.Worker == "":
		f.say(ReasonCanceling, "The run is being canceled and waits for a worker to clean up and end it: %s", message(r.Failure))
		f.demand()
	case !r.VisibleAt.After(f.now):
		f.say(ReasonLeaseOver, "The run was leased to %s, which has not renewed the lease: it expired at %s, and any worker may take the run over.", holder, f.when(r.VisibleAt))
		f.demand()
	case i < 0 || f.workers[i].Status == store.Offline:
		f.x.Until = r.VisibleAt
		f.say(ReasonHolderSilent, "The run is leased to %s, which does not respond: the lease ends at %s, and then another worker takes the run over.", holder, f.when(r.VisibleAt))
		if i >= 0 {
			f.detail("the worker last reported at %s", f.when(f.workers[i].SeenAt))
		} else {
			f.detail("the worker has removed its registration, or never registered")
		}
		f.act("wait until the lease ends")
	case canceling:
		f.say(ReasonCanceling, "The run is being canceled (%s), and %s still executes it: it ends when its code has returned and cleaned up.", message(r.Failure), holder)
		f.detail("the lease, which the worker renews, lasts until %s", f.when(r.VisibleAt))
		f.act("check the running step: it should return when its context ends")
	default:
		f.say(ReasonRunning, "The run is executed by %s.", holder)
		f.detail("the lease, which the worker renews, lasts until %s", f.when(r.VisibleAt))
		if f.workers[i].Status == store.Draining {
			f.detail("the worker is shutting down: it releases the run after the current step")
		}
	}
	if r.Pausing {
		f.detail("a pause is pending: the run stops after the running step")
		f.act("resume it to cancel the pause")
	}
	f.steps()
	if len(f.open) == 0 && f.x.Reason == ReasonRunning {
		f.detail("no running step is known; a step is shown once it has run for a second")
	}
}

// blocked says that a pause keeps the run from being claimed.
func (f *facts) blocked() bool {
	for _, p := range f.paused {
		switch {
		case p.Queue != "" && p.Queue == f.run.Queue:
			f.say(ReasonQueuePaused, "The run is due, but its queue %q has been paused since %s.", p.Queue, f.when(p.Since))
			f.act("resume the queue")
			return true
		case p.Workflow != "" && p.Workflow == f.run.Workflow:
			f.say(ReasonWorkflowPaused, "The run is due, but its workflow %q has been paused since %s.", p.Workflow, f.when(p.Since))
			f.act("resume the workflow")
			return true
		}
	}
	return false
}

// serving returns the workers that would claim the run, and the queues from which online
// workers otherwise take its workflow.
func (f *facts) serving() (online []store.Worker, elsewhere []string) {
	workers := f.ofBuild()
	for i := range workers {
		if w := &workers[i]; w.Serves(f.run.Queue, f.run.Workflow) {
			online = append(online, *w)
		}
	}
	if len(online) == 0 {
		elsewhere = queuesServed(workers, f.run.Workflow)
	}
	return online, elsewhere
}

// unserved says that no worker can claim the run.
func (f *facts) unserved() bool {
	online, elsewhere := f.serving()
	if len(online) > 0 {
		return false
	}
	r := f.run
	switch {
	case r.Pin != nil:
		f.say(ReasonNoWorker, "The run is due and pinned to build %q, but no online worker of that build takes its workflow %q from its queue %q.", r.Pin.Build, r.Workflow, r.Queue)
		f.act("run a worker of build %q that serves workflow %q in queue %q, or unpin the run", r.Pin.Build, r.Workflow, r.Queue)
	case len(elsewhere) > 0:
		f.say(ReasonNoWorker, "The run is due, but no worker takes its workflow %q from its queue %q: online workers take it from %s.", r.Workflow, r.Queue, quoted(elsewhere))
		f.act("run a worker with worker.Queues(%q), or cancel the run and start it in a queue that is served", r.Queue)
	case !f.known:
		f.say(ReasonNeverServed, "The run is due, but no worker has ever registered its workflow %q.", r.Workflow)
		f.act("check the name, and run a worker that registers it")
	default:
		f.say(ReasonNoWorker, "The run is due, but no worker that serves its workflow %q is online.", r.Workflow)
		if f.foreign {
			f.act("start a worker that registers it, with worker.Queues(%q): the run is not in its workflow's default queue", r.Queue)
		} else {
			f.act("start a worker that registers it")
		}
	}
	for i := range f.workers {
		if w := &f.workers[i]; slices.Contains(w.Workflows, r.Workflow) && w.Status != store.Online {
			f.detail("worker %q (host %s, process %d), which serves the workflow, is %s; it last reported at %s", w.ID, w.Host, w.PID, w.Status, f.when(w.SeenAt))
		}
	}
	return true
}

// demand adds which workers may take the run over.
func (f *facts) demand() {
	if online, _ := f.serving(); f.isStranded() {
		return // pin says it
	} else if len(online) == 0 {
		f.detail("no worker that serves its workflow and queue is online")
		f.act("start a worker that serves workflow %q in queue %q", f.run.Workflow, f.run.Queue)
	} else {
		f.detail("%s online that may take it", count(len(online), "worker is", "workers are"))
	}
}

func (f *facts) pending() {
	r := f.run
	if r.VisibleAt.After(f.now) {
		f.x.Until = r.VisibleAt
		switch n, _ := exec.Crashes(r); {
		case SetAside(r):
			f.setAside()
		case n > 0:
			f.say(ReasonSuspect, "The run waits as a suspect until %s: its leases expired in a row, and workers execute such runs one at a time to find the one that kills its worker.", f.when(r.VisibleAt))
		case r.Failure != nil:
			f.say(ReasonRetry, "The run failed in attempt %d, and attempt %d is due at %s: %s", r.Attempt-1, r.Attempt, f.when(r.VisibleAt), message(r.Failure))
		default:
			f.say(ReasonScheduled, "The run is scheduled to start at %s.", f.when(r.VisibleAt))
		}
		if online, _ := f.serving(); len(online) == 0 {
			f.detail("no worker that serves its workflow and queue is online now")
		}
		return
	}
	f.turn()
}

// SetAside reports whether a worker gave the run back because it could not read the run or
// open its payloads (workflow.CodeUnreadable, workflow.CodeCodec), and the run waits to be
// taken again. The run's failure says why.
func SetAside(r *store.Run) bool {
	return r.Status == store.Pending && r.Failure != nil && (r.Failure.Code == exec.CodeUnreadable || r.Failure.Code == exec.CodeCodec)
}

// setAside explains a run that a worker has released for a while.
func (f *facts) setAside() {
	r := f.run
	f.say(ReasonSetAside, "A worker claimed the run but could not execute it; any worker may claim it again at %s: %s", f.when(r.VisibleAt), message(r.Failure))
	f.detail("the failure's code is %q; nothing was recorded, and the attempt does not count", r.Failure.Code)
	if r.Failure.Code == exec.CodeCodec {
		f.act("give every worker the codec and the keys that encoded the run's payloads; the workers' logs show which worker could not decode them")
	}
}

// turn explains a run that is due.
func (f *facts) turn() {
	if f.blocked() || f.stranded() || f.unserved() {
		return
	}
	r := f.run
	if f.limited() {
		f.act("wait; or raise the limit with pawl limits set, or Engine.SetLimit")
		return
	}
	if f.err != nil {
		return
	}
	online, _ := f.serving()
	f.say(ReasonWaiting, "The run has been due since %s and waits for a free slot on a worker that serves it.", f.when(r.VisibleAt))
	held, err := f.e.listWorkers(f.ctx, false)
	if err != nil {
		f.err = err
		return
	}
	var slots int
	var busy int64
	for i := range held {
		w := &held[i]
		if slices.ContainsFunc(online, func(o store.Worker) bool { return o.ID == w.ID }) {
			slots, busy = slots+w.Slots, busy+w.Held
			if n := w.Limits[r.Workflow]; n > 0 {
				f.detail("worker %q executes at most %s of this workflow at the same time", w.ID, count(n, "run", "runs"))
			}
		}
	}
	f.detail("%s online with %s in total, and they hold %s", count(len(online), "worker is", "workers are"), count(slots, "slot", "slots"), count(int(busy), "run", "runs"))
	counts, err := f.e.Count(f.ctx, store.RunFilter{Queue: r.Queue, Statuses: []store.Status{store.Pending}})
	if err != nil {
		f.err = err
		return
	}
	var pending int64
	least := ""
	for _, c := range counts {
		pending += c.Count
		if c.Capped {
			least = "at least "
		}
	}
	f.detail("%s%s pending in queue %q, including this run and runs that are not due yet; its priority is %d", least, count(int(pending), "run is", "runs are"), r.Queue, r.Priority)
	f.ahead()
	f.act("wait a moment and check again; if it is still waiting, add workers or slots")
}

// ahead says how many runs will be claimed before a due run.
func (f *facts) ahead() {
	ranker, ok := f.e.store.(store.Ranker)
	if !ok {
		return
	}
	var n int
	err := f.e.retry(f.ctx, func(ctx context.Context) (err error) {
		n, err = ranker.Ahead(ctx, store.AheadParams{Namespace: f.e.namespace, Run: f.run.ID})
		return err
	})
	switch {
	case errors.Is(err, store.ErrUnsupported):
	case err != nil:
		f.err = err
	case n > store.MaxAhead:
		f.detail("ahead of it: more than %d due runs of its workflow and queue", store.MaxAhead)
	default:
		f.detail("ahead of it: %s of its workflow and queue", count(n, "due run", "due runs"))
	}
}

func (f *facts) sleeping() {
	r := f.run
	if !r.VisibleAt.IsZero() && !r.VisibleAt.After(f.now) {
		f.turn()
		f.detail("it was sleeping, and the event that it waited for has occurred")
		f.steps()
		return
	}
	f.x.Until = r.VisibleAt
	until := "until an event comes"
	if !r.VisibleAt.IsZero() {
		until = "until " + f.when(r.VisibleAt)
	}
	waits := map[store.StepKind][]string{}
	for i := range f.open {
		s := &f.open[i]
		switch {
		case s.Status == store.StepPending:
			waits[0] = append(waits[0], s.StepKey.String())
		default:
			waits[s.Kind] = append(waits[s.Kind], s.StepKey.String())
		}
	}
	var groups []string
	for _, g := range f.box.Groups {
		if g.Open > 0 {
			groups = append(groups, fmt.Sprintf("%d of %d in group %q", g.Open, g.Total, g.Name))
		}
	}
	list := func(keys []string) string { return strings.Join(keys, ", ") }
	switch {
	case len(waits[store.KindSignal]) > 0:
		f.say(ReasonSignal, "The run sleeps %s and waits for signal %s.", until, list(waits[store.KindSignal]))
		f.act("send it the signal, or cancel it")
	case len(groups) > 0:
		f.say(ReasonChildren, "The run sleeps %s and waits for children that are not final: %s.", until, strings.Join(groups, "; "))
		f.act("explain the children that are not final; to find them, list the runs by parent")
	case len(waits[0]) > 0:
		f.say(ReasonStepRetry, "The run sleeps %s, when it retries step %s.", until, list(waits[0]))
	case len(waits[store.KindSleep]) > 0:
		f.say(ReasonSleep, "The run sleeps %s, in step %s.", until, list(waits[store.KindSleep]))
	default:
		f.say(ReasonEvent, "The run sleeps %s.", until)
		f.act("change what it waits for: its flow state, or a signal")
	}
	f.steps()
	if online, _ := f.serving(); len(online) == 0 {
		f.detail("no worker that serves its workflow and queue is online now")
	}
}

// steps adds what is known about steps that have not ended.
func (f *facts) steps() {
	const most = 10
	for i := range f.open {
		if i == most {
			f.detail("%d more steps have not ended", len(f.open)-most)
			break
		}
		s := &f.open[i]
		switch {
		case s.Status == store.StepPending:
			f.detail("step %s failed in attempt %d and is retried at %s: %s", s.StepKey, s.Attempt, f.when(s.DueAt), message(s.Failure))
		case s.Name == exec.CleanupLimit && s.Kind == store.KindSleep:
			if !s.DueAt.IsZero() {
				f.detail("it is cleaning up, until %s at the latest", f.when(s.DueAt))
			}
		case s.Kind == store.KindSleep && !s.DueAt.IsZero():
			f.detail("step %s sleeps until %s", s.StepKey, f.when(s.DueAt))
		case s.Kind == store.KindFunction:
			f.function(s)
		case !s.DueAt.IsZero():
			f.detail("step %s (%s) has waited since %s and waits until %s at the latest", s.StepKey, s.Kind, f.when(s.StartedAt), f.when(s.DueAt))
		default:
			f.detail("step %s (%s) has waited since %s", s.StepKey, s.Kind, f.when(s.StartedAt))
		}
		for _, a := range s.Earlier {
			f.detail("step %s failed earlier, in attempt %d, which began at %s: %s", s.StepKey, a.Attempt, f.when(a.StartedAt), a.Message)
		}
	}
	if f.last != nil {
		f.detail("%s ended, the last one %s (%s) at %s", count(f.done, "step has", "steps have"), f.last.StepKey, f.last.Status, f.when(f.last.FinishedAt))
	}
}

// function explains a step whose function is running. The record has the timeout of an
// attempt only if the present holder has begun it.
func (f *facts) function(s *store.Step) {
	held := f.run.Worker != "" && (f.x.Reason == ReasonRunning || f.x.Reason == ReasonCanceling)
	if s.DueAt.IsZero() || s.Epoch != f.run.Epoch || !held {
		f.detail("step %s has been running in attempt %d since %s", s.StepKey, s.Attempt, f.when(s.StartedAt))
		return
	}
	timeout := s.DueAt.Sub(s.StartedAt)
	if f.now.Before(s.DueAt.Add(exec.Patience(timeout))) {
		f.detail("step %s has been running in attempt %d since %s; the attempt's timeout ends at %s", s.StepKey, s.Attempt, f.when(s.StartedAt), f.when(s.DueAt))
		return
	}
	f.detail("step %s has run for %v in attempt %d, past its timeout of %v: its function ignores its context", s.StepKey, f.now.Sub(s.StartedAt).Round(time.Millisecond), s.Attempt, timeout)
	f.act("make the function of step %s return when its context ends; restart the worker if the function hangs", s.StepKey)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func groupText(g store.Group) string {
	return fmt.Sprintf("%d of %d are not final; %d completed, %d failed, %d were canceled", g.Open, g.Total, g.Completed, g.Failed, g.Canceled)
}

func signalNames(signals []store.Signal) string {
	times := map[string]int{}
	var names []string
	for _, s := range signals {
		if times[s.Name]++; times[s.Name] == 1 {
			names = append(names, s.Name)
		}
	}
	for i, n := range names {
		if times[n] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", n, times[n])
		}
	}
	return strings.Join(names, ", ")
}
