package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A watcher sees each call in the order in which the store applies it, and compares the answer with
// the one that the contract requires after all earlier calls. It keeps its own record of each run
// and never asks the store.

// seen is the watcher's record of one run.
type seen struct {
	id       store.ID
	plan     int
	name     string // for people
	external string
	created  time.Time
	deadline time.Time
	due      time.Time // not to be claimed before; while leased: the lease's end
	epoch    int64
	worker   string // while leased
	holder   *wire  // of the last lease
	claim    int64  // that gave it
	seq      int64
	crashes  int // leases in a row that ran out
	worst    int // the most of them
	status   store.Status
	cancel   bool
	steps    map[store.StepKey]seenStep
	sleeper  map[store.StepKey]int64 // the epoch that first recorded a sleep
	fed      *seenFed                // nil: it is not of a feed

	before  store.Status       // up to which the changes are
	changes []store.ChangeKind // of its status, in order
	told    int                // of which the receiver of the webhook knows
}

type seenStep struct {
	position int64
	status   store.StepStatus
	output   string
}

func (s *seen) final() bool { return s.status.Final() }

type watched struct {
	*world
	from *wire
}

// alone keeps other calls from the store until the function that it returns is called, so that a
// call and its note are one operation.
func (w *world) alone() (done func()) {
	w.calls <- struct{}{}
	return func() {
		w.tell()
		<-w.calls
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func micro(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

func (w watched) create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	defer w.alone()()
	p.Now = w.now(p.Now)
	results, err := w.store.Create(ctx, p)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock()
	for i, res := range results {
		n := &p.Runs[i]
		if n.Signal != nil {
			w.fedCreate(n, res, now)
			continue
		}
		s := w.runs[res.ID]
		w.noteLocked(w.from.who, "create %s: created %v lease %d %v", w.name(n.ID), res.Created, res.Lease.Epoch, res.Err)
		switch {
		case res.Err != nil:
			w.failLocked("create of run %s: %v", w.name(n.ID), res.Err)
		case !res.Created:
			w.count("external id taken")
			if s == nil || s.final() || s.external != n.ExternalID || n.ExternalID == "" {
				w.failLocked("create of run %s with external id %q was told of run %s, which is not active or has another external id", w.name(n.ID), n.ExternalID, w.name(res.ID))
			}
		case s != nil:
			w.count("create repeated")
			if res.Lease.Epoch != 0 && (s.worker != n.Worker || s.epoch != 1) {
				w.failLocked("create of run %s, repeated, gave a lease that the run does not have", w.name(n.ID))
			}
		default:
			if n.ExternalID != "" {
				for _, other := range w.runs {
					if other.external == n.ExternalID && !other.final() {
						w.failLocked("runs %s and %s are active with one external id", w.name(other.id), w.name(n.ID))
					}
				}
			}
			var in input
			if err := json.Unmarshal(n.Input, &in); err != nil {
				w.failLocked("run %s was made with input %q", n.ID, n.Input)
			}
			s = &seen{id: n.ID, plan: in.Plan, name: fmt.Sprint("r", in.Plan), external: n.ExternalID, created: now, due: micro(now.Add(n.After)), status: store.Pending,
				steps: map[store.StepKey]seenStep{}, sleeper: map[store.StepKey]int64{}}
			if n.At.After(s.due) {
				s.due = micro(n.At)
			}
			if n.Timeout > 0 {
				s.deadline = micro(now.Add(n.Timeout))
				s.due = earliest(s.due, s.deadline)
			}
			if n.Worker != "" && res.Lease.Epoch == 1 {
				w.count("eager start")
				s.epoch, s.worker, s.holder, s.status, s.due = 1, n.Worker, w.from, store.Running, micro(now.Add(n.LeaseFor))
			}
			for _, other := range w.runs {
				if other.name == s.name {
					s.name += "'"
				}
			}
			w.runs[n.ID] = s
			w.limits.created(w.world, n, &res)
			w.noteLocked(w.from.who, "run %s is %s", n.ID, s.name)
		}
	}
	return results, nil
}

func (w watched) claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	defer w.alone()()
	p.Now = w.now(p.Now)
	out, err := w.store.Claim(ctx, p)
	if err != nil {
		return out, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := micro(w.clock())
	if len(out.Runs) > p.Max {
		w.failLocked("a claim of %d got %d runs", p.Max, len(out.Runs))
	}
	for i := range out.Runs {
		c := &out.Runs[i]
		id := c.Run.ID
		s := w.runs[id]
		if s == nil {
			w.failLocked("run %s was claimed and never made", w.name(id))
			continue
		}
		if p.Again {
			w.count("claim found again")
			w.noteLocked(w.from.who, "claim %s again: epoch %d", w.name(id), c.Lease.Epoch)
			if s.worker != p.Worker || s.epoch != c.Lease.Epoch || s.holder != w.from || s.claim != p.ClaimID || !s.due.After(now) {
				w.failLocked("run %s was found again under epoch %d, and worker %q holds it under epoch %d", w.name(id), c.Lease.Epoch, s.worker, s.epoch)
			}
			w.replay(s, c)
			continue
		}
		w.leased(c, p.Worker, p.ClaimID, p.LeaseFor, now)
	}
	return out, nil
}

// leased notes the lease of a run that a claim has returned, or a commit that passed permits on.
func (w watched) leased(c *store.ClaimedRun, worker string, claim int64, leaseFor time.Duration, now time.Time) {
	id, s := c.Run.ID, w.runs[c.Run.ID]
	leased := s.worker != ""
	w.noteLocked(w.from.who, "claim %s: epoch %d recovered %v steps %d", w.name(id), c.Lease.Epoch, c.Recovered, len(c.Steps))
	if s.due.After(now) && (leased || s.fed == nil) { // what a feed's run waits for may have come earlier
		if leased {
			w.failLocked("run %s was claimed %v before the lease of %s ended", w.name(id), s.due.Sub(now), s.worker)
		} else {
			w.failLocked("run %s was claimed %v before it was due", w.name(id), s.due.Sub(now))
		}
	}
	if s.final() {
		w.failLocked("run %s was claimed though it is %v", w.name(id), s.status)
	}
	if c.Lease.Epoch != s.epoch+1 {
		w.failLocked("run %s was claimed with epoch %d after epoch %d", w.name(id), c.Lease.Epoch, s.epoch)
	}
	w.limits.claimed(w.world, s, now)
	if leased {
		w.count("takeover")
		if s.holder == w.from {
			w.count("takeover by the holder itself")
		}
		s.crashes++
		s.worst = max(s.worst, s.crashes)
	}
	if c.Run.Crashes != s.crashes {
		w.failLocked("run %s was claimed with %d crashes, and there were %d", w.name(id), c.Run.Crashes, s.crashes)
	}
	if c.Recovered != (s.crashes > 0) {
		w.failLocked("run %s was claimed with Recovered %v, and it has %d crashes", w.name(id), c.Recovered, s.crashes)
	}
	if s.status == store.Sleeping {
		w.count("suspended and resumed")
	}
	w.replay(s, c)
	s.epoch, s.worker, s.holder, s.seq, s.due = c.Lease.Epoch, worker, w.from, 0, micro(now.Add(leaseFor))
	s.claim = claim
	if s.status = store.Running; s.cancel {
		s.status = store.Canceling
	}
	if c.Run.Status != s.status {
		w.failLocked("run %s was claimed as %v, expected %v", w.name(id), c.Run.Status, s.status)
	}
}

// replay compares the steps that a claim returned with those that were recorded.
func (w watched) replay(s *seen, c *store.ClaimedRun) {
	if c.MoreSteps {
		return
	}
	if len(c.Steps) != len(s.steps) {
		w.failLocked("run %s was claimed with %d steps, and %d are recorded", w.name(s.id), len(c.Steps), len(s.steps))
	}
	for _, st := range c.Steps {
		if have, ok := s.steps[st.StepKey]; !ok || have.status != st.Status || have.output != string(st.Output) || have.position != st.Position {
			w.failLocked("run %s was claimed with step %s %v %q, recorded was %v %q", w.name(s.id), st.StepKey, st.Status, st.Output, have.status, have.output)
		}
	}
}

func (w watched) extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	defer w.alone()()
	p.Now = w.now(p.Now)
	states, err := w.store.Extend(ctx, p)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := micro(w.clock())
	for i, st := range states {
		l := p.Leases[i]
		s := w.runs[l.Run]
		held := s != nil && s.worker == l.Worker && s.epoch == l.Epoch
		if st.Lost {
			w.count("lease lost, by extend")
			if w.from.frozen.Load() {
				w.count("zombie told by extend")
			}
		}
		if len(states) > 0 {
			w.noteLocked(w.from.who, "extend %s epoch %d: lost %v", w.name(l.Run), l.Epoch, st.Lost)
		}
		switch {
		case held == st.Lost:
			w.failLocked("extend told worker %s that the lease of run %s, epoch %d, is lost: %v; held: %v", l.Worker, w.name(l.Run), l.Epoch, st.Lost, held)
		case held:
			s.due = micro(now.Add(p.LeaseFor))
			if st.Canceling != s.cancel {
				w.failLocked("extend told that run %s is canceling: %v, expected %v", w.name(l.Run), st.Canceling, s.cancel)
			}
		}
	}
	return states, nil
}

func (w watched) cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	defer w.alone()()
	p.Now = w.now(p.Now)
	results, err := w.store.Cancel(ctx, p)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, res := range results {
		s := w.runs[p.IDs[i]]
		w.noteLocked(w.from.who, "cancel %s: %v %v", w.name(p.IDs[i]), res.Status, res.Err)
		switch {
		case s == nil:
			if !errors.Is(res.Err, store.ErrNotFound) {
				w.failLocked("cancel of a run that does not exist: %v", res.Err)
			}
		case s.status == store.Completed || s.status == store.Failed:
			if !errors.Is(res.Err, store.ErrFinished) {
				w.failLocked("cancel of run %s, which is %v: %v", w.name(s.id), s.status, res.Err)
			}
		case res.Err != nil:
			w.failLocked("cancel of run %s, which is %v: %v", w.name(s.id), s.status, res.Err)
		case s.cancel: // again: nothing changes
		case s.worker == "" && len(s.steps) == 0:
			w.count("canceled at once")
			s.status, s.cancel = store.Canceled, true
		case s.worker == "":
			w.count("canceled while it waited")
			w.limits.canceledWaiting(s)
			s.status, s.cancel, s.due = store.Canceling, true, earliest(s.due, micro(w.clock()))
		default:
			w.count("canceled while leased")
			s.status, s.cancel = store.Canceling, true
		}
		if s != nil && res.Err == nil && res.Status != s.status {
			w.failLocked("run %s is %v after a cancel, expected %v", w.name(s.id), res.Status, s.status)
		}
	}
	return results, nil
}

