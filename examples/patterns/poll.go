package patterns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Export is a job in another system.
type Export struct {
	State string // working, done, failed
	URL   string
}

// Exporter is that system. The same key again is the same job.
type Exporter interface {
	Begin(ctx context.Context, table, key string) (job string, err error)
	Look(ctx context.Context, job string) (Export, error)
}

var errNotYet = errors.New("not yet")

// ExportTable lets another system do a job and waits for its end, of which the
// other system does not tell.
func ExportTable(other Exporter) *workflow.Workflow[string, string] {
	return workflow.New("export-table", func(ctx workflow.Context, table string) (url string, err error) {
		job, err := workflow.Step(ctx, "begin", func(ctx context.Context) (string, error) {
			return other.Begin(ctx, table, workflow.IdempotencyKey(ctx))
		})
		if err != nil {
			return "", err
		}
		return workflow.Step(ctx, "await", func(ctx context.Context) (string, error) {
			switch export, err := other.Look(ctx, job); {
			case err != nil:
				return "", err
			case export.State == "failed":
				return "", workflow.Permanent(fmt.Errorf("export %s has failed", job))
			case export.State != "done":
				return "", errNotYet
			default:
				return export.URL, nil
			}
		}, workflow.Attempts(-1), workflow.Backoff(2*time.Second, 2, 5*time.Minute), workflow.Timeout(time.Minute))
	})
}

// Exported is sent by the handler of a callback, when the other system has one.
var Exported = workflow.NewSignal[string]("exported")

// ExportTableCallback waits for the callback, and looks once a day in case it was
// lost.
func ExportTableCallback(other Exporter) *workflow.Workflow[string, string] {
	return workflow.New("export-table-callback", func(ctx workflow.Context, table string) (url string, err error) {
		job, err := workflow.Step(ctx, "begin", func(ctx context.Context) (string, error) {
			return other.Begin(ctx, table, workflow.IdempotencyKey(ctx))
		})
		for err == nil {
			url, err = Exported.ReceiveTimeout(ctx, 24*time.Hour)
			if !errors.Is(err, workflow.ErrTimeout) {
				return url, err
			}
			var export Export
			export, err = workflow.Step(ctx, "look", func(ctx context.Context) (Export, error) { return other.Look(ctx, job) })
			if err == nil && export.State == "done" {
				return export.URL, nil
			}
		}
		return "", err
	})
}
