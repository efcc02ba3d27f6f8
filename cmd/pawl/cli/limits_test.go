package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// TestLimits: limits are listed, shown, set, weighed and unset, and the actions are recorded.
func TestLimits(t *testing.T) {
	db := databases(t)["sqlite"](t)
	s := migrated(t, db)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.Contains(t, s.run("limits", "list").err, "has no limits yet")
	require.Equal(t, exitNotFound, s.run("limits", "show", "tenant").code)
	require.NoError(t, st.PutLimits(t.Context(), store.PutLimitsParams{Namespace: "default", Limits: []store.Limit{{Name: "tenant", Rule: store.LimitRule{Concurrency: 1, Fair: true}}}}))
	var runs []store.NewRun
	for range 3 {
		runs = append(runs, store.NewRun{ID: store.NewID(), Workflow: "crawl", Queue: "crawl", Under: []store.LimitUse{{Limit: "tenant", Key: "acme"}}})
	}
	_, err = st.Create(t.Context(), store.CreateParams{Namespace: "default", Runs: runs})
	require.NoError(t, err)
	claimed, err := st.Claim(t.Context(), store.ClaimParams{Namespace: "default", Worker: "w", Max: 10, LeaseFor: time.Hour, Demands: []store.Demand{{Queue: "crawl", Workflows: []string{"crawl"}, Max: 10}}})
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 1)

	var list struct{ Limits []limitJSON }
	require.NoError(t, json.Unmarshal([]byte(s.must("limits", "list", "--json")), &list))
	require.Len(t, list.Limits, 1)
	l := list.Limits[0]
	require.Equal(t, []int64{1, 1, 2}, []int64{int64(l.Keys), l.Held, l.Waiting})
	require.Equal(t, ruleJSON{Concurrency: 1, Fair: true}, l.Rule)
	require.Contains(t, s.must("limits", "list"), "1 at a time, fair")

	s.must("limits", "set", "tenant", "--concurrency", "5", "--rate", "100/1m", "--burst", "10")
	s.must("limits", "weight", "tenant", "acme", "3")
	shown := s.must("limits", "show", "tenant")
	require.Contains(t, shown, "5 at a time, 100 per 1m0s with a burst of 10")
	require.Contains(t, shown, "code has registered: 1 at a time, fair")
	var show struct{ Keys []limitKeyJSON }
	require.NoError(t, json.Unmarshal([]byte(s.must("limits", "show", "tenant", "--json")), &show))
	require.Len(t, show.Keys, 1)
	require.Equal(t, []any{"acme", int64(1), int64(2), int64(3)}, []any{show.Keys[0].Key, show.Keys[0].Held, show.Keys[0].Waiting, show.Keys[0].Weight})
	s.must("limits", "unset", "tenant")
	require.NotContains(t, s.must("limits", "show", "tenant"), "operator")
	actions := s.must("actions")
	for _, verb := range []string{"set", "weight", "unset"} {
		require.Contains(t, actions, verb)
	}
	for _, bad := range [][]string{
		{"set", "tenant"}, {"set", "tenant", "--concurrency", "0"}, {"set", "tenant", "--rate", "5"}, {"set", "tenant", "--burst", "5"},
		{"weight", "tenant", "acme", "0"}, {"show", "tenant", "--limit", "0"},
	} {
		require.Equal(t, exitUsage, s.run(append([]string{"limits"}, bad...)...).code, bad)
	}
}