func (w watched) commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	defer w.alone()()
	p.Now = w.now(p.Now)
	results, err := w.store.Commit(ctx, p)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(results) > 1 {
		w.count("commits shared a write")
	}
	for i, res := range results {
		w.committed(&p.Commits[i], res, micro(w.clock()))
	}
	return results, nil
}

func (w watched) committed(c *store.Commit, res store.CommitResult, now time.Time) {
	l := c.Lease
	s := w.runs[l.Run]
	if s == nil {
		w.failLocked("a commit for run %s, which does not exist", l.Run)
		return
	}
	kind := store.TransitionKind(0)
	if c.Transition != nil {
		kind = c.Transition.Kind
	}
	w.noteLocked(w.from.who, "commit %s epoch %d seq %d: %d steps, %v; repeated %v %v", w.name(l.Run), l.Epoch, c.Seq, len(c.Steps), kind, res.Repeated, res.Err)
	held := s.worker == l.Worker && s.epoch == l.Epoch
	last := s.epoch == l.Epoch && s.holder != nil
	switch {
	case errors.Is(res.Err, store.ErrLeaseLost):
		w.count("lease lost, by commit")
		if w.from.frozen.Load() {
			w.count("zombie fenced")
		}
		if held {
			w.failLocked("a commit of run %s under its present lease, epoch %d, was refused: %v", w.name(s.id), l.Epoch, res.Err)
		}
		return
	case res.Err != nil:
		w.failLocked("commit of run %s: %v", w.name(s.id), res.Err)
		return
	case res.Repeated:
		w.count("commit repeated")
		if !last || c.Seq > s.seq {
			w.failLocked("commit %d of run %s, epoch %d, was taken for a repetition; applied was %d of epoch %d", c.Seq, w.name(s.id), l.Epoch, s.seq, s.epoch)
		}
		return
	case !held:
		w.failLocked("a commit of run %s by %s, epoch %d, was applied; the run's epoch is %d, its holder %q", w.name(s.id), l.Worker, l.Epoch, s.epoch, s.worker)
		return
	case c.Seq != s.seq+1:
		w.failLocked("commit %d of run %s, epoch %d, was applied after %d", c.Seq, w.name(s.id), l.Epoch, s.seq)
		return
	}
	s.seq, s.crashes = c.Seq, c.Crashes
	w.limits.committed(w.world, s, c)
	for i := range c.Steps {
		w.recorded(s, &c.Steps[i], now)
	}
	if s.fed != nil {
		w.fedCommit(s, c, now)
	}
	if c.Transition != nil {
		w.transition(s, c.Transition, now)
	}
	if next := res.Next; next != nil {
		w.count("permits passed on")
		switch to := w.runs[next.Run.ID]; {
		case to == nil:
			w.failLocked("the permits of run %s were passed on to run %s, which was never made", w.name(s.id), w.name(next.Run.ID))
		case s.worker != "" || to.worker != "":
			w.failLocked("the permits of run %s were passed on to run %s, and one of them is leased", w.name(s.id), to.name)
		default:
			w.leased(next, l.Worker, 0, c.Transition.PassOn, now)
		}
	}
	if res.Status != s.status {
		w.failLocked("run %s is %v after a commit with %v, expected %v", w.name(s.id), res.Status, kind, s.status)
	}
}

