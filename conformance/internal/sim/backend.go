package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/report"
)

// simulated is the number of seeds that RunBackend runs.
const simulated = 200

// RunBackend runs the simulation on a backend, as a tier of the suite.
func RunBackend(t *testing.T, h harness.Harness) {
	if !h.Bubble {
		t.Fatal("the simulation needs a backend that works in a synctest bubble, and a harness that says so: Bubble")
	}
	if !report.Wholly(t) {
		return
	}
	harness.WholeTier(t, "simulation", &h)
	if h.Progress {
		h.WaitsWholly(t, h.New(t), "simulation")
	}
	c := Config{Open: h.New, First: 1, Seeds: simulated, Repeat: func(seed uint64) string {
		return fmt.Sprintf("PAWL_SIM_SEED=%d go test -run '^%s$'", seed, t.Name())
	}}
	if s := os.Getenv("PAWL_SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PAWL_SIM_SEED=%q is no seed: %v", s, err)
		}
		c.First, c.Seeds, c.Trace = seed, 1, os.Stdout
	}
	Run(t, c)
}
