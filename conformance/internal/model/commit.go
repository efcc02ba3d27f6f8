package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := make([]store.CommitResult, len(p.Commits))
	seen := map[store.ID]bool{}
	s.passing = &bound{left: store.DefaultClaimBytes}
	for i := range p.Commits {
		c := &p.Commits[i]
		if seen[c.Lease.Run] {
			out[i].Err = store.Invalid("commit", fmt.Sprintf("the call has two commits of run %s; send them one after the other", c.Lease.Run))
			continue
		}
		seen[c.Lease.Run] = true
		out[i] = s.commit(p.Namespace, c, now)
	}
	return out, nil
}

// commit applies all of one commit or nothing (P3). It checks everything that can fail before it
// makes the first change.
func (s *Store) commit(namespace string, c *store.Commit, now time.Time) store.CommitResult {
	if err := c.Validate(s.limits); err != nil {
		return store.CommitResult{Err: err}
	}
	r := s.find(namespace, c.Lease.Run)
	if s.breaks == LimitZombieGives && r != nil && r.Epoch > c.Lease.Epoch && c.Transition != nil {
		s.leak(r, -1)
	}
	if r == nil || r.Epoch != c.Lease.Epoch || r.holder != c.Lease.Worker {
		s.zombiePasses(r, c, now)
		return store.CommitResult{Err: leaseLost(c.Lease)}
	}
	if c.Seq <= r.seq { // P4, also when that commit has ended the lease
		if s.breaks == LimitGivesTwice && c.Transition != nil {
			s.leak(r, -1)
		}
		res := r.result()
		res.Repeated, res.Next = true, s.passedAgain(r, c, now)
		return res
	}
	if !r.leased() {
		return store.CommitResult{Err: leaseLost(c.Lease)}
	}
	if c.Seq > r.seq+1 {
		return store.CommitResult{Err: store.CommitsMissing(c.Lease, c.Seq, r.seq)}
	}
	if err := cmp.Or(r.checkSteps(c.Steps), s.checkSpawn(r, c.Spawn), r.checkUnder(c.Transition)); err != nil {
		return store.CommitResult{Err: err}
	}

	fresh, err := r.planStreams(c, now)
	if err != nil {
		return store.CommitResult{Err: err}
	}

	r.seq = c.Seq
	if c.Transition == nil || c.Transition.Kind != store.GiveBack { // P20
		r.Crashes = c.Crashes
	}
	if len(c.Steps) > 0 {
		r.Build = r.build
	}
	if c.Pin != nil {
		r.Pin = clonePin(c.Pin)
	}
	if c.Tags != nil {
		r.Tags = c.Tags.Clone()
	}
	if c.Free && len(r.StepUnder) > 0 && s.breaks != LimitLeaksFree {
		r.StepUnder = nil
		s.hintFreed(r)
	}
	unseen := r.Events > c.Seen // asked before the commit's own writes, which its holder knows
	for i := range c.Steps {
		r.record(&c.Steps[i], now)
	}
	for _, w := range c.State {
		r.write(w, now)
	}
	if len(c.State) > 0 {
		s.hintRun(store.HintState, r)
	}
	r.signals = slices.DeleteFunc(r.signals, func(sig store.Signal) bool { return slices.Contains(c.Consumed, sig.ID) })
	s.answer(r, c.Answers, now)
	s.write(r, c, fresh, now)
	var spawned []store.RunCount
	for i := range c.Spawn {
		if n := &c.Spawn[i]; s.spawn(r, n, now) {
			spawned = store.Tally(spawned, n.Queue, n.Workflow, store.Pending, 1)
		}
	}
	s.ended = nil
	next := s.endLease(r, c.Transition, unseen, now)
	res := r.result()
	res.Spawned, res.Ended, res.Next = spawned, s.ended, next
	return res
}

func leaseLost(l store.Lease) error {
	return fmt.Errorf("run %s, worker %s, epoch %d: %w", l.Run, l.Worker, l.Epoch, store.ErrLeaseLost)
}

func (r *run) result() store.CommitResult {
	res := store.CommitResult{Status: r.Status, Events: r.Events, Pausing: r.Pausing}
	if !r.leased() {
		res.VisibleAt = r.VisibleAt
	}
	return res
}

// step returns the place of a key's record, or -1.
func (r *run) step(key store.StepKey) int {
	return slices.IndexFunc(r.steps, func(st store.Step) bool { return st.StepKey == key })
}

