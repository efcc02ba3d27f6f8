package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

func init() {
	bridge.EngineSide.Of = func(eng any) bridge.Engine { return hooks{eng.(*Engine)} }
	bridge.EngineSide.Exported = exported
}

// hooks is an engine as its workers see it.
type hooks struct{ e *Engine }

func (h hooks) Attach(w bridge.LocalWorker)     { h.e.attach(w) }
func (h hooks) Settle(o bridge.Outcome)         { h.e.settle(Outcome(o)) }
func (h hooks) Unsettle()                       { h.e.unsettle() }
func (h hooks) Recheck(run store.ID)            { h.e.recheck(run) }
func (h hooks) Telemetry() *telemetry.Telemetry { return h.e.telemetry() }

func (h hooks) Know(workflow, queue string, needs ...exec.LimitNeed) {
	h.e.know(workflow, queue, needs)
}

func (h hooks) CalleeOf(ctx context.Context, workflow string) (exec.Callee, error) {
	known, err := h.e.registered(ctx, workflow)
	if errors.Is(err, ErrUnknownWorkflow) {
		return exec.Callee{Queue: workflow}, nil // the queue that workflow.New gives it
	}
	return exec.Callee{Queue: known.queue, Needs: known.needs}, err
}

func (h hooks) Registration(workflow, queue string, graph json.RawMessage, needs ...exec.LimitNeed) (store.Workflow, error) {
	return h.e.registration(workflow, queue, graph, needs)
}

func (h hooks) Housekeeper(owner string, hold time.Duration) bridge.Housekeeper {
	return keeper{h.e.housekeeper(owner, hold)}
}

// keeper is a housekeeper as workers see it.
type keeper struct{ *housekeeper }

func (k keeper) Fire(ctx context.Context) (bridge.Pass, error) {
	pass, err := k.fireDue(ctx)
	return bridge.Pass(pass), err
}

func (k keeper) Tidy(ctx context.Context) (bridge.Pass, error) {
	pass, err := k.tidy(ctx)
	return bridge.Pass(pass), err
}

func (k keeper) NextPurge(ctx context.Context) (time.Time, error) { return k.nextPurge(ctx) }
func (k keeper) Ended(run store.ID) bool                          { return k.ended(run) }
func (k keeper) Release(ctx context.Context)                      { k.release(ctx) }
