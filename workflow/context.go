package workflow

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Context is what a workflow's function gets and hands to the operations of this
// package. It is no context.Context, so that the compiler keeps operations out of
// steps, which get a plain one.
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

// Info describes the run.
func (c Context) Info() Info {
	r := c.branch.Invocation().Run()
	return Info{RunID: r.ID, Namespace: r.Namespace, Workflow: r.Workflow, ExternalID: r.ExternalID,
		Attempt: r.Attempt, CreatedAt: r.CreatedAt, Deadline: r.Deadline}
}

// Logger logs with the run's attributes. What the function logs it logs again at
// each replay; log in steps what is to be said once.
func (c Context) Logger() *slog.Logger { return c.branch.Invocation().Logger() }

// IdempotencyKey is the same for every attempt of a step, also after a crash, and
// unique among all steps of all runs: hand it to the systems that the step calls.
// Outside a step it is empty.
func IdempotencyKey(ctx context.Context) string {
	if info := exec.Info(ctx); info != nil {
		return info.IdempotencyKey()
	}
	return ""
}

// Attempt counts the attempts of a step from 1. Outside a step it is 0.
func Attempt(ctx context.Context) int {
	if info := exec.Info(ctx); info != nil {
		return info.Attempt
	}
	return 0
}

// Logger logs with the attributes of the run and the step. Outside a step it is
// slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if info := exec.Info(ctx); info != nil {
		return info.Logger()
	}
	return slog.Default()
}
