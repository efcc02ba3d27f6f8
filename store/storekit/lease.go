package storekit

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Lease leases the run to a worker. If the previous lease expired, that counts as a crash (P6).
// build is the worker's build. claimID is the number of the claim, 0 for a lease that Create
// grants.
func (r *Run) Lease(worker, build string, d time.Duration, claimID int64, now time.Time) store.Lease {
	if r.Leased() {
		r.Crashes++
	}
	if r.Status != store.Canceling {
		r.Status = store.Running
	}
	r.Epoch++
	r.Worker, r.Holder, r.HolderBuild, r.Seq, r.ClaimID = worker, worker, build, 0, claimID
	r.VisibleAt = After(now, d) // not cut by the deadline: that would be a second lease
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
	r.Wakes, r.Awaits = 0, nil
	r.Charged = true
	return r.LeaseOf()
}

// LeaseOf returns the run's present lease.
func (r *Run) LeaseOf() store.Lease {
	return store.Lease{Run: r.ID, Worker: r.Worker, Epoch: r.Epoch}
}

// TookIn reports whether the claim of that number leased the run to that worker and the lease is
// still valid; a claim with Again returns such runs.
func (r *Run) TookIn(claimID int64, worker string, now time.Time) bool {
	return r.Leased() && r.VisibleAt.After(now) && r.ClaimID == claimID && r.Worker == worker
}

// Extend renews a lease, if it is the run's present one. A nil run means that the run does not
// exist: its lease is lost.
func (r *Run) Extend(l store.Lease, d time.Duration, now time.Time) store.LeaseState {
	if r == nil || !r.Leased() || r.LeaseOf() != l {
		return store.LeaseState{Lost: true}
	}
	r.VisibleAt = After(now, d)
	return store.LeaseState{Canceling: r.Status == store.Canceling, Pausing: r.Pausing, Events: r.Events}
}

// CompareClaims orders runs as claims take them (P7): by priority, the highest first, then
// by VisibleAt, then by ID.
func CompareClaims(a, b *Run) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.VisibleAt.Compare(b.VisibleAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// Lane is a queue, a workflow and a pin: the runs of a lane are claimed in one order. Pin is empty
// for runs that are not pinned (P19).
type Lane struct{ Queue, Workflow, Pin string }

// LaneOf returns the lane in which the run is claimed.
func (r *Run) LaneOf() Lane { return Lane{Queue: r.Queue, Workflow: r.Workflow, Pin: r.PinnedTo()} }

// Lanes lists the lanes of a claim's demands, each once, by queue and workflow: those of runs
// that are not pinned and, if the claim has a build, those of runs pinned to it (P19).
func Lanes(p *store.ClaimParams) []Lane {
	demands := p.Demands
	var lanes []Lane
	for i := range demands {
		for _, queue := range demands[i].Queues() {
			for _, workflow := range demands[i].Workflows {
				lanes = append(lanes, Lane{Queue: queue, Workflow: workflow})
				if p.Build != "" {
					lanes = append(lanes, Lane{queue, workflow, p.Build})
				}
			}
		}
	}
	slices.SortFunc(lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Pin, b.Pin))
	})
	return slices.Compact(lanes)
}

// A Claim decides which of the due runs a claim takes. The backend offers runs
// in the order of [CompareClaims], over all lanes of the demands.
type Claim struct {
	params *store.ClaimParams
	taken  []int // for each demand
	left   int
	runs   *Bound
}

// NewClaim begins a claim.
func NewClaim(p *store.ClaimParams) *Claim {
	return &Claim{params: p, taken: make([]int, len(p.Demands)), left: p.Wanted(), runs: FirstAndUpTo(claimBytes(p))}
}

// claimBytes is the bound of a claim.
func claimBytes(p *store.ClaimParams) int { return cmp.Or(p.MaxBytes, store.DefaultClaimBytes) }

// Full reports whether the claim takes no more runs, of whatever lane.
func (c *Claim) Full() bool { return c.left <= 0 || c.runs.full }

// Wants reports whether a demand for the lane has room.
func (c *Claim) Wants(l Lane) bool { return !c.Full() && c.room(l) >= 0 }

// Take reports whether the claim takes a run of the lane. Size is the bytes of the
// run's input, meta and failure; see [ClaimSize].
func (c *Claim) Take(l Lane, size int) bool {
	d := c.room(l)
	unbound := c.params.Bare || c.params.Again
	if c.left <= 0 || d < 0 || !unbound && !c.runs.Take(size) {
		return false
	}
	c.taken[d]++
	c.left--
	return true
}

// room returns the first demand for the lane that is not filled, or -1.
func (c *Claim) room(l Lane) int {
	for i := range c.params.Demands {
		d := &c.params.Demands[i]
		if c.taken[i] < d.Max && slices.Contains(d.Queues(), l.Queue) && slices.Contains(d.Workflows, l.Workflow) {
			return i
		}
	}
	return -1
}
