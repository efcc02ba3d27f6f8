package sim

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Config configures [Run].
type Config struct {
	Open   Opener
	First  uint64 // the first seed
	Seeds  int
	Repeat func(seed uint64) string // the command that runs one seed again
	Trace  io.Writer                // where all that happened in a failed seed is written; nil: nowhere
	Quotas bool                     // each fault and each rare branch must have come often enough
}

// hung is how long, in real time, a seed may take before it is reported. If a goroutine never
// blocks, time in the bubble stands still, and only the test's timeout would end it.
const hung = 30 * time.Second

// Run runs seeds, as many at a time as there are processors.
func Run(t *testing.T, c Config) {
	var (
		counts Counts
		next   atomic.Uint64
		failed atomic.Int64
		slow   struct {
			sync.Mutex
			seed uint64
			took time.Duration
		}
		began = time.Now()
		end   = c.First + uint64(c.Seeds)
	)
	next.Store(c.First)
	t.Run("seeds", func(t *testing.T) {
		for range min(runtime.GOMAXPROCS(0), c.Seeds) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < end && failed.Load() < 5; seed = next.Add(1) - 1 {
					from := time.Now()
					watchdog := time.AfterFunc(hung, func() {
						fmt.Fprintf(os.Stderr, "seed %d does not end; to repeat:\n%s\n", seed, c.Repeat(seed))
					})
					res := Seed(t, c.Open, seed, &counts)
					watchdog.Stop()
					slow.Lock()
					if took := time.Since(from); took > slow.took {
						slow.seed, slow.took = seed, took
					}
					slow.Unlock()
					if len(res.Failures) == 0 {
						continue
					}
					failed.Add(1)
					if c.Trace != nil {
						res.WriteTrace(c.Trace)
					}
					t.Errorf("seed %d:\n%s\nto repeat:\n%s", seed, res.String(), c.Repeat(seed))
				}
			})
		}
	})
	if c.Seeds == 1 {
		return
	}
	t.Logf("%d seeds, %.0f a second; the slowest, %d, took %v", c.Seeds, float64(c.Seeds)/time.Since(began).Seconds(), slow.seed, slow.took)
	counts.Log(t, c.Seeds)
	if c.Quotas && failed.Load() == 0 {
		for _, m := range counts.Missing(c.Seeds) {
			t.Errorf("quota missed: %s", m)
		}
	}
}
