package model

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
)

// BreakLimits makes the store break a rule.
func (s *Store) BreakLimits(f LimitFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks = f
}
