package conformance

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/sim"
)

// simulated is how many seeds RunSimulation runs.
const simulated = 200

// RunSimulation runs engine and worker, unchanged, on a backend with h.Bubble in
// 200 simulated worlds: processes that are killed, stopped and woken again, calls
// that fail, hang or come through late, answers and hints that are lost. Each world
// follows from one number, its seed, and everything that reaches the store is
// checked. A failure names its seed; with that number in PAWL_SIM_SEED the test
// runs it alone and writes down all that happened.
func RunSimulation(t *testing.T, h Harness) {
	if !h.Bubble {
		t.Fatal("the simulation needs a backend that works in a synctest bubble, and a harness that says so: Bubble")
	}
	c := sim.Config{Open: h.New, First: 1, Seeds: simulated, Repeat: func(seed uint64) string {
		return fmt.Sprintf("PAWL_SIM_SEED=%d go test -run '^%s$'", seed, t.Name())
	}}
	if s := os.Getenv("PAWL_SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PAWL_SIM_SEED=%q is no seed: %v", s, err)
		}
		c.First, c.Seeds, c.Trace = seed, 1, os.Stdout
	}
	sim.Run(t, c)
}
