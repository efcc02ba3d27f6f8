package model

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A LimitFault is a rule of limits that a store breaks. They exist only for the faulty stores of package
// mutant.
type LimitFault uint8

// The faults.
const (
	_                    LimitFault = iota
	LimitOneMore                    // a concurrency permits one lease more
	LimitCountsBefore               // a claim counts the leases once, before it takes runs
	LimitForgetsExpired             // an expired lease holds no permit
	LimitTakeoverWaits              // a takeover needs a permit of its own
	LimitForgetsKeys                // all keys of a limit are one
	LimitIgnoresKeys                // runs with an empty key are not counted
	LimitFirstOnly                  // only the first limit of a run counts
	LimitAnyOf                      // one limit that permits is enough
	LimitIgnoresSet                 // what an operator has set does not count
	LimitIgnoresRate                // a rate permits everything
	LimitBurstTwice                 // a rate permits its burst again at the edge of a window
	LimitBurstIsTokens              // a burst is ignored
	LimitSavesUp                    // tokens of an idle key grow above the burst
	LimitTokensAgain                // each claim takes the tokens, not each attempt
	LimitTokensOnce                 // a retry takes no tokens
	LimitOneToken                   // each attempt takes one token
	LimitBigStarves                 // more tokens than the burst are never permitted
	LimitBigIsCheap                 // more tokens than the burst count as the burst
	LimitUnfair                     // keys take no turns
	LimitCredit                     // a key that was idle has credit
	LimitNoWeights                  // weights do not count
	LimitForgetsWeight              // the weight of a key is listed only while runs hold its permits
	LimitFairForgets                // a claim of another worker begins the turns anew
	LimitIgnoresSteps               // limits of steps do not count
	LimitStepTokensFree             // steps take no tokens
	LimitEager                      // a start with a lease is not held back
	LimitBlocksOthers               // a run that is held back holds back those behind it
	LimitNextDueHeld                // runs that a concurrency holds back are in NextDue
	LimitNextDueLate                // a rate's time is not in NextDue
	LimitLeaksFree                  // Free does not end the permits of a step
	LimitCrossNamespaces            // other namespaces count
	LimitKeepsStep                  // the permits of a step stay after its lease
	LimitBytesAnew                  // after each two runs a claim has room for one more, whatever its size
	LimitFairAnew                   // a limit that changes begins the turns of its keys anew
	LimitAwaitSleeps                // the end of its children does not wake a parent under a limit
)

// Faults that leak permits, or give back too many.
const (
	LimitLeaksForce     = LimitLeaks + 20 + iota // an end by force keeps the permit
	LimitGivesTwice                              // an end that is sent again gives the permit back again
	LimitZombieGives                             // so does an end by a holder that has lost its lease
	LimitTakeoverCounts                          // a takeover takes a permit of its own, and leaves the old one
	LimitStepsLeak                               // a permit of a step stays with the end of its lease
)

// Faults of commits that pass permits on.
const (
	PassLeaks          = LimitLeaks + 50 + iota // the permit that is passed on counts anew, and the old one stays
	PassUncounted                               // it does not count for the run that gets it
	PassTwice                                   // a repeated commit passes permits on again
	PassForgets                                 // a repeated commit does not have the run
	PassStale                                   // it has the run also when that lease is over
	PassZombie                                  // a commit whose lease is lost passes permits on
	PassOvertakes                               // a run that needs a replay is overtaken
	PassHistory                                 // it gets the permits itself
	PassUnordered                               // the last run of a flow goes first
	PassEarly                                   // a run that is due later gets permits
	PassIgnoresRate                             // permits are passed on under a rate
	PassIgnoresFair                             // and under a fair limit
	PassIgnoresPause                            // and in a paused queue
	PassIgnoresLowered                          // and when more leases are under a limit than it permits
	PassJumpsFlows                              // and past runs of other flows that wait
	PassAnyFlow                                 // and to runs of other workflows and priorities
	PassAnySize                                 // whatever the size of the runs
	PassShort                                   // the lease is shorter than the commit asks
	PassWithoutLimits                           // runs under no limit are leased, too
	PassAnyBuild                                // also runs that are pinned to another build than that of the lease
)

// LimitLeaks plus the number of a transition keeps the permits of the leases that it ends.
const LimitLeaks LimitFault = 100

// leak keeps the permits of a run without its lease, or with n of -1 gives back what it does not have.
func (s *Store) leak(r *run, n int64) {
	for _, u := range slices.Concat(r.Under, r.StepUnder) {
		s.leaked[limitKey{r.Namespace, u.Limit, u.Key}] += n
	}
}

// BreakLimits makes the store break a rule.
func (s *Store) BreakLimits(f LimitFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks = f
}

// leaksOn keeps the permits of a lease that a transition ends, if that is the fault.
func (s *Store) leaksOn(r *run, kind store.TransitionKind) {
	if s.breaks == LimitLeaks+LimitFault(kind) {
		s.leak(r, 1)
	}
	if s.breaks == LimitStepsLeak && len(r.StepUnder) > 0 {
		s.leak(&run{Run: store.Run{Namespace: r.Namespace, StepUnder: r.StepUnder}}, 1)
	}
}

// zombiePasses passes the permits of a lost lease on, if that is the fault.
func (s *Store) zombiePasses(r *run, c *store.Commit, now time.Time) {
	if s.breaks != PassZombie || r == nil || c.Transition == nil || c.Transition.PassOn == 0 {
		return
	}
	s.countPermits()
	if next := s.heir(&run{Run: r.Run}, now); next != nil {
		next.lease(c.Lease.Worker, "", c.Transition.PassOn, now)
	}
	s.counted = nil
}

// turnAnew begins the turns of a limit's keys anew, if that is the fault.
func (s *Store) turnAnew(limit name) {
	if s.breaks != LimitFairAnew {
		return
	}
	delete(s.turns, limit)
	for id, k := range s.keys {
		if id.namespace == limit.namespace && id.limit == limit.name {
			k.vtime = 0
		}
	}
}
