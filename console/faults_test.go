package console_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/browsertest"
)

// fault is one of the planted faults: the clicks that lead to it from the overview, and how its page names
// it and what helps.
type fault struct {
	name   string
	clicks []string // texts of links
	names  string
	remedy string
}

// faults are all of them.
func (s *scene) faults() []fault {
	id := func(what string) string { // as the lists show it
		full := s.ids[what]
		return full[:8] + "…" + full[len(full)-6:]
	}
	return []fault{
		{"stuck on a limit", []string{"waiting", id("payout-2")}, `limit "partner", key "acme": 1 of 1 held by run`, "raise the limit"},
		{"stranded build", []string{"stranded", id("account-8")}, `it is pinned to build "v1", and no worker of that build is online`, `Start a worker of build "v1"`},
		{"paused queue", []string{"waiting", id("mail-3")}, "its queue \"send-mail\" has been paused", "Resume the queue"},
		{"poisonous run", []string{"failed in the last hour", id("resize-6")}, "crashed", "check the workers' logs for why it ends its process"},
		{"missing worker", []string{"See the waiting runs", id("import-1")}, "no worker has ever registered its workflow", "run a worker that registers it"},
		{"expired deadline", []string{"failed in the last hour", id("payment-5")}, "deadline", "A restarted run has no deadline"},
		{"late schedule", []string{"See the schedules", "ten-minutes"}, "The schedule is late", "start a worker"},
		{"deadlocked branches", []string{"failed in the last hour", id("reconcile-2")}, "the branches of the run wait for each other", "deploy code in which one of the branches"},
		{"failed child", []string{"failed in the last hour", id("pack-12")}, "item 3 is out of stock", "Look at the child that failed"},
		{"signal never sent", []string{"sleeping", id("refund-7")}, "waits for signal approved", "Send it the signal"},
	}
}

func TestPlantedFaultsAreFoundInThreeClicks(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	p := browsertest.Open(t)
	for _, f := range s.faults() {
		require.LessOrEqual(t, len(f.clicks), 3, f.name)
		p.Go(at)
		for _, text := range f.clicks {
			require.Equal(t, http.StatusOK, p.FollowText(text), f.name)
		}
		said := p.Text("main")
		require.Contains(t, said, f.names, f.name)
		require.Contains(t, said, f.remedy, f.name)
	}
}
