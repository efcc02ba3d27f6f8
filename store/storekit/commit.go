package storekit

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// LeaseLost is the error for a lease that is not the run's present one.
func LeaseLost(l store.Lease) error {
	return fmt.Errorf("run %s, worker %s, epoch %d: %w", l.Run, l.Worker, l.Epoch, store.ErrLeaseLost)
}

// Fence decides whether a commit may be applied (P2). Repeated says that it was applied before
// (P4): nothing is to be changed, and the result is [Run.Result]. A nil run means that the run does
// not exist.
func (r *Run) Fence(c *store.Commit) (repeated bool, err error) {
	switch {
	case r == nil || r.Epoch != c.Lease.Epoch || r.Holder != c.Lease.Worker:
		return false, LeaseLost(c.Lease)
	case c.Seq <= r.Seq: // even if that commit ended the lease
		return true, nil
	case !r.Leased():
		return false, LeaseLost(c.Lease)
	case c.Seq > r.Seq+1:
		return false, store.CommitsMissing(c.Lease, c.Seq, r.Seq)
	}
	return false, nil
}

// Begin begins to apply a commit that [Run.Fence] has accepted. Unseen says that an event has
// reached the run that its holder has not seen; it is passed to [Run.Transition].
func (r *Run) Begin(c *store.Commit) (unseen bool) {
	r.Seq = c.Seq
	if t := c.Transition; t == nil || t.Kind != store.GiveBack { // P20
		r.Crashes = c.Crashes
	}
	if len(c.Steps) > 0 {
		r.Build = r.HolderBuild
	}
	if c.Pin != nil {
		pin := *c.Pin
		r.Pin = &pin
	}
	if c.Tags != nil {
		r.Tags = c.Tags.Clone()
	}
	if c.Free {
		r.StepUnder = nil
	}
	return r.Events > c.Seen // asked before the commit's own writes, which its holder knows
}

// Result describes the run after a commit.
func (r *Run) Result() store.CommitResult {
	res := store.CommitResult{Status: r.Status, Events: r.Events, Pausing: r.Pausing}
	if !r.Leased() {
		res.VisibleAt = r.VisibleAt
	}
	return res
}

// CheckUses refuses a commit whose step would be under a limit that the run is under, or under too many. The
// caller calls it after [Run.Fence] and before [Run.Begin].
func (r *Run) CheckUses(c *store.Commit) error {
	if c.Transition == nil || len(c.Transition.Under) == 0 {
		return nil
	}
	return store.CheckUses(r.Under, c.Transition.Under)
}

// CheckPositions refuses records of new keys at positions that other keys have. stored reports
// whether a key has a record; taken reports whether a position has one.
func CheckPositions(records []store.StepRecord, stored func(store.StepKey) bool, taken func(position int64) bool) error {
	fresh := map[int64]bool{}
	for i := range records {
		rec := &records[i]
		if stored(rec.StepKey) {
			continue // its position is fixed
		}
		if fresh[rec.Position] || taken(rec.Position) {
			return store.Invalid(fmt.Sprintf("step %q", rec.StepKey), fmt.Sprintf("another step has position %d", rec.Position))
		}
		fresh[rec.Position] = true
	}
	return nil
}

// Record returns what is to be stored for a step's record. old is the key's stored record, nil if
// there is none. write is false if the old record is final and stays.
func (r *Run) Record(rec *store.StepRecord, old *store.Step, now time.Time) (st store.Step, write bool) {
	if old != nil && old.Status.Final() {
		return *old, false
	}
	st = store.Step{
		StepKey: rec.StepKey, Kind: rec.Kind, Status: rec.Status, Position: rec.Position, Index: rec.Index,
		Attempt: rec.Attempt, Epoch: r.Epoch, Output: rec.Output, Failure: rec.Failure, Earlier: earlier(rec.Earlier),
		StartedAt: After(now, -rec.Took), DueAt: Micro(rec.DueAt),
	}
	if old != nil {
		st.Position = old.Position
	}
	if !rec.StartedAt.IsZero() {
		st.StartedAt = Micro(rec.StartedAt)
	}
	if rec.DueIn > 0 {
		st.DueAt = After(now, rec.DueIn)
	}
	if rec.Status.Final() {
		st.FinishedAt = now
	}
	return st, true
}

// ImportedStep returns a step of an imported record in the form in which it is stored.
func ImportedStep(st store.Step) store.Step {
	st.StartedAt, st.FinishedAt, st.DueAt, st.Earlier = Micro(st.StartedAt), Micro(st.FinishedAt), Micro(st.DueAt), earlier(st.Earlier)
	return st
}

// earlier returns earlier attempts in the form in which they are stored.
func earlier(list []store.FailedAttempt) []store.FailedAttempt {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].StartedAt = Micro(list[i].StartedAt)
	}
	return list
}

