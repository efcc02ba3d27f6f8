//go:build !race

// This file is left out under the race detector: it finds no races, and takes long there.

package sim_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/sim"
	"github.com/pawlhq/pawl/store"
)

// The faulty stores whose faults the simulation's workload can reach.
var visible = []string{
	"cancel-after-completion", "cancel-takes-the-lease", "extension-hides-a-cancel", "takeover-forgets-the-cancel",
	"cancel-ends-what-waits", "last-claim-forgets-the-cancel", "last-claim-without-history",
	"transition-loses-steps", "repeat-applied-again", "seq-counted-over-leases",
	"create-repeat-is-a-conflict", "claim-ignores-max-over-all", "running-run-claimed-again", "epoch-not-raised",
	"lease-not-extended", "commit-lengthens-the-lease", "no-epoch-check", "extended-after-takeover", "extended-after-finish",
	"crash-not-counted", "crashes-never-cleared", "release-counted-as-crash", "expired-lease-is-dead", "recovered-only-by-its-worker",
	"external-id-never-freed", "timer-early", "sleeps-in-whole-milliseconds", "retry-keeps-failed-steps", "retry-keeps-what-followed",

	"limit-one-more", "limit-counts-before", "limit-forgets-expired", "limit-first-only", "limit-any-of",
	"limit-ignores-steps", "limit-free-leaks", "limit-keeps-step", "limit-steps-leak", "limit-gives-back-twice", "limit-zombie-gives-back", "limit-takeover-counts-anew",
	"rate-ignored", "rate-burst-twice", "rate-burst-ignored", "rate-saves-up", "rate-tokens-once", "rate-one-token", "rate-steps-are-free",
	// By the feeds.
	"start-signal-lost-on-a-run", "start-without-its-signal", "start-signal-repeated-to-the-next-run", "start-signal-makes-a-second-run",
	"answer-lost-with-a-transition", "answer-only-with-its-signal", "continue-drops-answers", "end-drops-answers",
	"superseded-items-stay", "no-reset-mark", "crash-supersedes-nothing", "takeover-drops-items", "append-twice", "zombie-appends",
	"items-lost-with-a-sleep", "continue-drops-items", "end-drops-items",
	"tags-not-of-a-start", "tags-added", "tags-lost-with-any-commit", "sleep-drops-tags", "continue-drops-tags", "end-drops-tags",
	// By the webhook.
	"outbox-loses-eager-starts", "outbox-loses-children", "outbox-tells-of-claims", "outbox-tells-of-refused", "outbox-put-forgets", "outbox-overtakes",
	"outbox-settles-what-it-has-not-seen",
}

// The simulation finds the fault of each faulty store.
func TestMutantsInTheSimulation(t *testing.T) {
	const most = 500 // seeds for each
	for _, m := range mutant.All() {
		if !slices.Contains(visible, m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			var counts sim.Counts
			for seed := uint64(1); seed <= most; seed++ {
				res := sim.Seed(t, func(testing.TB) store.Store { return m.Wrap(model.New(model.Options{})) }, seed, &counts)
				if len(res.Failures) > 0 {
					t.Logf("found by seed %d: %s", seed, res.Failures[0])
					return
				}
			}
			t.Errorf("%s (%s) is not found by %d seeds", m.Name, m.Fault, most)
		})
	}
}
