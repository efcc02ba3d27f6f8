// Package bridge is how the public packages of the module reach the parts of each other
// that users do not see: what a worker needs of its engine, and what a worker or a flow
// needs of a workflow's definition. Packages engine and workflow install their side when they
// are initialized.
package bridge

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// An Engine is the part of an engine that its workers use beside its public methods.
type Engine interface {
	// Attach makes a worker of this process known for eager starts. Nil ends that.
	Attach(w LocalWorker)
	// Know tells the engine that this process serves a workflow, its default queue, and the
	// limits that its runs are under, so that starts need not ask the store.
	Know(workflow, queue string, needs ...exec.LimitNeed)
	// CalleeOf returns what workers have registered of a workflow. If none has, its queue is the
	// workflow's name.
	CalleeOf(ctx context.Context, workflow string) (exec.Callee, error)
	// Settle tells the engine how a run ended that a worker of this process has just
	// committed as final. Those who wait for the run then need no look at the store. The
	// engine remembers completed runs only: others may be restarted, by anyone.
	Settle(o Outcome)
	// Unsettle makes the engine forget the runs of Settle, because the store may have lost their
	// ends. Those who wait for one of them ask the store.
	Unsettle()
	// Recheck tells the engine that a worker of this process has given up a run without
	// telling of its end. The engine asks the store again.
	Recheck(run store.ID)
	// Registration returns the row with which workers register a workflow, with the
	// retention that this engine gives it and the limits that its runs are under. It fails with store.ErrInvalid if that retention
	// is not valid, and with store.ErrTooLarge if the graph is too large.
	Registration(workflow, queue string, graph json.RawMessage, needs ...exec.LimitNeed) (store.Workflow, error)
	// Telemetry returns the engine's spans and instruments.
	Telemetry() *telemetry.Telemetry
	// Housekeeper returns a new housekeeper of the engine's namespace. Owner names it in the
	// store, and hold is how long it may keep others waiting if it dies.
	Housekeeper(owner string, hold time.Duration) Housekeeper
}

// Outcome is how a run ended: engine.Outcome.
type Outcome struct {
	Run      store.ID
	Workflow string
	Status   store.Status   // a final one
	Output   []byte         // of a completed run
	Failure  *store.Failure // of another
}

// A LocalWorker is a worker in the engine's own process. A start whose workflow it serves
// and for which it has a free slot takes the lease in the same write that makes the run (an
// eager start), which saves the claim.
type LocalWorker interface {
	// Reserve keeps a slot for a run of that queue and workflow. It returns false if none
	// is free, or if others wait for one already.
	Reserve(queue, workflow string) bool
	// Identity returns what the lease is taken with.
	Identity() (worker, build string, leaseFor time.Duration)
	// Holds reports whether the worker executes a run. It must not call the engine.
	Holds(id store.ID) bool
	// Adopt hands over the run that was leased for the slot; asked is when the start was
	// sent.
	Adopt(run *store.ClaimedRun, asked time.Time)
	// Release gives back the slot that was kept for a run of that workflow.
	Release(workflow string)
}

// A Housekeeper does the housekeeping of a namespace, pass after pass. Of any number of
// them, in any processes, one at a time does each part: it holds a named lock of the store,
// which it takes only when there is something to do.
type Housekeeper interface {
	// Fire fires the schedules that are due, in bounded batches, until none is.
	Fire(ctx context.Context) (Pass, error)
	// Tidy deletes the runs that retention says to delete, and removes the registrations of
	// workers that died long ago. Pass.Next is when to call it again.
	Tidy(ctx context.Context) (Pass, error)
	// NextPurge returns when retention, as the last Tidy has read it, next deletes a run, by
	// this machine's clock, and not before Tidy is to be called again. A zero time means
	// that retention keeps all runs that are final by now. It reads the hundred final runs
	// that ended first, of those statuses that some retention deletes. Where all of them are
	// kept for longer than later ones may be, the time is that at which one of those may be
	// deleted first.
	NextPurge(ctx context.Context) (time.Time, error)
	// Ended tells that a run is final; the zero ID, that any run may be. It reports whether
	// a schedule has waited for that run, so that Fire has something to do.
	Ended(run store.ID) bool
	// Release gives up the lock, so that others can fire at once. The housekeeper may go on.
	Release(ctx context.Context)
}

// Pass is what a pass of housekeeping has done: engine.Pass.
type Pass struct {
	Fired   int
	Skipped int
	Waiting int
	Purged  int
	Workers int
	Dropped int

	Next      time.Time
	Again     time.Time
	Elsewhere bool
}

// EngineSide is what package engine installs.
var EngineSide struct {
	// Of returns the hidden part of an *engine.Engine.
	Of func(eng any) Engine
	// Exported returns the runs of what engine.Engine.Export has written.
	Exported func(r io.Reader) ([]store.RunRecord, error)
}

// Exported returns the runs of what engine.Engine.Export has written, with their records. It
// fails with store.ErrInvalid for anything else.
func Exported(r io.Reader) ([]store.RunRecord, error) { return EngineSide.Exported(r) }

// Of returns the hidden part of an engine, which must be an *engine.Engine.
func Of(eng any) Engine { return EngineSide.Of(eng) }

// A Definer is a workflow.Definition that defines itself otherwise than those of package
// workflow.
type Definer interface {
	Define(codec exec.Codec) *exec.Definition
}

// WorkflowSide is what package workflow installs.
var WorkflowSide struct {
	// Define returns what a workflow.Definition defines.
	Define func(def any, codec exec.Codec) *exec.Definition
	// StepOptions applies a []workflow.StepOption to the given options.
	StepOptions func(opts any, to exec.StepOptions) exec.StepOptions
}

// Define returns what a definition, which must be a workflow.Definition, defines with a
// codec.
func Define(def any, codec exec.Codec) *exec.Definition {
	if d, ok := def.(Definer); ok {
		return d.Define(codec)
	}
	return WorkflowSide.Define(def, codec)
}

// StepOptions applies step options, a []workflow.StepOption, to the given ones. Nil options
// are left out.
func StepOptions(opts any, to exec.StepOptions) exec.StepOptions {
	return WorkflowSide.StepOptions(opts, to)
}
