package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// One promise runs its cases and no others, and the report says what came of them.
func TestPromiseAndReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	suitetest.SetFlag(t, "conformance.promise", "P9")
	suitetest.SetFlag(t, "conformance.report", file)
	t.Run("store", func(t *testing.T) { Run(t, Harness{New: suitetest.NewModel}) })
	t.Run("random", func(t *testing.T) { RunRandom(t, Harness{New: suitetest.NewModel}) })
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, 1, r.Format)
	require.Equal(t, store.ContractVersion, r.Contract)
	require.NotEmpty(t, r.Go)
	require.NotEmpty(t, r.Pawl)
	in := r.Tiers[len(r.Tiers)-1]
	require.Equal(t, "TestPromiseAndReport/store", in.Test, "a tier about all promises is left out")
	n := 0
	for _, cs := range Cases() {
		if cs.Promise == "P9" {
			n++
		}
	}
	require.Equal(t, map[string]Tally{"P9": {Passed: n}}, in.Promises)
	require.Equal(t, Tally{Passed: n}, in.Cases)
	require.True(t, in.Passed)
	require.Greater(t, in.Seconds, 0.0)
}
