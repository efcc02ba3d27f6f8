package storekit

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Outcome is what a cancel has done to a run.
type Outcome uint8

// The outcomes.
const (
	// Unchanged: the run is canceling or final already.
	Unchanged Outcome = iota
	// BecameCanceling: the run's holder, or the worker that claims it next, ends it. The children
	// that close with it ([Run.Closes]) are canceled, too.
	BecameCanceling
	// BecameCanceled: the run is final. Its parent counts it, and the children that
	// close with it are canceled, too.
	BecameCanceled
)

// Cancel cancels the run (P11). hasSteps says whether the run has a step's record: a run that was
// claimed before and has recorded something may have something to clean up.
func (r *Run) Cancel(reason string, hasSteps bool, now time.Time) Outcome {
	if r.Status.Final() || r.Status == store.Canceling {
		return Unchanged
	}
	r.Failure = &store.Failure{Code: store.FailureCanceled, Message: reason}
	begun := hasSteps && !r.StartedAt.IsZero()
	if !r.Leased() && !begun {
		r.finish(store.Canceled, now)
		return BecameCanceled
	}
	if !r.Leased() {
		r.VisibleAt = Earliest(r.VisibleAt, now)
		r.forgetSleep()
		r.StepUnder = nil
	}
	r.Status, r.Pausing = store.Canceling, false // it ends instead of pausing
	r.Events++
	return BecameCanceling
}

// Force ends a run that is not final, whoever holds it.
func (r *Run) Force(reason string, now time.Time) {
	if r.Leased() {
		r.Worker, r.Holder, r.Seq = "", "", 0
		r.Epoch++
	}
	r.Failure = &store.Failure{Code: store.FailureCanceled, Message: reason}
	r.finish(store.Canceled, now)
}

// Pause pauses the run, or marks it Pausing while a worker holds it. A canceling run does not
// pause, because it has to end.
func (r *Run) Pause() {
	switch r.Status {
	case store.Pending, store.Sleeping:
		r.Status, r.Resume = store.Paused, r.Status
	case store.Running:
		r.Pausing = true
	}
}

// Unpause resumes a paused run, or clears the mark of a Pausing one.
func (r *Run) Unpause() {
	r.Pausing = false
	if r.Status == store.Paused {
		r.Status, r.Resume = r.Resume, 0
	}
}

// Unpin removes the run's pin, so that any build claims it (P19).
func (r *Run) Unpin() error {
	if r.Pin == nil {
		return store.NotPinned(r.ID, r.Status)
	}
	r.Pin = nil
	return nil
}

// Restart makes a failed or canceled run pending again, or leaves the run unchanged and returns
// why. holder is the run that holds r's external id and suffix; zero if none does, or if r has no
// external id. The caller deletes the steps for which [Forgetter.Forgets] holds.
func (r *Run) Restart(holder store.ID, now time.Time) error {
	if r.Status != store.Failed && r.Status != store.Canceled {
		return fmt.Errorf("run %s is %v; only a failed or canceled run can be restarted: %w", r.ID, r.Status, store.ErrConflict)
	}
	if !holder.IsZero() && holder != r.ID {
		return ExternalIDTaken(holder, r.ExternalID)
	}
	r.Status, r.VisibleAt, r.FinishedAt, r.Deadline = store.Pending, now, time.Time{}, time.Time{}
	r.Attempt, r.Crashes, r.Charged = 1, 0, false
	r.Output, r.Failure, r.Pin = nil, nil, nil
	r.Epoch++
	r.Worker, r.Holder, r.Seq, r.Ended = "", "", 0, false
	r.Detach() // it was counted when it ended
	return nil
}

// Receive makes the signal that the run receives. It is an event.
func (r *Run) Receive(n *store.NewSignal, now time.Time) store.Signal {
	r.Events++
	r.Stir(store.WakeSignal, now)
	return store.Signal{ID: n.ID, Name: n.Name, Payload: n.Payload, SentAt: now, Position: r.Events}
}

// Stir wakes the run if it sleeps and has asked for events of this kind. An earlier time is kept,
// so that further events do not move it to the end of the queue.
func (r *Run) Stir(by store.WakeOn, now time.Time) {
	if r.asleep() && r.Wakes&by != 0 {
		r.VisibleAt = Earliest(r.VisibleAt, now)
	}
}

// CheckVersion refuses a conditional write of state. Has is the key's present version, 0 for
// a key that does not exist.
func CheckVersion(run store.ID, w *store.StateWrite, has int64) error {
	if w.IfVersion != nil && *w.IfVersion != has {
		return fmt.Errorf("state %q of run %s has version %d, not %d: %w", w.Key, run, has, *w.IfVersion, store.ErrConflict)
	}
	return nil
}

// freed reports whether a write has ended permits, so that other runs may go.
func freed(before, after *Run) bool {
	return len(before.Held()) > len(after.Held())
}

// Hints returns the hints for a write that changed a run. Before is nil for a new run.
// ByHolder says that a commit of the run's holder made the change.
func Hints(before, after *Run, byHolder bool) (hints []store.Hint) {
	if before == nil {
		before = &Run{}
	}
	tell := func(kind store.HintKind) {
		hints = append(hints, store.Hint{Kind: kind, Namespace: after.Namespace, Run: after.ID})
	}
	if freed(before, after) {
		hints = append(hints, store.Hint{Kind: store.HintQueue, Namespace: after.Namespace, Queue: after.Queue})
	} else if after.Claimable() && !after.Leased() &&
		(before.Leased() || before.Status != after.Status || !before.VisibleAt.Equal(after.VisibleAt) || before.PinnedTo() != after.PinnedTo()) {
		hints = append(hints, store.Hint{Kind: store.HintQueue, Namespace: after.Namespace, Queue: after.Queue})
	}
	revoked := before.Leased() && after.Status == store.Canceled // tells the holder that it has lost the lease
	switch events := after.Events > before.Events; {
	case events && byHolder:
		tell(store.HintState)
	case !byHolder && (events || revoked || after.Pausing && !before.Pausing):
		tell(store.HintEvent)
	}
	if after.Status.Final() && !before.Status.Final() {
		tell(store.HintFinal)
	}
	return hints
}
