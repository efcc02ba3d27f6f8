package storekit

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Run is a run as a store keeps it: the fields that callers see, and those that only the store
// needs. It can be stored as JSON.
type Run struct {
	store.Run

	// Holder, Seq and ClaimID belong to the last lease: its worker, the number of
	// the last commit applied under it, and the claim that gave it. They outlive the
	// lease, so that a repeated transition is recognized (P4).
	Holder  string
	Seq     int64
	ClaimID int64
	// HolderBuild is the build of the last lease: it becomes Build when the holder records a
	// step.
	HolderBuild string `json:",omitempty"`
	// Ended says that the run's holder made it final. Worker still names the holder, which no
	// longer has a lease.
	Ended bool

	// Wakes and Awaits say what ends a sleep besides its time.
	Wakes  store.WakeOn
	Awaits []store.Await

	// Resume is the status that a paused run returns to.
	Resume store.Status `json:",omitempty"`

	// Debounce is the key with which the run was created; empty: none.
	Debounce string `json:",omitempty"`

	// Charged says that the attempt has been claimed: it has taken the tokens of the run's limits, and
	// takes none again (P22).
	Charged bool `json:",omitempty"`
}

// New makes the run that n describes: pending, and without a holder.
func New(namespace string, n *store.NewRun, now time.Time) *Run {
	r := &Run{Run: store.Run{
		ID: n.ID, Namespace: namespace, Workflow: n.Workflow, Queue: n.Queue, Status: store.Pending,
		Priority: n.Priority, ExternalID: n.ExternalID, Suffix: n.Suffix, Reuse: n.Reuse,
		Input: n.Input, Meta: n.Meta, Attempt: 1, CreatedAt: now,
	}, Debounce: n.Debounce}
	if len(n.Digest) > 0 {
		r.Digest = n.Digest
	}
	r.plan(n, now)
	return r
}

// plan sets what a start that is made now decides besides the run's payloads.
func (r *Run) plan(n *store.NewRun, now time.Time) {
	r.Under, r.Tags = store.SortUses(n.Under), n.Tags.Clone()
	r.VisibleAt, r.Deadline = After(now, n.After), time.Time{}
	if at := Micro(n.At); at.After(r.VisibleAt) {
		r.VisibleAt = at
	}
	if n.AtMost > 0 {
		r.VisibleAt = Earliest(r.VisibleAt, After(r.CreatedAt, n.AtMost))
	}
	if n.Timeout > 0 {
		r.Deadline = After(now, n.Timeout)
		r.VisibleAt = Earliest(r.VisibleAt, r.Deadline)
	}
}

// Replaceable reports whether a start with the run's key replaces what the run was started with (P28).
func (r *Run) Replaceable() bool {
	return r.Debounce != "" && r.Epoch == 0 && (r.Status == store.Pending || r.Status == store.Paused)
}

// Replace replaces what the run was started with: see [store.Runs.Create]. The caller notes the start
// as a [Replacement].
func (r *Run) Replace(n *store.NewRun, now time.Time) {
	r.Input, r.Meta = n.Input, n.Meta
	r.plan(n, now)
}

// Replacement is a start that has replaced what a run was started with, by the ID of the start.
type Replacement struct {
	Run store.ID
	At  time.Time
}

// Known reports whether the start changes nothing if it is sent again now.
func (r *Replacement) Known(now time.Time) bool { return r.At.Add(store.DebounceMemory).After(now) }

// Spawn makes a child. If the child has a group, the caller counts it with
// [CountSpawned].
func (r *Run) Spawn(n *store.NewRun, now time.Time) *Run {
	c := New(r.Namespace, n, now)
	c.Parent, c.Group, c.Ordinal, c.OnClose = r.ID, n.Group, n.Ordinal, n.OnClose
	return c
}

// Fork makes the fork of a run: see [store.Runs.Fork]. The fork gets the steps
// for which [ForkKeeps] holds.
func (r *Run) Fork(id store.ID, now time.Time) *Run {
	f := New(r.Namespace, &store.NewRun{ID: id, Workflow: r.Workflow, Queue: r.Queue, Priority: r.Priority, Input: r.Input, Meta: r.Meta, Under: r.Under, Tags: r.Tags}, now)
	f.ForkedFrom, f.Build = r.ID, r.Build
	return f
}

// ForkKeeps reports whether a fork begins with a step of the old run. before is the Position of the
// step at which the fork begins; math.MaxInt64 if it keeps all.
func ForkKeeps(st *store.Step, before int64) bool {
	return st.Status == store.StepCompleted && st.Position < before
}

// Import makes the run of an imported record. Its steps, state, signals and groups
// are stored as they are recorded, with times cut to microseconds.
func Import(p *store.ImportParams, now time.Time) *Run {
	in := p.Imported()
	in.CreatedAt, in.StartedAt, in.FinishedAt, in.Deadline = Micro(in.CreatedAt), Micro(in.StartedAt), Micro(in.FinishedAt), Micro(in.Deadline)
	if len(in.Digest) == 0 {
		in.Digest = nil
	}
	r := &Run{Run: in, Ended: in.Status.Final()}
	if !in.Status.Final() {
		r.Resume, r.VisibleAt = store.Pending, now
		if at := Micro(in.VisibleAt); at.After(now) {
			r.VisibleAt = at
		}
	}
	return r
}

