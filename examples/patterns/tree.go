package patterns

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Bar draws how far a run and all of its descendants are, until the run ends.
func Bar(ctx context.Context, eng *engine.Engine, run store.ID, draw func(line string)) error {
	for p, err := range eng.WatchProgress(ctx, run) {
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%d of %d, %d failed", p.Ended(), p.Total, p.Failed)
		if p.Left > 0 {
			line += fmt.Sprintf(", %.1f/s, about %v left", p.Rate, p.Left.Round(time.Second))
		}
		draw(line)
	}
	return nil
}
