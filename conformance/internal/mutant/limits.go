package mutant

import (
	"fmt"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// breaksLimits makes a store that breaks a rule of limits.
func breaksLimits(f model.LimitFault) func(*model.Store) store.Store {
	return wrap(func(s *faulty) { s.Store.BreakLimits(f) })
}

// leaks are the stores that keep the permits of leases that a transition ends.
func leaks() (list []Mutant) {
	for kind := store.CompleteRun; kind <= store.GiveBack; kind++ {
		list = append(list, Mutant{
			fmt.Sprintf("limit-leaks-on-transition-%d", kind), "P24", "a permit stays when its lease ends by the transition " + kind.String(),
			breaksLimits(model.LimitLeaks + model.LimitFault(kind)),
		})
	}
	return list
}

var limitMutants = []Mutant{
	{"limit-one-more", "P21", "a concurrency permits one lease more", breaksLimits(model.LimitOneMore)},
	{"limit-counts-before", "P21", "a claim counts the leases before it takes runs, and not its own", breaksLimits(model.LimitCountsBefore)},
	{"limit-forgets-expired", "P21", "an expired lease holds no permit", breaksLimits(model.LimitForgetsExpired)},
	{"limit-takeover-waits", "P21", "a takeover waits for a permit of its own", breaksLimits(model.LimitTakeoverWaits)},
	{"limit-forgets-keys", "P21", "all keys of a limit are counted together", breaksLimits(model.LimitForgetsKeys)},
	{"limit-ignores-empty-key", "P21", "runs with an empty key are not limited", breaksLimits(model.LimitIgnoresKeys)},
	{"limit-first-only", "P21", "only the first limit of a run counts", breaksLimits(model.LimitFirstOnly)},
	{"limit-any-of", "P21", "a run goes when one of its limits permits it", breaksLimits(model.LimitAnyOf)},
	{"limit-ignores-set", "P21", "what an operator has set does not count", breaksLimits(model.LimitIgnoresSet)},
	{"limit-ignores-steps", "P21", "the limits of steps do not hold anybody back", breaksLimits(model.LimitIgnoresSteps)},
	{"limit-eager", "P21", "a start with a worker takes a lease although it is under a limit", breaksLimits(model.LimitEager)},
	{"limit-blocks-others", "P21", "a run that is held back holds back those behind it", breaksLimits(model.LimitBlocksOthers)},
	{"limit-held-is-due", "P21", "runs that a concurrency holds back are in NextDue", breaksLimits(model.LimitNextDueHeld)},
	{"limit-crosses-namespaces", "P15", "the leases of other namespaces count", breaksLimits(model.LimitCrossNamespaces)},
	{"limit-free-leaks", "P24", "a commit with Free does not end the permits of the step", breaksLimits(model.LimitLeaksFree)},
	{"limit-keeps-step", "P21", "a run keeps the limits of its step when its lease ends", breaksLimits(model.LimitKeepsStep)},
	{"limit-steps-leak", "P21", "the permit of a step stays when its lease ends", breaksLimits(model.LimitStepsLeak)},
	{"limit-leaks-on-force", "P24", "a permit stays when its run is ended by force", breaksLimits(model.LimitLeaksForce)},
	{"limit-gives-back-twice", "P24", "an end that is sent again gives the permit back again", breaksLimits(model.LimitGivesTwice)},
	{"limit-zombie-gives-back", "P24", "a holder that has lost its lease gives the permit back", breaksLimits(model.LimitZombieGives)},
	{"limit-takeover-counts-anew", "P21", "a takeover takes a permit of its own, and the old one stays", breaksLimits(model.LimitTakeoverCounts)},
	{"rate-ignored", "P22", "a rate permits everything", breaksLimits(model.LimitIgnoresRate)},
	{"rate-burst-twice", "P22", "a key has its burst again when a window of the clock begins", breaksLimits(model.LimitBurstTwice)},
	{"rate-burst-ignored", "P22", "the burst is the tokens of the rate", breaksLimits(model.LimitBurstIsTokens)},
	{"rate-saves-up", "P22", "an idle key saves tokens above its burst", breaksLimits(model.LimitSavesUp)},
	{"rate-tokens-again", "P22", "each claim takes the tokens, also after a sleep", breaksLimits(model.LimitTokensAgain)},
	{"rate-tokens-once", "P22", "a retry takes no tokens", breaksLimits(model.LimitTokensOnce)},
	{"rate-one-token", "P22", "each attempt takes one token", breaksLimits(model.LimitOneToken)},
	{"rate-big-starves", "P22", "an attempt of more tokens than the burst never goes", breaksLimits(model.LimitBigStarves)},
	{"rate-big-is-cheap", "P22", "an attempt of more tokens than the burst pays for the burst only", breaksLimits(model.LimitBigIsCheap)},
	{"rate-steps-are-free", "P22", "steps take no tokens", breaksLimits(model.LimitStepTokensFree)},
	{"rate-next-due-forgotten", "P22", "the time of the next token is not in NextDue", breaksLimits(model.LimitNextDueLate)},
	{"fair-no-turns", "P23", "keys take no turns", breaksLimits(model.LimitUnfair)},
	{"fair-credit", "P23", "a newcomer has credit for the time before", breaksLimits(model.LimitCredit)},
	{"fair-no-weights", "P23", "weights do not count", breaksLimits(model.LimitNoWeights)},
	{"limit-weight-forgotten", "P23", "a key that no run holds a permit of has no weight", breaksLimits(model.LimitForgetsWeight)},
	{"limit-bytes-anew", "P12", "after each two runs, a claim takes one more whatever its size", breaksLimits(model.LimitBytesAnew)},
	{"fair-anew", "P23", "a change of a limit's rule begins the turns of its keys anew", breaksLimits(model.LimitFairAnew)},
	{"limit-await-sleeps", "P9", "the end of its children does not wake a parent under a limit", breaksLimits(model.LimitAwaitSleeps)},
	{"pass-on-leaks", "P24", "a permit that is passed on counts anew, and the old one stays", breaksLimits(model.PassLeaks)},
	{"pass-on-uncounted", "P21", "a permit that is passed on no longer counts", breaksLimits(model.PassUncounted)},
	{"pass-on-twice", "P4", "an end that is sent again passes permits on again", breaksLimits(model.PassTwice)},
	{"pass-on-forgotten", "P4", "the result of an end that is sent again does not have the run", breaksLimits(model.PassForgets)},
	{"pass-on-stale", "P4", "the result of an end that is sent again has the run also when that lease is over", breaksLimits(model.PassStale)},
	{"pass-on-of-a-zombie", "P2", "a commit whose lease is lost passes permits on", breaksLimits(model.PassZombie)},
	{"pass-on-overtakes", "P7", "permits are passed on past a run that needs a replay", breaksLimits(model.PassOvertakes)},
	{"pass-on-history", "P7", "permits are passed on to a run that needs a replay", breaksLimits(model.PassHistory)},
	{"pass-on-unordered", "P7", "permits are passed on to the last run of a flow", breaksLimits(model.PassUnordered)},
	{"pass-on-early", "P7", "permits are passed on to a run that is not due", breaksLimits(model.PassEarly)},
	{"pass-on-under-a-rate", "P21", "permits are passed on under a rate, without tokens", breaksLimits(model.PassIgnoresRate)},
	{"pass-on-unfair", "P21", "permits are passed on under a fair limit", breaksLimits(model.PassIgnoresFair)},
	{"pass-on-while-paused", "P21", "permits are passed on in a paused queue", breaksLimits(model.PassIgnoresPause)},
	{"pass-on-above-the-limit", "P21", "permits are passed on although more leases are under a limit than it permits", breaksLimits(model.PassIgnoresLowered)},
	{"pass-on-jumps-flows", "P7", "permits are passed on past runs of other flows that wait for them", breaksLimits(model.PassJumpsFlows)},
	{"pass-on-to-any-flow", "P7", "permits are passed on to runs of other workflows and priorities", breaksLimits(model.PassAnyFlow)},
	{"pass-on-of-any-size", "P12", "permits are passed on to runs of any size", breaksLimits(model.PassAnySize)},
	{"pass-on-too-short", "P21", "a lease that is passed on is shorter than the commit asks", breaksLimits(model.PassShort)},
	{"pass-on-without-limits", "P21", "runs under no limit are leased by the end of another", breaksLimits(model.PassWithoutLimits)},
	{"pass-on-to-any-build", "P19", "permits are passed on to a run that is pinned to another build than that of the lease", breaksLimits(model.PassAnyBuild)},
	{"fair-forgets", "P23", "each claim begins the turns anew", breaksLimits(model.LimitFairForgets)},
}
