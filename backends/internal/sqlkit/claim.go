package sqlkit

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A Lane is a queue, a workflow in it, and a pin. Only priority and time decide between the runs of
// a lane.
type Lane struct {
	Demand   int    `json:"d"` // the demand to which the lane belongs
	Queue    string `json:"q"`
	Workflow string `json:"w"`
	Max      int    `json:"n"` // the demand's maximum
	Pin      string `json:"p"` // empty: the runs that are not pinned
}

// Lanes lists the lanes of a claim, including those of runs that are pinned to its build (P19). A
// lane that several demands name belongs to the first of them.
func Lanes(p *store.ClaimParams) []Lane {
	seen := map[[2]string]bool{}
	var list []Lane
	for d, demand := range p.Demands {
		for _, q := range demand.Queues() {
			for _, w := range demand.Workflows {
				if k := [2]string{q, w}; !seen[k] {
					seen[k] = true
					list = append(list, Lane{d, q, w, demand.Max, ""})
					if p.Build != "" {
						list = append(list, Lane{d, q, w, demand.Max, p.Build})
					}
				}
			}
		}
	}
	return list
}

// Taken is a run that a claim has taken.
type Taken struct {
	store.ClaimedRun
	Due time.Time // when it became claimable
}

// ClaimedRuns returns the runs that a claim has taken, in the order of P7.
func ClaimedRuns(p *store.ClaimParams, runs []*Taken) []store.ClaimedRun {
	slices.SortFunc(runs, func(a, b *Taken) int {
		return cmp.Or(cmp.Compare(b.Run.Priority, a.Run.Priority), a.Due.Compare(b.Due), slices.Compare(a.Run.ID[:], b.Run.ID[:]))
	})
	out := make([]store.ClaimedRun, len(runs))
	for i, r := range runs {
		r.Lease = store.Lease{Run: r.Run.ID, Worker: p.Worker, Epoch: r.Run.Epoch}
		r.Recovered = r.Run.Crashes > 0
		r.Inbox.Status, r.Inbox.Events = r.Run.Status, r.Run.Events
		if p.Bare {
			r.Run.Omitted, r.Inbox.MoreSignals, r.Inbox.MoreState, r.Inbox.MoreGroups = true, true, true, true
		}
		out[i] = r.ClaimedRun
	}
	return out
}

// Passed returns the run that has got the permits, given its row. It has nothing else that a replay needs.
func Passed(run store.Run) *store.ClaimedRun {
	return &store.ClaimedRun{
		Run: run, Lease: store.Lease{Run: run.ID, Worker: run.Worker, Epoch: run.Epoch}, Recovered: run.Crashes > 0,
		Inbox: store.Inbox{Status: run.Status, Events: run.Events},
	}
}

// PassedBefore returns the run that has got the permits with an earlier call, given its row. What has come for the run
// since, as a signal, is left for its holder to read, like with a bare claim: its event counts already.
func PassedBefore(run store.Run) *store.ClaimedRun {
	c := Passed(run)
	c.MoreSteps, c.Inbox.MoreSignals, c.Inbox.MoreState, c.Inbox.MoreGroups = true, true, true, true
	return c
}

// Pins lists the pins that a claim of a worker with the given build accepts: no pin, or a pin to
// that build.
func Pins(build string) []string {
	if build == "" {
		return []string{""}
	}
	return []string{"", build}
}
