package storetier

import (
	"context"

	"github.com/pawlhq/pawl/conformance/internal/kit"
)

// Short names for what the cases use from package kit on nearly every line.
const (
	aQueue    = kit.Queue
	aWorkflow = kit.Workflow
	aWorker   = kit.Worker
	kidQueue  = kit.KidQueue
	kidFlow   = kit.KidWorkflow
	aLease    = kit.Lease
)

var (
	began    = kit.Began
	show     = kit.Show
	complete = kit.Complete
	failWith = kit.FailWith
	sleepFor = kit.SleepFor
	step     = kit.Step
	digest   = kit.Digest
)

func patient[T any](ctx context.Context, call func() (T, error)) (T, error) {
	return kit.Patient(ctx, call)
}