func (w watched) recorded(s *seen, r *store.StepRecord, now time.Time) {
	if have, ok := s.steps[r.StepKey]; ok && have.status.Final() {
		w.failLocked("step %s of run %s is recorded as %v again, it was %v", r.StepKey, w.name(s.id), r.Status, have.status)
		return
	}
	position := r.Position
	if have, ok := s.steps[r.StepKey]; ok {
		position = have.position
	}
	s.steps[r.StepKey] = seenStep{position: position, status: r.Status, output: string(r.Output)}
	switch r.Kind {
	case store.KindFunction:
		switch r.Status {
		case store.StepCompleted:
			var out stepOut
			err := json.Unmarshal(r.Output, &out)
			if e := w.executions[out.X]; err != nil || e == nil || e.run != s.id || e.key != r.StepKey || !e.succeeded || e.by != w.from {
				w.failLocked("step %s of run %s is recorded with %q, which no execution of its holder returned", r.StepKey, w.name(s.id), r.Output)
			}
		case store.StepPending:
			w.count("retry waits")
		case store.StepRunning:
			w.count("long step shown")
		case store.StepFailed:
			w.count("step failed for good")
		}
	case store.KindSleep:
		if _, ok := s.sleeper[r.StepKey]; !ok {
			s.sleeper[r.StepKey] = s.epoch
		}
	}
}