// Leased reports whether a worker holds the run. An expired lease counts until another
// worker takes over.
func (r *Run) Leased() bool { return r.Worker != "" && !r.Ended }

// Claimable reports whether the run belongs in the index of claims, at its VisibleAt. It does not
// consider whether its queue or its workflow is paused.
func (r *Run) Claimable() bool {
	return r.Status != store.Paused && !r.Status.Final() && !r.VisibleAt.IsZero()
}

// Due reports whether the run may be claimed now.
func (r *Run) Due(now time.Time) bool { return r.Claimable() && !r.VisibleAt.After(now) }

// HoldsExternalID reports whether the run holds its external id (P8).
func (r *Run) HoldsExternalID() bool {
	return r.ExternalID != "" && (!r.Status.Final() || r.Reuse == store.ReuseNever)
}

// Closes reports whether the run is canceled when its parent is canceled or ends.
func (r *Run) Closes() bool {
	return !r.Parent.IsZero() && r.OnClose == store.CloseCancel && !r.Status.Final()
}

// asleep reports whether events can change the run's time. A paused sleeping run is woken, too, and
// is awake when it is resumed.
func (r *Run) asleep() bool {
	return r.Status == store.Sleeping || r.Status == store.Paused && r.Resume == store.Sleeping
}

// forgetSleep clears what would end a sleep.
func (r *Run) forgetSleep() { r.Wakes, r.Awaits, r.Resume = 0, nil, 0 }

// finish makes the run final.
func (r *Run) finish(status store.Status, now time.Time) {
	r.Status, r.FinishedAt = status, now
	r.VisibleAt, r.Pausing, r.Ended = time.Time{}, false, r.Worker != ""
	r.forgetSleep()
	r.StepUnder = nil
}

// Held returns the keys under which the run's lease holds permits; none if no worker holds it (P24).
func (r *Run) Held() []LimitKeyID {
	if !r.Leased() {
		return nil
	}
	return KeysOf(slices.Concat(r.Under, r.StepUnder))
}

// Waits returns the flow in which the run waits for limits, and whether it does: it is under limits, no
// worker holds it, and it has a time at which it may be claimed. A run whose lease expired waits in no flow.
func (r *Run) Waits() (Flow, bool) {
	if len(r.Under)+len(r.StepUnder) == 0 || r.Leased() || !r.Claimable() {
		return Flow{}, false
	}
	return FlowOf(r), true
}

// Detach removes a child from its group, for example because its parent has continued as new.
func (r *Run) Detach() { r.Group, r.Ordinal = "", 0 }

// AwaitMet reports whether one of the run's awaits is met. group returns the run's group of a name;
// the zero Group if nothing was spawned under it.
func (r *Run) AwaitMet(group func(name string) store.Group) bool {
	return slices.ContainsFunc(r.Awaits, func(a store.Await) bool {
		g := group(a.Group)
		return g.Open <= a.Open || a.Failures > 0 && g.Failed+g.Canceled >= a.Failures
	})
}

// CountSpawned counts a new child in its group.
func CountSpawned(g *store.Group) {
	g.Total++
	g.Open++
}

// CountEnded counts the end of a child in its group.
func CountEnded(g *store.Group, status store.Status) {
	g.Open--
	switch status {
	case store.Completed:
		g.Completed++
	case store.Failed:
		g.Failed++
	case store.Canceled:
		g.Canceled++
	}
}

// ChildEnded handles the end of a child, which [CountEnded] has counted: if it meets what the run
// awaits, the run is woken, once, with an event (P9). It reports whether it has changed the run.
func (r *Run) ChildEnded(group func(name string) store.Group, now time.Time) bool {
	if !r.AwaitMet(group) {
		return false
	}
	r.Awaits = nil
	r.Events++
	r.VisibleAt = Earliest(r.VisibleAt, now)
	return true
}

// NotFound is the error for a run that does not exist in the namespace.
func NotFound(id store.ID) error { return fmt.Errorf("run %s: %w", id, store.ErrNotFound) }

// Finished is the error for a run that is final.
func Finished(r *Run) error {
	return fmt.Errorf("run %s is %v: %w", r.ID, r.Status, store.ErrFinished)
}

// IDTaken is the error for a run ID that another namespace has.
func IDTaken(id store.ID) error { return fmt.Errorf("run %s: %w", id, store.ErrAlreadyExists) }

// ExternalIDTaken is the error for an external id that another run holds.
func ExternalIDTaken(holder store.ID, externalID string) error {
	return fmt.Errorf("run %s holds external id %q: %w", holder, externalID, store.ErrAlreadyExists)
}

// StepNotFound is the error for a step that the run does not have.
func StepNotFound(run store.ID, k store.StepKey) error {
	return fmt.Errorf("step %q of run %s: %w", k, run, store.ErrNotFound)
}
