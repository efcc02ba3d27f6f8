package workflow

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Context is what a workflow's function gets and passes to the operations of this package. It is
// not a context.Context, so that the compiler keeps operations out of steps: a step gets a plain
// context.Context.
type Context struct {
	branch *exec.Branch
	codec  engine.Codec
}

// Info describes the run that a workflow's function is executing.
type Info struct {
	RunID      store.ID
	Namespace  string
	Workflow   string
	ExternalID string
	Attempt    int // of the run, from 1
	CreatedAt  time.Time
	Deadline   time.Time // zero: none
}

// Info returns a description of the run.
func (c Context) Info() Info {
	r := c.branch.Invocation().Run()
	return Info{RunID: r.ID, Namespace: r.Namespace, Workflow: r.Workflow, ExternalID: r.ExternalID,
		Attempt: r.Attempt, CreatedAt: r.CreatedAt, Deadline: r.Deadline}
}

// Logger returns a logger with the run's attributes. Each replay repeats what the workflow's
// function logs. To log something once, log it in a step.
func (c Context) Logger() *slog.Logger { return c.branch.Invocation().Logger() }

// IdempotencyKey returns a key that is the same for every attempt of a step, also after a
// crash, and unique among all steps of all runs. Pass it to the systems that the step
// calls. Outside a step it returns the empty string.
func IdempotencyKey(ctx context.Context) string {
	if info := exec.Info(ctx); info != nil {
		return info.IdempotencyKey()
	}
	return ""
}

// Attempt returns the number of the step's attempt, from 1. Outside a step it returns 0.
func Attempt(ctx context.Context) int {
	if info := exec.Info(ctx); info != nil {
		return info.Attempt
	}
	return 0
}

// Logger returns a logger with the attributes of the run and the step. Outside a step it
// returns slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if info := exec.Info(ctx); info != nil {
		return info.Logger()
	}
	return slog.Default()
}