func (w watched) transition(s *seen, t *store.Transition, now time.Time) {
	s.worker = ""
	var due time.Time
	if t.After > 0 {
		due = micro(now.Add(t.After.Truncate(time.Microsecond)))
	}
	due = earliest(due, micro(t.At))
	switch t.Kind {
	case store.CompleteRun:
		s.status = store.Completed
	case store.FailRun:
		s.status = store.Failed
		w.count("failed: " + t.Failure.Code)
		if t.Failure.Code == "crashed" && s.worst <= w.profile.maxCrashes {
			w.failLocked("run %s failed as crashed after %d crashes in a row", w.name(s.id), s.worst)
		}
		if t.Failure.Code == "deadline" && (s.deadline.IsZero() || now.Before(s.deadline)) {
			w.failLocked("run %s failed for its deadline of %v at %v", w.name(s.id), s.deadline, now)
		}
	case store.CancelRun:
		s.status = store.Canceled
		if !s.cancel {
			w.failLocked("run %s is canceled, and nobody asked for it", w.name(s.id))
		}
	case store.Sleep:
		s.status, s.due = store.Sleeping, due
	case store.Retry:
		w.count("run tried again")
		s.status, s.due = store.Pending, due
		if due.IsZero() {
			s.due = now
		}
		w.forget(s)
	case store.Continue:
		s.status, s.due = store.Pending, now
		clear(s.steps)
		clear(s.sleeper)
	case store.Release:
		w.count("released")
		if s.status, s.due = store.Pending, due; due.IsZero() {
			s.due = now
		}
	}
	if s.final() {
		return
	}
	if s.cancel {
		if s.status = store.Canceling; t.Kind != store.Release {
			s.due = now
		}
	}
	s.due = earliest(s.due, s.deadline)
}

// forget deletes what a retry of the run does again: each failed step, and what followed it in its
// line of execution.
func (w watched) forget(s *seen) {
	failed := map[store.StepKey]int64{}
	for key, st := range s.steps {
		if st.status == store.StepFailed {
			failed[key] = st.position
		}
	}
	for key, st := range s.steps {
		for f, position := range failed {
			if key == f || st.position > position && key.Related(f) {
				delete(s.steps, key)
				delete(s.sleeper, key)
			}
		}
	}
}

// executing is called when an execution of a step begins.
func (w *world) executing(p *proc, run store.ID, key store.StepKey) *execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastX++
	e := &execution{x: w.lastX, run: run, key: key, by: p.wire, began: w.clock()}
	w.executions[e.x] = e
	s := w.runs[run]
	if s == nil {
		w.failLocked("step %s of run %s is executed, and the run was never made", key, w.name(run))
		return e
	}
	w.noteLocked(p.wire.who, "executes %s of %s", key, w.name(run))
	if st, ok := s.steps[key]; ok && st.status.Final() {
		w.failLocked("step %s of run %s is executed after its record was durable (%v)", key, w.name(run), st.status)
	}
	return e
}

// execution is one call of a step's function.
type execution struct {
	x         int64
	run       store.ID
	key       store.StepKey
	by        *wire
	began     time.Time
	succeeded bool
	epoch     int64 // of its lease
}

// stepOut is the output of steps and values.
type stepOut struct {
	X int64 `json:"x"`
}