// Write changes a key of the run's state. Each write is an event, and the event's number is the
// entry's version, so that versions grow and never repeat. After writes from outside the run's
// lease, call [Run.Stir].
func (r *Run) Write(w *store.StateWrite, now time.Time) store.StateEntry {
	r.Events++
	if w.Delete {
		return store.StateEntry{Key: w.Key, Version: r.Events}
	}
	return store.StateEntry{Key: w.Key, Value: w.Value, Version: r.Events, UpdatedAt: now}
}

// CheckSpawn refuses a child whose ID belongs to a run that is not a child of this one: the parent
// would wait for an unrelated run. old is the run of that ID, nil if there is none.
func (r *Run) CheckSpawn(i int, id store.ID, old *Run) error {
	if old != nil && (old.Namespace != r.Namespace || old.Parent != r.ID) {
		return store.Invalid("run id", fmt.Sprintf("child %d: another run has the id %s", i, id))
	}
	return nil
}

// Effect says what a transition changes in addition to the run itself.
type Effect struct {
	// Final says that the run has ended: its parent counts it, and children follow it.
	Final bool
	// ForgetSteps says that the steps for which [Forgetter.Forgets] holds are
	// deleted.
	ForgetSteps bool
	// Anew says that the run has continued as new: all of its steps and groups are deleted, and
	// its children are detached ([Run.Detach]).
	Anew bool
}

// Transition ends the lease as a commit requests. unseen is the result of [Run.Begin]; group
// returns the run's group of a name, after the commit's children were counted.
func (r *Run) Transition(t *store.Transition, unseen bool, group func(name string) store.Group, now time.Time) Effect {
	if t.Kind.Final() {
		r.end(t, now)
		return Effect{Final: true}
	}
	due := Micro(t.At)
	if t.After > 0 {
		due = Earliest(After(now, t.After), due)
	}
	next, canceling := store.Pending, r.Status == store.Canceling
	r.StepUnder = store.SortUses(t.Under)
	r.Worker, r.VisibleAt = "", now
	if t.Kind != store.Sleep && t.Kind != store.Continue && !due.IsZero() {
		r.VisibleAt = due
	}
	if !canceling { // its failure is the reason of the cancel
		r.keepFailure(t)
	}
	switch t.Kind {
	case store.Sleep:
		next = store.Sleeping
		r.sleep(t, unseen, due, group, now)
	case store.Retry:
		r.Attempt++
		r.Charged = false
	case store.Continue:
		r.Input = t.Input
		r.Charged = false
		r.Generation++
		r.Attempt = 1
		r.Pin, r.Build = nil, ""
	}
	switch {
	case canceling: // stays canceling, so that somebody ends it: at once, unless its holder cannot
		r.Wakes, r.Awaits = 0, nil
		if t.Kind != store.Release {
			r.VisibleAt = now
		}
	case r.Pausing:
		r.Status, r.Resume, r.Pausing = store.Paused, next, false
	default:
		r.Status = next
	}
	r.VisibleAt = Earliest(r.VisibleAt, r.Deadline)
	return Effect{ForgetSteps: t.Kind == store.Retry, Anew: t.Kind == store.Continue}
}

// end makes the run final.
func (r *Run) end(t *store.Transition, now time.Time) {
	r.Output = t.Output
	if t.Kind != store.CancelRun || t.Failure != nil { // otherwise the cancel's reason stays
		r.Failure = t.Failure
	}
	switch t.Kind {
	case store.CompleteRun:
		r.finish(store.Completed, now)
	case store.FailRun:
		r.finish(store.Failed, now)
	default:
		r.finish(store.Canceled, now)
	}
}

// keepFailure sets the failure that a run keeps while it continues.
func (r *Run) keepFailure(t *store.Transition) {
	switch {
	case t.Kind == store.Retry || t.Kind == store.Release && t.Failure != nil:
		r.Failure = t.Failure
	case t.Kind == store.Continue:
		r.Failure = nil
	}
}

// sleep sets when the run wakes: at once if it has had an event that its holder had not
// seen, or if an await is met already (P5).
func (r *Run) sleep(t *store.Transition, unseen bool, due time.Time, group func(string) store.Group, now time.Time) {
	r.VisibleAt, r.Wakes, r.Awaits = due, t.Wakes, slices.Clone(t.Await)
	met := r.AwaitMet(group)
	if met {
		r.Awaits = nil // this sleep is over and receives no more events
	}
	if unseen || met {
		r.VisibleAt = Earliest(due, now)
	}
}

// A Forgetter determines which steps a retry or a restart deletes: each failed step, and the steps
// that followed it in its line of execution. The zero Forgetter is ready to use.
type Forgetter struct{ failed []store.StepKey }

// Forgets reports whether a step is deleted. It must be called for all of a run's steps, in the
// order of their positions.
func (f *Forgetter) Forgets(st *store.Step) bool {
	if st.Status == store.StepFailed {
		f.failed = append(f.failed, st.StepKey)
		return true
	}
	return slices.ContainsFunc(f.failed, func(k store.StepKey) bool { return k.Related(st.StepKey) })
}
