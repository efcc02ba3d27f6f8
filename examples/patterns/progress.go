package patterns

import (
	"context"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// Loaded is how far a load is.
type Loaded struct{ Rows, Total int }

// LoadProgress is the view of a load that programs and people read.
var LoadProgress = workflow.NewView[Loaded]("progress")

// Load copies rows in portions. Each portion publishes how far the load is.
func Load(portion func(ctx context.Context, from int) (rows int, err error)) *workflow.Workflow[int, int] {
	return workflow.New("load", func(ctx workflow.Context, total int) (rows int, err error) {
		for rows < total {
			rows, err = workflow.Step(ctx, "portion", func(ctx context.Context) (int, error) {
				n, err := portion(ctx, rows)
				if err != nil {
					return rows, err
				}
				return rows + n, LoadProgress.Publish(workflow.InStep(ctx), Loaded{rows + n, total})
			})
			if err != nil {
				return rows, err
			}
		}
		return rows, nil
	})
}

// Percent tells how far a load is. It needs no worker.
func Percent(ctx context.Context, eng *engine.Engine, load store.ID) (int, error) {
	l, ok, err := LoadProgress.Get(ctx, eng, load)
	if err != nil || !ok || l.Total == 0 {
		return 0, err
	}
	return 100 * l.Rows / l.Total, nil
}

// Follow shows how far a load is, until it ends.
func Follow(ctx context.Context, eng *engine.Engine, load store.ID, show func(Loaded)) error {
	for l, err := range LoadProgress.Watch(ctx, eng, load) {
		if err != nil {
			return err
		}
		show(l.Value)
	}
	return nil
}
