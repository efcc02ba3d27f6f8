package sqlkit

import (
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Plain reports whether a commit is of the usual kind: all it does is record steps, give keys of the
// run's state a value and, possibly, end its run as completed or failed.
func Plain(c *store.Commit) bool {
	t := c.Transition
	return !slices.ContainsFunc(c.State, func(w store.StateWrite) bool { return w.Delete }) && len(c.Spawn) == 0 && len(c.Consumed) == 0 && len(c.Answers) == 0 && len(c.Streams) == 0 && c.Crashes == 0 && c.Pin == nil && c.Tags == nil && !c.Free &&
		(t == nil || t.Kind == store.CompleteRun || t.Kind == store.FailRun)
}

// Ends reports whether a commit ends its run.
func Ends(c *store.Commit) bool { return c.Transition != nil && c.Transition.Kind.Final() }

// EndStatus returns the status that a running run gets from a commit that is plain or ends the run.
func EndStatus(c *store.Commit) store.Status {
	if !Ends(c) {
		return store.Running
	}
	return store.Completed + store.Status(c.Transition.Kind-store.CompleteRun)
}

// WantsExternalID reports whether a commit spawns a child with an external id, which the
// end of another run may release.
func WantsExternalID(c *store.Commit) bool {
	return slices.ContainsFunc(c.Spawn, func(r store.NewRun) bool { return r.ExternalID != "" })
}

// A Plan says how a commit changes the row of its run, as far as that does not depend on
// the row. The rest is in the statement: a canceling run stays canceling, a run with a
// pending pause becomes paused, and a deadline or an event that the holder has not seen
// makes the run due earlier.
type Plan struct {
	Status  store.Status  // of a run without a special condition
	Parts   int64         // the bits that are added to runs.parts
	Keep    int64         // the bits of runs.parts that stay; all bits are set if all stay
	Wakes   int64         // runs.wakes
	Seen    int64         // more events than these make the run due at once
	Retry   bool          // another attempt: the failure is replaced, even by no failure
	Release bool          // a canceling run keeps its time, too
	Crashes *int64        // of the run afterwards; nil: unchanged
	Pin     *string       // what the run is pinned to from now on; nil: unchanged
	Pinned  string        // the whole pin, as its column holds it
	Cancel  bool          // without a failure, the reason of the cancel stays
	After   time.Duration // when it may be claimed, counted from now; 0: see Now
	At      time.Time     // or then; the earlier of the two counts
	Now     bool          // at once, because the transition names no time
	Output  []byte
	Failure string // what the column holds; empty: NULL
}

// PlanOf returns the plan of a commit.
func PlanOf(c *store.Commit) Plan {
	p := Plan{Status: store.Running, Keep: -1, Seen: math.MaxInt64, Parts: PartsOf(c)}
	t := c.Transition
	if t == nil || t.Kind != store.GiveBack { // P20
		n := int64(c.Crashes)
		p.Crashes = &n
	}
	if c.Pin != nil {
		p.Pin, p.Pinned = &c.Pin.Build, PinText(c.Pin)
	}
	if t == nil {
		return p
	}
	switch {
	case t.Kind.Final():
		p.Status, p.Parts = EndStatus(c), p.Parts|PartEnded
		p.Output, p.Cancel = t.Output, t.Kind == store.CancelRun
		if t.Kind != store.CompleteRun {
			p.Failure = FailureText(t.Failure)
		}
	case t.Kind == store.Continue: // it begins without steps and groups
		p.Status, p.Now = store.Pending, true
		p.Keep, p.Parts = ^(PartsOfStep | PartGroups), p.Parts&^(PartsOfStep|PartGroups)
	case t.Kind == store.Sleep:
		p.Status, p.Seen, p.Wakes = store.Sleeping, c.Seen, int64(t.Wakes)
		if len(t.Await) > 0 {
			p.Wakes |= WakeChildren
		}
		p.After, p.At = t.After, t.At
	default:
		p.Status, p.Failure = store.Pending, FailureText(t.Failure)
		p.Retry, p.Release = t.Kind == store.Retry, t.Kind == store.Release || t.Kind == store.GiveBack
		p.After, p.At, p.Now = t.After, t.At, t.After <= 0 && t.At.IsZero()
	}
	return p
}

// PartsOf returns the bits for the parts that a commit adds.
func PartsOf(c *store.Commit) (parts int64) {
	if len(c.Steps) > 0 {
		parts |= PartsOfStep
	}
	if len(c.State) > 0 {
		parts |= PartState
	}
	for i := range c.Spawn {
		parts |= PartChildren
		if c.Spawn[i].Group != "" {
			parts |= PartGroups
		}
	}
	return parts
}

// Awaits merges several awaits of one group into one. A group has one condition, and whatever meets
// any of the awaits meets the easiest.
func Awaits(list []store.Await) []store.Await {
	var out []store.Await
	for _, a := range list {
		i := slices.IndexFunc(out, func(o store.Await) bool { return o.Group == a.Group })
		if i < 0 {
			out = append(out, a)
			continue
		}
		out[i].Open = max(out[i].Open, a.Open)
		if f := out[i].Failures; f == 0 || a.Failures > 0 && a.Failures < f {
			out[i].Failures = a.Failures // 0: failures do not matter
		}
	}
	return out
}

// A Fate is the row of a run whose commit was not applied.
type Fate struct {
	store.CommitResult
	Epoch, Seq int64
	Worker     string
	Leased     bool
}

// Of distinguishes a commit that was applied before from one whose lease is lost, or that follows
// missing commits.
func (f Fate) Of(c *store.Commit) store.CommitResult {
	if f.Leased {
		f.VisibleAt = time.Time{}
	}
	switch {
	case f.Epoch != c.Lease.Epoch || f.Worker != c.Lease.Worker:
	case f.Seq >= c.Seq:
		f.Repeated = true
		return f.CommitResult
	case f.Leased:
		return store.CommitResult{Err: store.CommitsMissing(c.Lease, c.Seq, f.Seq)}
	}
	return store.CommitResult{Err: LeaseLost(c.Lease)}
}

// Next reports whether the commit follows the last one of the present lease, so that something else has
// refused it.
func (f Fate) Next(c *store.Commit) bool {
	return f.Leased && f.Epoch == c.Lease.Epoch && f.Worker == c.Lease.Worker && f.Seq == c.Seq-1
}