// place returns the index of the step at a position.
func (r *run) place(position int64) (int, bool) {
	return slices.BinarySearchFunc(r.steps, position, func(st store.Step, p int64) int { return cmp.Compare(st.Position, p) })
}

// checkSteps refuses a new key at a position that another key has.
func (r *run) checkSteps(records []store.StepRecord) error {
	fresh := map[int64]store.StepKey{}
	for _, rec := range records {
		if r.step(rec.StepKey) >= 0 {
			continue // its position is fixed
		}
		_, taken := r.place(rec.Position)
		if key, ok := fresh[rec.Position]; taken || ok && key != rec.StepKey {
			return store.Invalid(fmt.Sprintf("step %q", rec.StepKey), fmt.Sprintf("another step has position %d", rec.Position))
		}
		fresh[rec.Position] = rec.StepKey
	}
	return nil
}

// record writes a step's record. It does not change a final one. The first record of a key sets its
// position.
func (r *run) record(rec *store.StepRecord, now time.Time) {
	st := store.Step{
		StepKey: rec.StepKey, Kind: rec.Kind, Status: rec.Status, Position: rec.Position, Index: rec.Index,
		Attempt: rec.Attempt, Epoch: r.Epoch, Output: rec.Output, Failure: rec.Failure, Earlier: rec.Earlier,
		StartedAt: after(now, -rec.Took), DueAt: micro(rec.DueAt),
	}
	st = cloneStep(st)
	if !rec.StartedAt.IsZero() {
		st.StartedAt = micro(rec.StartedAt)
	}
	if rec.DueIn > 0 {
		st.DueAt = after(now, rec.DueIn)
	}
	if rec.Status.Final() {
		st.FinishedAt = now
	}
	i := r.step(rec.StepKey)
	switch {
	case i < 0:
		i, _ = r.place(rec.Position)
		r.steps = slices.Insert(r.steps, i, st)
	case !r.steps[i].Status.Final():
		st.Position = r.steps[i].Position
		r.steps[i] = st
	}
}

// checkSpawn refuses a child whose ID belongs to a run that is not a child of this one: the parent
// would wait for another run.
func (s *Store) checkSpawn(r *run, spawn []store.NewRun) error {
	for i := range spawn {
		if c := s.runs[spawn[i].ID]; c != nil && (c.Namespace != r.Namespace || c.Parent != r.ID) {
			return store.Invalid("run id", fmt.Sprintf("child %d: another run has the id %s", i, spawn[i].ID))
		}
	}
	return nil
}

// spawn creates a child and counts it in its group. A child that exists was counted when it was
// created (P4, P9).
func (s *Store) spawn(parent *run, n *store.NewRun, now time.Time) (made bool) {
	if s.runs[n.ID] != nil {
		return false
	}
	c := s.insert(parent.Namespace, n, now)
	c.Parent, c.Group, c.Ordinal, c.OnClose = parent.ID, n.Group, n.Ordinal, n.OnClose
	s.children[parent.ID] = append(s.children[parent.ID], c.ID)
	if n.Group != "" {
		g := parent.groups[n.Group]
		if g == nil {
			g = &store.Group{Name: n.Group}
			parent.groups[n.Group] = g
		}
		g.Total++
		g.Open++
	}
	s.hintDue(c)
	return true
}

// transition ends the lease.
func (s *Store) transition(r *run, t *store.Transition, unseen bool, now time.Time) {
	s.leaksOn(r, t.Kind)
	if t.Kind.Final() {
		r.Output = bytes.Clone(t.Output)
		if t.Kind != store.CancelRun || t.Failure != nil { // else the cancel's reason stands
			r.Failure = cloneFailure(t.Failure)
		}
		s.finish(r, map[store.TransitionKind]store.Status{
			store.CompleteRun: store.Completed, store.FailRun: store.Failed, store.CancelRun: store.Canceled,
		}[t.Kind], now)
		return
	}

	status := store.Pending
	freed := len(r.Under)+len(r.StepUnder) > 0
	r.Worker, r.VisibleAt = "", now
	if s.breaks != LimitKeepsStep || len(t.Under) > 0 {
		r.StepUnder = store.SortUses(t.Under)
	}
	var due time.Time // zero: none
	if t.After > 0 {
		due = after(now, t.After)
	}
	due = earliest(due, micro(t.At))
	switch t.Kind {
	case store.Sleep:
		status = store.Sleeping
		r.VisibleAt = due
		r.wakes, r.awaits = t.Wakes, slices.Clone(t.Await)
		met := r.awaitMet()
		if met {
			r.awaits = nil // this sleep is over; no more events for it
		}
		if unseen || met { // P5
			r.VisibleAt = earliest(due, now)
		}
	case store.Retry:
		r.Attempt++
		r.charged = false
		if r.Status != store.Canceling { // whose reason stands
			r.Failure = cloneFailure(t.Failure)
		}
		r.forget()
		if !due.IsZero() {
			r.VisibleAt = due
		}
	case store.Release:
		if t.Failure != nil && r.Status != store.Canceling {
			r.Failure = cloneFailure(t.Failure)
		}
		if !due.IsZero() {
			r.VisibleAt = due
		}
	case store.Continue:
		s.anew(r, t)
	}
	switch {
	case r.Status == store.Canceling: // stays so, for somebody to end it: at once, unless its holder cannot
		if r.wakes, r.awaits = 0, nil; t.Kind != store.Release {
			r.VisibleAt = now
		}
	case r.Pausing:
		s.become(r, store.Paused, now)
		r.resume, r.Pausing = status, false
	default:
		r.Status = status
	}
	r.VisibleAt = earliest(r.VisibleAt, r.Deadline)
	if freed {
		s.hintFreed(r)
	} else {
		s.hintDue(r)
	}
}

