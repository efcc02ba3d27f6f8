package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/runner"
)

// The summary says how many cases of a noun passed, and for what the others wait.
func TestSummary(t *testing.T) {
	r := &Tier{nouns: map[string]*Tally{}, rep: TierReport{
		Promises: map[string]Tally{}, LeftOut: map[string]string{}, Exceptions: map[string]string{"claim/d": "known"},
		Waiting: map[string][]string{"claim/b": {"Commit"}, "commit/a": {"Commit", "Fork"}},
	}}
	for _, name := range []string{"create/a", "claim/a", "claim/b", "claim/d", "commit/a"} {
		r.Ended(&runner.Recorder{TB: t}, name, "P1")
	}
	broken := &runner.Recorder{TB: t}
	broken.Fail()
	r.Ended(broken, "claim/c", "P2")
	require.Equal(t, "create 1/1, claim 2/4, commit 0/1; 2 cases wait for Commit (2), Fork (1); 1 failed", r.summary())
	require.Equal(t, map[string]Tally{"P1": {Passed: 2, Excepted: 1, Waiting: 2}, "P2": {Failed: 1}}, r.rep.Promises)
	require.Equal(t, []string{"claim/c"}, r.rep.Failures)
}
