package workflow

import (
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
)

func init() {
	bridge.WorkflowSide.Define = func(def any, codec exec.Codec) *exec.Definition { return def.(Definition).define(codec) }
	bridge.WorkflowSide.StepOptions = func(opts any, to exec.StepOptions) exec.StepOptions {
		o := stepOptions(to)
		for _, opt := range opts.([]StepOption) {
			if opt != nil {
				opt(&o)
			}
		}
		return exec.StepOptions(o)
	}
}
