package engine

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Attempts sets how often the run is tried, instead of what its workflow says
// (workflow.RunAttempts): at least once; negative: for ever.
func Attempts(n int) StartOption {
	return func(r *store.NewRun) {
		r.Meta = exec.SetRetry(r.Meta, func(p *exec.RunRetry) { p.Attempts = &n })
	}
}

// Backoff sets the wait between the attempts of the run, instead of what its workflow says
// (workflow.RunBackoff).
func Backoff(initial time.Duration, factor float64, limit time.Duration) StartOption {
	return func(r *store.NewRun) {
		r.Meta = exec.SetRetry(r.Meta, func(p *exec.RunRetry) { p.Backoff = &exec.RunRetryDelay{Initial: initial, Factor: factor, Max: limit} })
	}
}
