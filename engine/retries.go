package engine

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Attempts sets how often the run is tried, overriding its workflow's setting
// (workflow.RunAttempts). With 0 or 1 it is tried once; a negative n means without limit.
func Attempts(n int) StartOption {
	return func(r *store.NewRun) {
		r.Meta = exec.SetRetry(r.Meta, func(p *exec.RunRetry) { p.Attempts = &n })
	}
}

// Backoff sets the wait between the attempts of the run, overriding its workflow's setting
// (workflow.RunBackoff). The parameters are those of workflow.Backoff.
func Backoff(initial time.Duration, factor float64, limit time.Duration) StartOption {
	return func(r *store.NewRun) {
		r.Meta = exec.SetRetry(r.Meta, func(p *exec.RunRetry) { p.Backoff = &exec.RunRetryDelay{Initial: initial, Factor: factor, Max: limit} })
	}
}
