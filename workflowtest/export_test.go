package workflowtest

import (
	"testing"

	"github.com/pawlhq/pawl/workflow"
)

// CrashWith is CrashEverywhere that hands what it finds to complain.
func CrashWith[In, Out any](t *testing.T, complain func(format string, args ...any), w *workflow.Workflow[In, Out], in In, opts ...CrashOption) {
	crashEverywhere(t, complain, w, in, opts)
}
