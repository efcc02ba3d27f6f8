package sim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/sim"
	"github.com/pawlhq/pawl/store"
)

var (
	oneSeed   = flag.Uint64("sim.seed", 0, "run this seed alone")
	firstSeed = flag.Uint64("sim.first", 1, "begin with this seed")
	seeds     = flag.Int("sim.seeds", 0, "how many seeds to run on each store; 0: what fits into CI")
	onlyStore = flag.String("sim.store", "", "run on this store alone: model or sqlite")
	trace     = flag.Bool("sim.trace", false, "write everything that happened in a failed seed")
)

// stores are the stores that the simulation runs on, with the number of seeds in a usual run.
var stores = []struct {
	name  string
	open  sim.Opener
	seeds int
	raced int // seeds under the race detector
}{
	{"model", func(testing.TB) store.Store { return model.New(model.Options{}) }, 2000, 100},
	{"sqlite", func(tb testing.TB) store.Store {
		s, err := sqlite.Open(context.Background(), ":memory:")
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}, 1000, 20},
}

func TestSimulation(t *testing.T) {
	for _, st := range stores {
		if *onlyStore != "" && *onlyStore != st.name {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			c := sim.Config{Open: st.open, First: *firstSeed, Seeds: st.seeds, Quotas: true, Repeat: func(seed uint64) string {
				return fmt.Sprintf("go test ./conformance/internal/sim -run TestSimulation -sim.store=%s -sim.seed=%d -sim.trace", st.name, seed)
			}}
			switch {
			case race:
				c.Seeds = st.raced
			case testing.Short():
				c.Seeds /= 10
			}
			if *seeds > 0 {
				c.Seeds = *seeds
			}
			if *trace {
				c.Trace = os.Stdout
			}
			if *oneSeed != 0 {
				c.First, c.Seeds, c.Quotas = *oneSeed, 1, false
			}
			if c.Seeds < 500 {
				c.Quotas = false
			}
			sim.Run(t, c)
		})
	}
}

func TestCrashPoints(t *testing.T) {
	for _, st := range stores {
		if *onlyStore != "" && *onlyStore != st.name {
			continue
		}
		stride := 1
		switch {
		case race:
			stride = st.seeds / st.raced
		case testing.Short():
			stride = 8
		}
		t.Run(st.name, func(t *testing.T) {
			for _, name := range sim.References() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					var counts sim.Counts
					crashes, failures := sim.CrashPoints(t, st.open, name, stride, &counts)
					for _, f := range failures {
						t.Error(f)
					}
					if crashes < 20/stride {
						t.Errorf("there were %d crashes: the reference makes too few calls", crashes)
					}
					t.Logf("%d crashes", crashes)
				})
			}
		})
	}
}