// anew begins the next generation of a run.
func (s *Store) anew(r *run, t *store.Transition) {
	r.Input = bytes.Clone(t.Input)
	if r.Status != store.Canceling {
		r.Failure = nil
	}
	r.Generation++
	r.Attempt = 1
	r.charged = false
	r.Pin, r.Build = nil, ""
	r.steps = nil
	clear(r.groups)
	for _, id := range s.children[r.ID] { // they are none of the new generation's
		s.runs[id].Group, s.runs[id].Ordinal = "", 0
	}
}

// forget deletes each failed step and what followed it in its line of execution, so that the next
// attempt runs them again.
func (r *run) forget() {
	var failed []store.Step
	r.steps = slices.DeleteFunc(r.steps, func(st store.Step) bool { // visits them by Position
		if st.Status == store.StepFailed {
			failed = append(failed, st)
		}
		return st.Status == store.StepFailed || slices.ContainsFunc(failed, func(f store.Step) bool { return f.Related(st.StepKey) })
	})
}

// awaitMet reports whether one of the run's awaits is met.
func (r *run) awaitMet() bool {
	return slices.ContainsFunc(r.awaits, func(a store.Await) bool {
		var g store.Group // nobody spawned: nothing is open
		if p := r.groups[a.Group]; p != nil {
			g = *p
		}
		return g.Open <= a.Open || a.Failures > 0 && g.Failed+g.Canceled >= a.Failures
	})
}

// finish makes a run final, tells its parent, and closes its children.
func (s *Store) finish(r *run, status store.Status, now time.Time) {
	if r.leased() && len(r.Under)+len(r.StepUnder) > 0 {
		s.hintFreed(r)
	}
	s.become(r, status, now)
	r.FinishedAt = now
	r.VisibleAt, r.Pausing, r.ended = time.Time{}, false, r.Worker != ""
	r.wakes, r.awaits, r.resume, r.StepUnder = 0, nil, 0, nil
	delete(s.live, r.ID)
	if r.ExternalID != "" && r.Reuse == store.ReuseAfterEnd {
		delete(s.holders, external{r.Namespace, r.ExternalID, r.Suffix})
	}
	s.hintRun(store.HintFinal, r)
	if parent := s.runs[r.Parent]; parent != nil && parent.groups[r.Group] != nil {
		s.childEnded(parent, parent.groups[r.Group], status, now)
	}
	s.closeChildren(r, now)
}

// childEnded counts a child's end, once. It wakes the parent if that meets one of the parent's
// awaits (P9).
func (s *Store) childEnded(parent *run, g *store.Group, status store.Status, now time.Time) {
	g.Open--
	switch status {
	case store.Completed:
		g.Completed++
	case store.Failed:
		g.Failed++
	case store.Canceled:
		g.Canceled++
	}
	if parent.awaitMet() && (s.breaks != LimitAwaitSleeps || len(parent.Under) == 0) {
		parent.awaits = nil
		parent.Events++
		s.wake(parent, now)
		s.hintRun(store.HintEvent, parent)
	}
}

// closeChildren cancels the children that do not outlive their parent.
func (s *Store) closeChildren(r *run, now time.Time) {
	for _, id := range s.children[r.ID] {
		if c := s.runs[id]; c.OnClose == store.CloseCancel {
			s.cancel(c, store.CanceledWithParent, now)
		}
	}
}
